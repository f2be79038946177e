#include "cuda/dense/exits/accumulators/fragments.h"

#include "cuda/dense/exits/accumulators/fragment_chain.h"
#include "cuda/dense/exits/accumulators/fragment_places.h"
#include "cuda/dense/exits/accumulators/fragment_sums.h"
#include "cuda/dense/schedule/figures.h"
#include "cuda/kernel/expression.h"
#include "cuda/kernel/hooks.h"

namespace transfuse::cuda {

namespace {

constexpr std::string_view statistics =
#include "cuda/device/exits/statistics.cuh"
    ;

class FragmentProgram {
public:
    FragmentProgram(const Epilogue& epilogue, const Schedule& s, const Config& c)
        : epilogue_(epilogue),
          program_(epilogue.program()),
          s_(s),
          c_(c),
          chain_(epilogue, t),
          sums_(epilogue, t),
          once_(program_.chain_instructions > figures::long_chain),
          places_(epilogue, s, c, sums_.are_sums() && (!once_ || epilogue.problem().sums_are_long()), t) {}

    std::string text() {
        const Hooks hooks{{"tables", written([&] { places_.tables(); })},
                          {"fields", written([&] { fields(); })},
                          {"sums", written([&] { sums_.functions(); })},
                          {"begin", written([&] { begin(); })},
                          {"places", written([&] { places_.functions(); })},
                          {"whole tiles", written([&] { whole_tiles(); })},
                          {"results", written([&] { tile(); })},
                          {"lanes", written([&] { join_lanes(); })}};
        return constants() + hooked(statistics, hooks);
    }

private:
    // What the lines become that are written meanwhile.
    template <class Write>
    std::string written(const Write& write) {
        t = Lines();
        write();
        return t.str();
    }

    std::string constants() {
        const bool pooled = places_.pooled();
        t = Lines();
        t.constants({{"SEGMENTS", s_.segments}, {"WRITERS", fragment_writers(c_)}});
        // Of a lane: columns and channels.
        t.constants({{"RESULTS", places_.results()}, {"RESULT_ROWS", s_.segments > 1 ? 1 : 2}});
        t.constants({{"STATS", epilogue_.stats()}, {"MASKS", pooled ? 1 : s_.blocks}});
        t.constants({{"MASK_ROWS", !pooled && s_.segments > 1 ? 2 : 1}, {"CHANNELS", epilogue_.channels()}});
        t.constants({{"ROWS_PER_TILE", fragment_rows_per_tile(epilogue_, s_)}});
        return t.str();
    }

    void fields() {
        if (!places_.counts().empty())
            t.line("bool counts;                      // false: another lane has the same results");
        places_.fields();
        sums_.declare("sums");
    }

    void begin() {
        if (!places_.counts().empty()) t.line("counts = " + places_.counts() + ";");
        sums_.clear("sums");
    }

    void tile() {
        sums_.declare("parts");
        sums_.clear("parts");
        places_.pooled() ? pooled_tile() : plain_tile();
        const std::string row =
            "(tile / PARTS * VARIANTS + tile % PARTS / FIXED) * WRITERS + (WRITERS > 1 ? warpgroup : 0)";
        if (fragment_rows_per_tile(epilogue_, s_)) {
            t.line("write(parts, group * COUT + first_channel, first_channel, s.total / FIXED * WRITERS, " + row +
                   ");");
        } else {
            t.unrolled("for (int i = 0; i < RESULT_ROWS; i++) {");
            sums_.join("sums[i]", [](const std::string& n) { return "parts[i][" + n + "]"; });
            t.line("}");
        }
    }

    void plain_tile() {
        if (!places_.whole_tiles_apart()) t.line("constexpr int BATCH = 2, VECTOR = RESULTS;");
        if (places_.whole_tiles_apart())
            t.line("if (is_whole(at)) count<true>(acc, at, parts); else count<false>(acc, at, parts);");
        else
            places_.asked() ? asked_results("") : masked_tile();
    }

    // Of a tile that no border cuts, only results at the ends of rows are looked at one by one.
    void whole_tiles() {
        if (!places_.whole_tiles_apart()) return;
        t.line("template <bool WHOLE> __device__ __forceinline__ void count(REAL (&acc)[BLOCKS][ACCUMULATORS],");
        t.line("const Place& at, REAL (&parts)[RESULT_ROWS][STATS]) {");
        t.line("const int group = at.fixed / MGROUPS, image = at.u[0];");
        t.line("const int first_channel = at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64) + channel;");
        t.line("(void)group, (void)first_channel, (void)image;");
        t.line("constexpr int BATCH = 2, VECTOR = RESULTS;");
        asked_results("(WHOLE && !at_the_end(e)) || ");
        t.line("}");
    }

    void asked_results(const std::string& unless) {
        places_.phases();
        t.unrolled("for (int b = 0; b < BLOCKS; b++) {");
        chain_.on_accumulators("b");
        sums_.add(chain_, unless + places_.inside(), "SEGMENTS > 1 ? 0 : i");
        t.line("}");
    }

    void masked_tile() {
        t.line("if (ends_elsewhere(at))");
        t.unrolled("for (int b = 0; b < BLOCKS; b++)");
        t.unrolled(
            "for (int i = 0; i < MASK_ROWS; i++) find_inside(inside[b][i], at, segment_phases[((at.variant * 2 + "
            "warpgroup) * BLOCKS + b) * SEGMENTS + segment + i]);");
        t.unrolled("for (int b = 0; b < BLOCKS; b++) {");
        t.line("Mask mask[MASK_ROWS];");
        t.unrolled("for (int i = 0; i < MASK_ROWS; i++) mask[i] = inside[b][i].mask;");
        // Inside the image only results that may lie at the end of a row are looked at one by one.
        const std::string mask = "mask[SEGMENTS > 1 ? i : 0]", inside = mask + " >> e & 1",
                          row = "SEGMENTS > 1 ? 0 : i";
        if (!once_) {
            t.line("if (is_whole(inside[b][0].ends) && is_whole(inside[b][MASK_ROWS - 1].ends)) {");
            chain_.on_accumulators("b");
            sums_.add(chain_, "!at_the_end(e) || " + inside, row, mask);
            t.line("} else {");
            chain_.forget();
        }
        chain_.on_accumulators("b");
        sums_.add(chain_, inside, row, mask);
        if (!once_) t.line("}");
        t.line("}");
    }

    // Every phase of a window is an accumulator, a row or a lane; its neighbours are columns of the lane or of the next
    // lanes.
    void pooled_tile() {
        const std::string pooled = "v" + num(program_.pool_value);
        const bool sums = program_.pool->kind == TilePool::Kind::sum;
        const Op op = program_.pool->kind == TilePool::Kind::max ? Op::amax : sums ? Op::sum : Op::amin;
        t.line("constexpr int members[] = {" + listed(places_.members()) + "}, groups[] = {" +
               listed(places_.groups()) + "};   // in 8-pixel groups");
        t.line("REAL " + pooled + "[RESULT_ROWS][RESULTS];");
        t.unrolled("for (int i = 0; i < RESULT_ROWS * RESULTS; i++) " + pooled +
                   "[i / RESULTS][i % RESULTS] = " + identity(op) + ";");
        join_windows(pooled, op);
        t.line("constexpr int BATCH = RESULT_ROWS, VECTOR = RESULTS;");
        std::vector<int> lanes;
        for (int k = 2; k < places_.reach(); k *= 2) lanes.push_back(k / 2);
        for (int k : lanes_of_segments()) lanes.push_back(k);
        const Chain::Kind all{true, true};
        for (int k : lanes) {
            chain_.loops(all);
            t.line(pooled + "[i][e] = " +
                   combined(op, pooled + "[i][e]", "__shfl_xor_sync(~0u, " + pooled + "[i][e], " + num(k) + ")") + ";");
        }
        if (sums && program_.pool->scale != 1) {
            chain_.loops(all);
            t.line(pooled + "[i][e] *= " + literal(program_.pool->scale, epilogue_.real()) + ";");
        }
        chain_.begin_after_pool(pooled);
        chain_.steps(true);
        t.line("const Mask mask = find_inside(inside[0][0], at, 0);");
        sums_.add(chain_, "mask >> e & 1", "i", "mask");
    }

    // What a lane itself has of its windows.
    void join_windows(const std::string& pooled, Op op) {
        t.unrolled("for (int b = 0; b < BLOCKS; b++) {");
        t.line("constexpr int BATCH = 2, VECTOR = ACCUMULATORS / 2;");
        chain_.on_accumulators("b");
        const ValueId before = epilogue_.graph()[program_.pool_value].args[0];
        const Chain::Kind kind = chain_.kind(before);
        t.unrolled("for (int i = 0; i < BATCH; i++)");
        t.unrolled("for (int k = 0; k < RESULTS; k++)");
        t.unrolled("for (int m = 0; m < " + num(static_cast<int64_t>(places_.members().size())) + "; m++)");
        t.unrolled(places_.reach() == 1 ? "for (int f = k % 2; f <= k % 2; f++) {" : "for (int f = 0; f < 2; f++) {");
        const std::string to = pooled + "[SEGMENTS > 1 ? 0 : i][k]";
        const std::string value =
            chain_.name(before) + (kind.c ? "[i]" : "") + (kind.x ? "[(groups[k] + members[m]) * 2 + f]" : "");
        t.line(to + " = " + combined(op, to, value) + ";");
        t.line("}");
        t.line("}");
    }

    // Distances of lanes that have the other segments of a channel.
    std::vector<int> lanes_of_segments() const {
        return s_.segments >= 8   ? std::vector<int>{16, 8}
               : s_.segments >= 4 ? std::vector<int>{16}
                                  : std::vector<int>{};
    }

    // parts[i] over the lanes that share a channel.
    void join_lanes() {
        std::vector<int> lanes{1, 2};
        for (int k : lanes_of_segments()) lanes.push_back(k);
        for (int k : lanes)
            sums_.join("parts[i]", [&](const std::string& m) {
                return "__shfl_xor_sync(~0u, parts[i][" + m + "], " + num(k) + ")";
            });
    }

    const Epilogue& epilogue_;
    const TileProgram& program_;
    const Schedule& s_;
    const Config& c_;
    Lines t;
    FragmentChain chain_;
    FragmentSums sums_;
    const bool once_;  // a long chain is written out once
    FragmentPlaces places_;
};

}  // namespace

std::string statistics_program(const Epilogue& epilogue, const Schedule& schedule, const Config& config) {
    return FragmentProgram(epilogue, schedule, config).text();
}

int fragment_writers(const Config& config) { return config.split == Split::channels ? 1 : 2; }

// With several blocks of channels a thread's rows change from tile to tile.
bool fragment_rows_per_tile(const Epilogue& epilogue, const Schedule& schedule) {
    return epilogue.per_tile() || schedule.fixed > 1;
}

}  // namespace transfuse::cuda
