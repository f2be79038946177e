#include "cuda/dense/exits/swap_ab/swap_ab_stores.h"

#include <algorithm>

#include "cuda/dense/exits/accumulators/fragments.h"
#include "cuda/dense/exits/swap_ab/swap_ab_chain.h"
#include "cuda/dense/exits/swap_ab/swap_ab_rows.h"
#include "cuda/kernel/expression.h"

namespace transfuse::cuda {

namespace {

class SwapAbProgram {
public:
    SwapAbProgram(const Epilogue& epilogue, const Config& config, const Schedule& s)
        : epilogue_(epilogue),
          s_(s),
          store_(epilogue.stores()[0]),
          shape_(swap_ab_shape(static_cast<int>(bytes(store_.dtype)), config, s)),
          type_(storage_name(store_.dtype)),
          last_(epilogue.program().pixel_major),
          chain_(epilogue, t),
          rows_(t, epilogue, s, shape_) {}

    std::string text() {
        constants();
        chain_.functions();
        t.line(
            "// The chain on accumulators, and its results to memory. A lane has pixels lane / 4 + {0, 8} of its "
            "warp's 16 and channels 2(lane % 4) + {0, 1} + 8j.");
        t.line("template <int WG> struct Fragments {");
        t.line("const REAL* table;");
        t.line("const Operands& operands;");
        t.line("const Sizes& s;");
        t.line(type_ + "* laid;                         // rows of outputs, a channel each");
        t.line("int warpgroup, lane, warp;");
        t.line(
            "__device__ __forceinline__ Fragments(unsigned char* shared, const Sizes& sizes, const Operands& given, "
            "int warpgroup, int t) : table((const REAL*)(shared + TABLES_AT)), operands(given), s(sizes), laid((" +
            type_ +
            "*)(shared + CHUNKS_AT + warpgroup * CHUNK_BYTES)), warpgroup(warpgroup), lane(t % 32), "
            "warp(t / 32) {}");
        if (!last_) rows_.functions();
        if (last_ && vectors_of_channels()) quads();
        tile();
        t.line("__device__ __forceinline__ void finish() {}");
        t.line("};");
        return t.str();
    }

private:
    void constants() {
        t.line("constexpr bool FRAGMENTS = true, FOLDED = false, BIASED = false;");
        t.constants({{"PHASES_W", s_.phases_w}, {"LAID", shape_.channels}});
        t.constants({{"LAID_PARTS", shape_.parts}, {"LAID_PITCH", shape_.pitch}});
        for (size_t v = 0; v < s_.phase_table.size(); v += 2)
            for (const auto& list : s_.phase_table[v]) codes_.push_back(list[0].code());
        if (!last_) rows_.constants();
        bool even = codes_.size() > 1 && codes_[1] > codes_[0];
        for (size_t i = 1; i < codes_.size(); ++i) even = even && codes_[i] - codes_[i - 1] == codes_[1] - codes_[0];
        if (even)
            t.line("static __device__ __forceinline__ int swap_ab_code(int i) { return i * " +
                   num(codes_[1] - codes_[0]) + (codes_[0] ? " + " + num(codes_[0]) : "") + "; }");
        else
            t.line("__constant__ int swap_ab_codes[] = {" + listed(codes_) +
                   "};\nstatic __device__ __forceinline__ int swap_ab_code(int i) { return swap_ab_codes[i]; }");
    }

    void tile() {
        t.line("__device__ __forceinline__ void tile(REAL (&acc)[BLOCKS][ACCUMULATORS], const Place& at, int) {");
        t.line("constexpr int BATCH = 2, VECTOR = ACCUMULATORS / 2;");
        t.line("constexpr int group = 0;");
        t.line("const int first_channel = lane % 4 * 2;");
        t.line("#define CHANNEL(e) (first_channel + (e) / 2 * 8 + (e) % 2)");
        t.line("#define CHANNEL_OK(e) (COUT % 8 == 0 || CHANNEL(e) < COUT)");
        chain_.declare();
        t.unrolled("for (int b = 0; b < BLOCKS; b++) {");
        chain_.before("b");
        t.line("}");
        t.unrolled("for (int set = 0; set < SETS; set++) {");
        t.line("const int code = swap_ab_code(at.variant * SETS + set);");
        if (*std::min_element(codes_.begin(), codes_.end()) < 0) t.line("if (code < 0) continue;");
        last_ ? in_pixels() : in_rows();
        t.line("}");
        t.line("#undef CHANNEL");
        t.line("#undef CHANNEL_OK");
        t.line("}");
    }

    // The rest of the chain on some of the channels.
    void finish(const std::string& first, const std::string& last) {
        t.unrolled("for (int b = set * PHASES_W; b < (set + 1) * PHASES_W; b++) {");
        t.line("const int FIRST_E = " + first + ", LAST_E = " + last + ";");
        chain_.after("b");
        t.line("}");
    }

    // Some channels at a time: while they are stored, the chain goes on with the next.
    void in_rows() {
        auto end = [&](const std::string& parts) {
            const std::string all = parts + " * (LAID / 4)";
            return s_.accumulators / 2 % (shape_.channels / 4) ? "min(" + all + ", VECTOR)" : all;
        };
        rows_.window();
        chain_.declare_ahead();
        if (chain_.ahead()) {
            t.line("auto load_ahead = [&](int part) {");  // no barrier comes between it and what needs it
            t.line("const int FIRST_E = part * (LAID / 4), LAST_E = " + end("(part + 1)") + ";");
            chain_.load_ahead();
            t.line("};");
            t.line("load_ahead(0);");
        }
        t.unrolled("for (int part = 0; part < LAID_PARTS; part++) {");
        t.line(type_ + "* const half = laid + part % 2 * (LAID * LAID_PITCH);");
        finish("part * (LAID / 4)", end("(part + 1)"));
        if (chain_.ahead()) t.line("if (part + 1 < LAID_PARTS) load_ahead(part + 1);");
        lay();
        t.line("barrier_named(8 + warpgroup, 128);");
        rows_.stores();
        t.line("}");
        t.line("barrier_named(8 + warpgroup, 128);");
    }

    // Channels lie side by side in memory: four lanes have eight of them. Where they can, lanes give one another what
    // makes vectors of 16 bytes.
    void in_pixels() {
        chain_.declare_ahead();
        if (chain_.ahead()) {
            t.line("const int FIRST_E = 0, LAST_E = VECTOR;");
            chain_.load_ahead();
        }
        finish("0", "VECTOR");
        const int pairs = vectors_of_channels() ? shape_.vector / 2 : 1;  // of channels, that a lane stores at once
        t.line("constexpr int PAIRS = " + num(pairs) + ", AT_ONCE = " + num(pairs > 1 || even_channels() ? 2 : 1) +
               ";   // pairs of channels a lane stores, and whether as one");
        t.line("const Strides& ys = operands.ys0;");
        t.unrolled("for (int i = 0; i < 2; i++) {");
        t.line("const int pixel = warpgroup * RUN_PIXELS + warp * 16 + i * 8 + lane / 4 + " +
               std::string(s_.unbroken ? "at.start" : "at.u[3]") + ";");
        t.line(swap_ab_row(s_, "pixel", "column"));
        t.line(
            "const int n = at.u[0], d = PERIOD_D * at.u[1] + (code >> 16), h = PERIOD_H * (at.u[2] + row) + (code >> 8 "
            "& 255), w0 = PERIOD_W * column + (code & 255);");
        t.line("const bool inside = n < s.out[0] && d < s.out[1] && h < s.out[2];");
        t.line(type_ + "* const to = operands.y0 + (n * ys.n + d * ys.d + h * ys.h + w0 * ys.w);");
        t.unrolled("for (int w = 0; w < PHASES_W; w++) {");
        t.line("const bool there = inside && w0 + w < s.out[3];");
        t.line("const REAL* const v = acc[set * PHASES_W + w] + i * 2;");
        t.unrolled("for (int j = 0; j < ACCUMULATORS / 4; j += PAIRS) {");
        if (pairs > 1) {
            t.line("tf_vector<" + type_ + ", 2 * PAIRS> all;");
            t.line("const int first = quad_vector(all, v + j * 4, lane);   // after 8j");
            t.line("if (there && (COUT % (8 * PAIRS) == 0 || j * 8 + first < COUT)) *(tf_vector<" + type_ +
                   ", 2 * PAIRS>*)(to + w * ys.w + j * 8 + first) = all;");
        } else {
            t.unrolled("for (int f = 0; f < 2; f += AT_ONCE) {");
            t.line("const int channel = j * 8 + lane % 4 * 2 + f;");
            t.line("tf_vector<" + type_ + ", AT_ONCE> some;");
            t.unrolled("for (int g = 0; g < AT_ONCE; g++) tf_from(some.lane[g], v[j * 4 + f + g]);");
            t.line("if (there && (COUT % 8 == 0 || channel < COUT)) *(tf_vector<" + type_ +
                   ", AT_ONCE>*)(to + w * ys.w + channel) = some;");
            t.line("}");
        }
        t.line("}");
        t.line("}");
        t.line("}");
    }

    bool channels_divide(int64_t by) const {
        if (epilogue_.problem().cout % by || store_.offset % by) return false;
        for (size_t a : {0, 2, 3, 4})
            if (store_.strides[a] % by) return false;
        return true;
    }
    bool even_channels() const { return channels_divide(2); }
    bool vectors_of_channels() const {
        return channels_divide(shape_.vector) && s_.operand_rows % (4 * shape_.vector) == 0;
    }

    // Of as many blocks of eight channels as a vector has pairs, a lane gets its part of one: where it begins.
    void quads() {
        t.line(
            "template <class S, int N> static __device__ __forceinline__ int quad_vector(tf_vector<S, N>& all, const "
            "REAL* v, int lane) {");
        if (shape_.vector == 4) {
            t.line("const bool odd = lane & 1;");
            t.unrolled("for (int f = 0; f < 2; f++) {");
            t.line("const REAL mine = odd ? v[4 + f] : v[f], other = __shfl_xor_sync(~0u, odd ? v[f] : v[4 + f], 1);");
            t.line("tf_from(all.lane[f], odd ? other : mine), tf_from(all.lane[2 + f], odd ? mine : other);");
            t.line("}");
            t.line("return odd * 8 + (lane & 2) * 2;");
        } else {
            t.line("unsigned word[4];");
            t.unrolled("for (int j = 0; j < 4; j++) word[j] = pack_pair<S>(v[j * 4], v[j * 4 + 1]);");
            t.unrolled("for (int k = 1; k < 4; k *= 2) {");
            t.line("const bool up = lane & k;");
            t.unrolled("for (int f = 0; f < 2; f++) {");
            t.line("const int low = k == 1 ? 2 * f : f, high = low + k;");
            t.line("const unsigned other = __shfl_xor_sync(~0u, up ? word[low] : word[high], k);");
            t.line("word[low] = up ? other : word[low], word[high] = up ? word[high] : other;");
            t.line("}");
            t.line("}");
            t.line("*(uint4*)&all = make_uint4(word[0], word[1], word[2], word[3]);");
            t.line("return lane % 4 * 8;");
        }
        t.line("}");
    }

    // A part's results into rows.
    void lay() {
        t.unrolled("for (int i = 0; i < 2; i++) {");
        t.line("const int pixel = warp * 16 + i * 8 + lane / 4;");
        t.unrolled("for (int f = 0; f < 2; f++) {");
        t.line("const int channel = lane % 4 * 2 + f;");
        t.line(type_ + "* const to = half + channel * LAID_PITCH + pixel * PHASES_W" + rows_.shift("pixel", "channel") +
               ";   // of every eighth channel alike");
        t.unrolled("for (int j = 0; j < LAID / 8; j++) {");
        t.line("const int k = (part * (LAID / 8) + j) * 4 + i * 2 + f;");
        if (s_.accumulators % (shape_.channels / 2) != 0) t.line("if (k >= ACCUMULATORS) continue;");
        // Words: lanes of odd channels pairs take the other residue first, so that all banks are met.
        if (s_.phases_w == 2 && bytes(store_.dtype) == 4) {
            t.line("const REAL a = acc[set * 2][k], b = acc[set * 2 + 1][k];");
            t.line("tf_store(to + j * 8 * LAID_PITCH + (lane & 1), lane & 1 ? b : a);");
            t.line("tf_store(to + j * 8 * LAID_PITCH + (~lane & 1), lane & 1 ? a : b);");
        } else {
            t.unrolled(
                "for (int r = 0; r < PHASES_W; r++) tf_store(to + j * 8 * LAID_PITCH + r, acc[set * PHASES_W + "
                "r][k]);");
        }
        t.line("}");
        t.line("}");
        t.line("}");
    }

    const Epilogue& epilogue_;
    const Schedule& s_;
    const Operand& store_;
    const SwapAbShape shape_;
    const std::string type_;
    const bool last_;         // channels
    std::vector<int> codes_;  // [variant][set]: residues, −1: none
    Lines t;
    SwapAbChain chain_;
    SwapAbRows rows_;
};

}  // namespace

void place_windows(Hooks& places, const Schedule& s) {
    places["fields"] += ", start";
    if (s.unbroken)  // a tile begins anywhere in its first row
        places["start"] =
            "\n    at.start = at.u[2] / TILE_H * (2 * RUN_PIXELS); at.u[2] = at.start / EXTENT_W; at.start %= "
            "EXTENT_W;";
}

std::string swap_ab_program(const Epilogue& epilogue, const Config& config, const Schedule& schedule) {
    return SwapAbProgram(epilogue, config, schedule).text();
}

}  // namespace transfuse::cuda
