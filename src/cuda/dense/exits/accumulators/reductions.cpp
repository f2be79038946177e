#include "cuda/dense/exits/accumulators/reductions.h"

#include <algorithm>
#include <functional>

#include "cuda/dense/exits/accumulators/fragment_chain.h"
#include "cuda/kernel/expression.h"
#include "graph/has.h"

namespace transfuse::cuda {

namespace {

// A lane has sixteen columns of two rows; over the other rows lanes and warps meet.
class MeetingChain : public FragmentChain {
public:
    MeetingChain(const Epilogue& epilogue, Lines& lines) : FragmentChain(epilogue, lines) {}

protected:
    void across(const std::string& result, Op op, const std::string& term) override { meet(result, op, term, "one"); }

    // The exponents' reference and the shares are made where one lane has the column, once.
    void exponentials(const std::string& v, const std::string& term, Kind x) override {
        const std::string below = ref(v + "_below", x), share = ref(v + "_share", x);
        meet(v + "_below", Op::amax, term, "one == " + identity(Op::amax) + " ? 0.f : one * -1.44269504089f");
        t.line("REAL " + v + "_exp[BATCH][VECTOR];");
        loops({true, true});
        t.line(v + "_exp[i][e] = tf_exp2(fmaf(" + term + ", 1.44269504089f, " + below + "));");
        meet(v + "_share", Op::sum, v + "_exp[i][e]", "tf_quotient((REAL)1, one)");
        t.line("REAL " + v + "_top" + dims(x) + ", " + v + "_mass" + dims(x) + ";");
        loops(x);
        t.line(ref(v + "_top", x) + " = " + below + " * -0.69314718056f, " + ref(v + "_mass", x) +
               " = tf_quotient((REAL)1, " + share + ");");
    }

private:
    // result[pixel] = `finish` of `one`, which is `op` of `term` over all channels; declares it.
    void meet(const std::string& result, Op op, const std::string& term, const std::string& finish) {
        const Kind x{false, true};
        const std::string to = ref(result, x);
        t.line("REAL " + result + dims(x) + ";");
        for (int i = 0; i < 2; ++i) {
            t.line("{");
            t.line("constexpr int i = " + num(i) + ";");
            loops(x);
            if (i == 0)
                t.line(to + " = CHANNEL_OK(i) ? " + term + " : " + identity(op) + ";");
            else
                t.line("if (CHANNEL_OK(i)) " + to + " = " + combined(op, to, term) + ";");
            t.line("}");
        }
        t.line("meet(" + result + ", [](REAL a, REAL b) { return " + combined(op, "a", "b") +
               "; }, [](REAL one) { return " + finish + "; });");
    }
};

}  // namespace

std::string reduction_program(const Epilogue& epilogue) {
    const TileProgram& program = epilogue.program();
    Lines t;
    MeetingChain chain(epilogue, t);
    t.line("constexpr bool FRAGMENTS = false, FOLDED = false, BIASED = false;");
    t.line(
        "// Reductions over channels on accumulators. Row r of a warp's 16 belongs to lane / 4 = r % 8; a lane has the "
        "columns 8j + 2(lane % 4) + {0, 1}.");
    t.line("template <int WG> struct Fragments {");
    t.line("const REAL* table;");
    t.line("const Operands& operands;");
    t.line("REAL* exchange;                   // [turn][warp][64 columns]: of the first lanes, then of the next");
    t.line("int warpgroup, warp, row, column, turn;      // of the lane: its first row, its columns' place");
    t.line("template <int N> static __device__ __forceinline__ void load_rows(REAL (&r)[N], const REAL* from) {");
    t.unrolled("for (int i = 0; i < N; i++) r[i] = from[i * 8];");
    t.line("}");
    t.line(
        "__device__ __forceinline__ Fragments(unsigned char* shared, const Sizes&, const Operands& given, int "
        "warpgroup, int t) : table((const REAL*)(shared + TABLES_AT)), operands(given), exchange((REAL*)(shared + "
        "TABLES_AT + " +
        num(epilogue.slots_at() + epilogue.exchange_at()) +
        ") + warpgroup * 512), warpgroup(warpgroup), warp(t / 32), row(t % 32 / 4), column(t % 4 * 16), turn(0) {}");
    t.line(
        "// `finish` of what `join` makes of all rows, of each of sixteen columns. Lanes with rows of the same columns "
        "give one another halves of them until each has two of its warp; then the warps meet. Two places in turn: "
        "when one is written again, everybody has passed the barrier after reading it.");
    t.line(
        "template <class Join, class Finish> __device__ __forceinline__ void meet(REAL (&v)[16], Join join, Finish "
        "finish) {");
    t.unrolled("for (int many = 8; many > 1; many /= 2)");
    t.unrolled("for (int j = 0; j < 8; j++)");
    t.line("if (j < many) {");
    t.line("const bool upper = row & many / 2;");
    t.line("const REAL take = __shfl_xor_sync(~0u, upper ? v[j] : v[j + many], many * 2);");
    t.line("if (upper) v[j] = v[j + many];");
    t.line("v[j] = join(v[j], take);");
    t.line("}");
    t.line("typedef tf_vector<REAL, 2> Pair;");
    t.line("REAL* const parts = exchange + turn * 256 + column + row * 2;");
    t.line("turn ^= 1;");
    t.line("__syncwarp();                     // whose lanes have read what was their warp's own");
    t.line("*(Pair*)(parts + warp * 64) = Pair{{v[0], v[1]}};");
    t.line("barrier_named(6 + warpgroup, 128);");
    t.line("Pair one = *(const Pair*)parts;");
    t.unrolled("for (int k = 1; k < 4; k++) {");
    t.line("const Pair part = *(const Pair*)(parts + k * 64);");
    t.line("one.lane[0] = join(one.lane[0], part.lane[0]), one.lane[1] = join(one.lane[1], part.lane[1]);");
    t.line("}");
    t.line(
        "// The warp's other place is its own until the next meeting. Halves of the upper lanes' columns change "
        "places, so that no banks meet.");
    t.line("REAL* const own = exchange + turn * 256 + warp * 64 + column;");
    t.line("const int swap = column / 32 * 8;");
    t.line("*(Pair*)(own + (row * 2 ^ swap)) = Pair{{finish(one.lane[0]), finish(one.lane[1])}};");
    t.line("__syncwarp();");
    t.unrolled("for (int e = 0; e < 16; e += 4) {");
    t.line("const tf_vector<REAL, 4> part = *(const tf_vector<REAL, 4>*)(own + (e ^ swap));");
    t.unrolled("for (int f = 0; f < 4; f++) v[e + f] = part.lane[f];");
    t.line("}");
    t.line("}");
    t.line(
        "// Of two accumulators, or of two parts of one, up to four blocks of eight columns each: `many` of `block` "
        "from `first` on, and `many2` of block2 from first2 on.");
    t.line(
        "__device__ __forceinline__ void reduce(REAL (&acc)[BLOCKS][ACCUMULATORS], int block, int first, int many, int "
        "block2, int first2, int many2, const Place& at) {");
    t.line("constexpr int BATCH = 2, VECTOR = 16;");
    t.line("const int group = 0, image = at.u[0], first_channel = warp * 16 + row;");
    t.line("(void)group, (void)image;");
    t.line("#define CHANNEL(i) (first_channel + (i) * 8)");
    t.line("#define CHANNEL_OK(i) (COUT % 64 == 0 || CHANNEL(i) < COUT)");
    t.line("#define IS_THERE(e) ((e) % 8 / 2 < ((e) < 8 ? many : many2))");
    t.line(
        "#define PLACE(i, e) acc[(e) < 8 ? block : block2][(((e) < 8 ? first : first2) + (e) % 8 / 2) * 4 + (i) * 2 + "
        "(e) % 2]");
    const std::string value = "v" + num(program.around->pass.anchor);
    t.line("REAL " + value + "[BATCH][VECTOR];");
    chain.loops({true, true});
    t.line(value + "[i][e] = IS_THERE(e) ? PLACE(i, e) : 0.f;");
    chain.anchor();
    chain.steps(false);
    const std::string handed = chain.operand(program.handed);
    chain.loops({true, true});
    t.line("if (IS_THERE(e)) PLACE(i, e) = " + handed + ";");
    t.line("#undef CHANNEL");
    t.line("#undef CHANNEL_OK");
    t.line("#undef IS_THERE");
    t.line("#undef PLACE");
    t.line("}");
    t.line("};");
    return t.str();
}

}  // namespace transfuse::cuda
