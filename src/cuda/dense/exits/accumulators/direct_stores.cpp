#include "cuda/dense/exits/accumulators/direct_stores.h"

#include <algorithm>

#include "cuda/dense/exits/accumulators/fragment_chain.h"
#include "cuda/dense/exits/accumulators/fragments.h"
#include "cuda/kernel/expression.h"

namespace transfuse::cuda {

namespace {

class DirectProgram {
public:
    DirectProgram(const Epilogue& epilogue, const Schedule& s)
        : epilogue_(epilogue), s_(s), store_(epilogue.stores()[0]), chain_(epilogue, t) {}

    std::string text() {
        t.line("constexpr bool FRAGMENTS = true, FOLDED = false, BIASED = false;");
        t.line("constexpr int SEGMENT = 64, PHASES_W = " + num(s_.phases_w) + ", NEIGHBOURS = " + num(together()) +
               ";   // neighbours along w that are stored at once");
        phases();
        t.line(
            "// The chain on accumulators, and its results to memory. Row r of a warp's 16 belongs to lane / 4 = r % "
            "8; a lane has the columns 8j + 2(lane % 4) + {0, 1}: block j is a row of the strip.");
        t.line("template <int WG> struct Fragments {");
        t.line("const REAL* table;");
        t.line("const Operands& operands;");
        t.line("const Sizes& s;");
        t.line("int warpgroup, lane, warp;");
        t.line("template <int N> static __device__ __forceinline__ void load_rows(REAL (&r)[N], const REAL* from) {");
        t.unrolled("for (int i = 0; i < N; i++) r[i] = from[i * 8];");
        t.line("}");
        t.line(
            "__device__ __forceinline__ Fragments(unsigned char* shared, const Sizes& sizes, const Operands& given, "
            "int warpgroup, int t) : table((const REAL*)(shared + TABLES_AT)), operands(given), s(sizes), "
            "warpgroup(warpgroup), lane(t % 32), warp(t / 32) {}");
        tile();
        t.line("__device__ __forceinline__ void finish() {}");
        t.line("};");
        return t.str();
    }

private:
    // Residues along w whose outputs, of two neighbouring pixels, lie side by side: a vector, where rows allow it.
    int together() const {
        const int all = 2 * s_.phases_w;
        if (store_.strides[4] != 1 || s_.phases_w != s_.period[3] || (all & (all - 1)) != 0) return 1;
        int vector = std::min(all, 16 / static_cast<int>(bytes(store_.dtype)));
        for (const int64_t stride : {store_.offset, store_.strides[0], store_.strides[1], store_.strides[2],
                                     store_.strides[3], epilogue_.problem().axes[3].out})
            while (stride % vector != 0) vector /= 2;
        return vector;
    }

    void phases() {
        std::vector<int> codes;
        for (const auto& sets : s_.phase_table)
            for (const auto& list : sets) codes.push_back(list[0].code());
        t.line("__constant__ int direct_codes[] = {" + listed(codes) +
               "};   // [variant][warpgroup][set]: residues, −1: none");
    }

    void tile() {
        t.line("__device__ __forceinline__ void tile(REAL (&acc)[BLOCKS][ACCUMULATORS], const Place& at, int) {");
        t.line("constexpr int BATCH = 2, VECTOR = RUN_PIXELS / 4;   // a lane's rows and columns");
        t.line(
            "const int group = 0, image = at.u[0], first_channel = at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64) + "
            "(SPLIT_CHANNELS ? warpgroup * 64 : 0) + warp * 16 + lane / 4;");
        t.line("(void)group, (void)image;");
        t.line("#define CHANNEL(i) (first_channel + (i) * 8)");
        t.line("#define CHANNEL_OK(i) (CHANNEL(i) < COUT)");
        t.unrolled("for (int b = 0; b < BLOCKS; b++) {");
        chain_.on_accumulators("b");
        chain_.operand(store_.value);
        const Chain::Kind kind = chain_.kind(store_.value);
        chain_.loops({true, true});
        t.line("acc[b][e / 2 * 4 + i * 2 + e % 2] = " + chain_.name(store_.value) + (kind.c ? "[i]" : "") +
               (kind.x ? "[e]" : "") + ";");
        t.line("}");
        t.unrolled("for (int set = 0; set < SETS; set++) stored(acc, at, set, first_channel);");
        t.line("#undef CHANNEL");
        t.line("#undef CHANNEL_OK");
        t.line("}");
        stored();
    }

    void stored() {
        const std::string type(storage_name(store_.dtype));
        t.line(
            "__device__ __forceinline__ void stored(const REAL (&acc)[BLOCKS][ACCUMULATORS], const Place& at, int set, "
            "int first_channel) {");
        t.line("const int code = direct_codes[(at.variant * 2 + warpgroup) * SETS + set];");
        t.line("if (code < 0) return;");
        t.line("const Strides& ys = operands.ys0;");
        t.line(
            "const int n0 = at.u[0] + warpgroup * SECOND_N, d0 = PERIOD_D * (at.u[1] + warpgroup * SECOND_D) + (code "
            ">> 16), h0 = PERIOD_H * (at.u[2] + warpgroup * SECOND_H) + (code >> 8 & 255), w0 = PERIOD_W * (at.u[3] + "
            "warpgroup * SECOND_W + lane % 4 * 2) + (code & 255);");
        t.line(type +
               "* const to = operands.y0 + (n0 * ys.n + first_channel * ys.c + d0 * ys.d + h0 * ys.h + w0 * ys.w);");
        t.unrolled("for (int j = 0; j < RUN_PIXELS / 8; j++) {");
        t.line("const int h = j % EXTENT_H, d = j / EXTENT_H % EXTENT_D, n = j / (EXTENT_H * EXTENT_D);");
        t.line(
            "if (h >= RUN_H || d >= RUN_D || n >= RUN_N || n0 + n >= s.out[0] || d0 + PERIOD_D * d >= s.out[1] || h0 + "
            "PERIOD_H * h >= s.out[2]) continue;");
        t.line(type + "* const row = to + (n * ys.n + PERIOD_D * d * ys.d + PERIOD_H * h * ys.h);");
        t.unrolled("for (int i = 0; i < 2; i++) {");
        t.line("if (first_channel + i * 8 >= COUT) continue;");
        t.unrolled("for (int k = 0; k < 2 * PHASES_W; k += NEIGHBOURS) {");
        t.line("// Pixel k / PHASES_W, residue k % PHASES_W.");
        t.line("const int w = k / PHASES_W * PERIOD_W + k % PHASES_W;");
        t.line("if (w0 + w >= s.out[3]) continue;");
        t.line("tf_vector<" + type + ", NEIGHBOURS> v;");
        t.unrolled(
            "for (int f = 0; f < NEIGHBOURS; f++) tf_from(v.lane[f], acc[set * PHASES_W + (k + f) % PHASES_W][j * 4 + "
            "i * 2 + (k + f) / PHASES_W]);");
        t.line("*(tf_vector<" + type + ", NEIGHBOURS>*)(row + i * 8 * ys.c + w * ys.w) = v;");
        t.line("}");
        t.line("}");
        t.line("}");
        t.line("}");
    }

    const Epilogue& epilogue_;
    const Schedule& s_;
    const Operand& store_;
    Lines t;
    FragmentChain chain_;
};

}  // namespace

std::string direct_program(const Epilogue& epilogue, const Schedule& schedule) {
    return DirectProgram(epilogue, schedule).text();
}

}  // namespace transfuse::cuda
