#include "cuda/dense/hand_over.h"

#include <algorithm>
#include <cstdlib>

#include "cuda/dense/fragment_chain.h"
#include "cuda/expression.h"

namespace transfuse::cuda {

namespace {

constexpr int least_instructions = 12;   // fewer hide behind the store role's loads
constexpr int most_instructions = 24;    // beside the accumulators there is room for few intermediate values

bool has(const std::vector<ValueId>& list, ValueId v) { return std::find(list.begin(), list.end(), v) != list.end(); }

// The per-channel operands of the steps before the handed value.
std::vector<size_t> operands_of(const Epilogue& epilogue) {
    const TileProgram& program = epilogue.program();
    std::vector<size_t> list;
    for (size_t k = 0; k < epilogue.reads().size(); ++k) {
        const ValueId value = epilogue.reads()[k].value;
        bool used = value == program.bias;
        for (ValueId v : program.before_handed) used = used || has(epilogue.graph()[v].args, value);
        if (used) list.push_back(k);
    }
    return list;
}

}  // namespace

void find_handed(TileProgram& program, const Epilogue& epilogue) {
    const Problem& problem = epilogue.problem();
    const Graph& graph = epilogue.graph();
    if (problem.family != Family::wgmma || program.pool || problem.cout <= 32) return;   // each channel in a row of its own
    for (const Lattice& axis : problem.axes)
        for (const Phase& phase : axis.phases())
            if (phase.taps.empty()) return;   // nobody multiplies there
    // The longest beginning of the chain whose last value is all that the rest needs of it.
    size_t length = 0;
    while (length < program.steps.size() && is_pointwise(graph[program.steps[length]].op) && fragment_operands(epilogue, program.steps[length])) ++length;
    for (; length > 0; --length) {
        const std::vector<ValueId> before(program.steps.begin(), program.steps.begin() + static_cast<std::ptrdiff_t>(length));
        auto inner = [&](ValueId v) { return v != before.back() && (v == program.around->pass.anchor || has(before, v)); };
        bool closed = true;
        for (size_t k = length; k < program.steps.size(); ++k)
            for (ValueId a : graph[program.steps[k]].args) closed = closed && !inner(a);
        for (const Operand& o : epilogue.stores()) closed = closed && !inner(o.value);
        for (const Partial& p : epilogue.partials()) closed = closed && !inner(p.reduction.of);
        if (!closed) continue;
        int cost = 0;
        for (ValueId v : before) cost += instructions(graph[v]);
        if (!std::getenv("TF_OPT") || !(std::atoi(std::getenv("TF_OPT")) & 1)) continue;   // MEASURING
        if (cost < least_instructions || cost > most_instructions) continue;
        program.handed = before.back(), program.before_handed = before;
        program.chain_instructions -= cost;
        return;
    }
    // A store role that reduces over channels has enough to do without the bias.
    if (std::getenv("TF_OPT") && (std::atoi(std::getenv("TF_OPT")) & 2) && program.channel_reductions && program.bias >= 0) program.handed = program.around->pass.anchor;   // MEASURING
}

std::string hand_over_program(const Epilogue& epilogue) {
    const TileProgram& program = epilogue.program();
    Lines t;
    FragmentChain chain(epilogue, t);
    t.line("constexpr bool FRAGMENTS = false, FOLDED = false, HANDED = true;");
    t.line("// The first steps of the chain, on accumulators. Row r of a warp's 16 belongs to lane / 4 = r % 8; a lane has the rows r and r + 8.");
    t.line("template <int WG> struct Fragments {");
    t.line("const REAL* table;");
    t.line("const Operands& operands;");
    t.line("int row;");
    for (size_t k : operands_of(epilogue)) {
        const Operand& o = epilogue.reads()[k];
        t.line("REAL r" + num(o.value) + (o.depends[1] ? "[2]" : "") + ";");
    }
    t.line("__device__ __forceinline__ Fragments(const unsigned char* shared, const Sizes&, const Operands& given, int t) : table((const REAL*)(shared + TABLES_AT)), operands(given), row(t / 32 * 16 + t % 32 / 4) {}");
    t.line("// The operands of the lane's channels.");
    t.line("__device__ __forceinline__ void rows(const Place& at) {");
    t.line("const int group = at.fixed / MGROUPS, image = at.u[0], first_channel = at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64) + (SPLIT_CHANNELS ? WG * 64 : 0) + row;");
    t.line("(void)group, (void)image, (void)first_channel;");
    for (size_t k : operands_of(epilogue)) {
        const Operand& o = epilogue.reads()[k];
        const std::string name = "r" + num(o.value), id = num(static_cast<int64_t>(k));
        const std::string from = "table + " + num(epilogue.table_of(k) * epilogue.channels());
        if (epilogue.table_of(k) >= 0 && !o.depends[1]) t.line(name + " = *(" + from + ");");
        else if (epilogue.table_of(k) >= 0) t.line("for (int i = 0; i < 2; i++) " + name + "[i] = (" + from + ")[group * COUT + first_channel + i * 8];");
        else t.line("for (int i = 0; i < 2; i++) " + name + "[i] = first_channel + i * 8 < COUT ? tf_load<REAL>(operands.r" + id + " + (image * operands.rs" + id + ".n + (group * COUT + first_channel + i * 8) * operands.rs" + id + ".c)) : 0.f;");
        chain.define(o.value, name, {o.depends[1], false});
    }
    t.line("}");
    t.line("// Two columns of the lane's two rows.");
    t.line("__device__ __forceinline__ void hand(REAL* acc) const {");
    t.line("constexpr int BATCH = 2, VECTOR = 2;");
    t.line("REAL v" + num(program.around->pass.anchor) + "[BATCH][VECTOR] = {{acc[0], acc[1]}, {acc[2], acc[3]}};");
    chain.before_handed();
    t.line("#pragma unroll");
    t.line("for (int i = 0; i < 4; i++) acc[i] = " + chain.name(program.handed) + "[i / 2][i % 2];");
    t.line("}");
    t.line("};");
    return t.str();
}

}  // namespace transfuse::cuda
