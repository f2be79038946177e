#include "cuda/dense/exits/accumulators/fold.h"

#include <algorithm>
#include <functional>

#include "cuda/dense/exits/accumulators/fragment_chain.h"
#include "cuda/kernel/expression.h"
#include "graph/has.h"

namespace transfuse::cuda {

namespace {

class FoldProgram {
public:
    FoldProgram(const Epilogue& epilogue, const Schedule& s)
        : epilogue_(epilogue),
          program_(epilogue.program()),
          s_(s),
          chain_(epilogue, t),
          op_(epilogue.graph()[epilogue.program().fold].op) {}

    std::string text() {
        t.line("constexpr bool FRAGMENTS = false, FOLDED = true, BIASED = false;");
        t.line(
            "// The chain up to a reduction over channels, on accumulators. Row r of a warp's 16 belongs to lane / 4 = "
            "r % 8; a lane has the columns 8j + 2(lane % 4) + {0, 1}.");
        t.line("template <int WG> struct Fragments {");
        t.line("const REAL* table;");
        t.line("const Operands& operands;");
        t.line("int warpgroup, warp, row, column;            // of the lane: its first row and column");
        t.line("template <int N> static __device__ __forceinline__ void load_rows(REAL (&r)[N], const REAL* from) {");
        t.unrolled("for (int i = 0; i < N; i++) r[i] = from[i * 8];");
        t.line("}");
        t.line(
            "__device__ __forceinline__ Fragments(const unsigned char* shared, const Sizes&, const Operands& given, "
            "int warpgroup, int t) : table((const REAL*)(shared + TABLES_AT)), operands(given), warpgroup(warpgroup), "
            "warp(t / 32), row(t % 32 / 4), column(t % 4 * 2) {}");
        halve();
        fold();
        t.line("};");
        return t.str();
    }

private:
    bool masses() const { return op_ == Op::logsumexp; }
    std::string lowest() const { return "__int_as_float(0xff800000)"; }

    // a = a joined with b; of a logsumexp the sum of exponentials relative to a as well.
    void join(const std::string& a, const std::string& b, const std::string& mass_a, const std::string& mass_b) {
        if (!masses()) {
            t.line(a + " = " + combined(op_, a, b) + ";");
            return;
        }
        t.line("{");
        t.line("const REAL top = tf_max(" + a + ", " + b + ");");
        t.line(mass_a + " = top == " + lowest() + " ? (REAL)0 : " + mass_a + " * tf_exp(" + a + " - top) + " + mass_b +
               " * tf_exp(" + b + " - top);");
        t.line(a + " = top;");
        t.line("}");
    }

    // Eight lanes hold rows of the same columns. Each step a lane gives half of its columns to the lane `APART` away
    // and takes the other half's rows: afterwards it has all rows of an eighth of them.
    void halve() {
        t.line("template <int APART, int N> static __device__ __forceinline__ void halve(REAL (&v)[N], " +
               std::string(masses() ? "REAL (&mass)[N], " : "") + "int count, bool upper) {");
        t.unrolled("for (int j = 0; j < N / 2; j++) {");
        t.line("if (j >= count / 2) break;");
        auto swap = [&](const std::string& v) {
            t.line("const REAL give_" + v + " = upper ? " + v + "[j] : " + v + "[j + count / 2];");
            t.line("const REAL take_" + v + " = __shfl_xor_sync(~0u, give_" + v + ", APART);");
            t.line("if (upper) " + v + "[j] = " + v + "[j + count / 2];");
        };
        swap("v");
        if (masses()) swap("mass");
        join("v[j]", "take_v", "mass[j]", "take_mass");
        t.line("}");
        t.line("}");
    }

    void fold() {
        const ValueId of = epilogue_.graph()[program_.fold].args[0];
        t.line(
            "__device__ __forceinline__ void fold(REAL (&acc)[BLOCKS][ACCUMULATORS], const Place& at, int set, REAL* "
            "chunk) {");
        t.line(
            "constexpr int BATCH = 2, VECTOR = RUN_PIXELS / 4, WIDTH = (VECTOR + 7) / 8 * 8;   // a lane's rows and "
            "columns");
        t.line(
            "const int group = 0, image = at.u[0], first_channel = (SPLIT_CHANNELS ? warpgroup * 64 : 0) + warp * 16 + "
            "row;");
        t.line("(void)group, (void)image;");
        t.line("#define CHANNEL(i) (first_channel + (i) * 8)");
        t.line("#define CHANNEL_OK(i) (CHANNEL(i) < COUT)");
        t.unrolled("for (int p = 0; p < PLANES; p++) {");
        chain_.on_accumulators("set * PLANES + p");
        chain_.operand(of);
        const Chain::Kind kind = chain_.kind(of);
        auto term = [&](const std::string& i) {
            return chain_.name(of) + (kind.c ? "[" + i + "]" : "") + (kind.x ? "[e]" : "");
        };
        t.line("REAL folded[WIDTH]" + std::string(masses() ? ", mass[WIDTH]" : "") + ";");
        t.unrolled("for (int e = 0; e < WIDTH; e++) {");
        t.line("folded[e] = " + identity(op_) + ";");
        if (masses()) t.line("mass[e] = 0;");
        t.line("if (e < VECTOR) {");
        t.line("if (CHANNEL_OK(0)) folded[e] = " + term("0") + (masses() ? ", mass[e] = 1;" : ";"));
        t.line("if (CHANNEL_OK(1)) " +
               std::string(masses() ? "" : "folded[e] = " + combined(op_, "folded[e]", term("1")) + ";"));
        if (masses()) join("folded[e]", term("1"), "mass[e]", "(REAL)1");
        t.line("}");
        t.line("}");
        const std::string mass = masses() ? "mass, " : "";
        t.line("halve<16>(folded, " + mass + "WIDTH, row & 4);");
        t.line("halve<8>(folded, " + mass + "WIDTH / 2, row & 2);");
        t.line("halve<4>(folded, " + mass + "WIDTH / 4, row & 1);");
        t.line("REAL* to = chunk + (p * ROWS_PER_PLANE * BLOCK_ROWS + (JOINT ? warpgroup * 4 : 0) + warp) * PITCH;");
        t.unrolled("for (int j = 0; j < WIDTH / 8; j++) {");
        t.line("const int e = row * (WIDTH / 8) + j, px = e / 2 * 8 + column + e % 2;");
        t.line("if (e >= VECTOR) continue;");
        t.line("to[px] = folded[j];");
        if (masses()) t.line("to[ROWS_PER_PLANE * 4 * PITCH + px] = mass[j];");
        t.line("}");
        t.line("}");
        t.line("#undef CHANNEL");
        t.line("#undef CHANNEL_OK");
        t.line("}");
    }

    const Epilogue& epilogue_;
    const TileProgram& program_;
    const Schedule& s_;
    Lines t;
    FragmentChain chain_;
    const Op op_;
};

}  // namespace

std::string fold_program(const Epilogue& epilogue, const Schedule& schedule) {
    return FoldProgram(epilogue, schedule).text();
}

}  // namespace transfuse::cuda
