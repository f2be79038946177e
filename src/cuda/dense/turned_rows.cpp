#include "cuda/dense/turned_rows.h"

#include <algorithm>

#include "cuda/expression.h"

namespace transfuse::cuda {

namespace {

class RowsWriter {
public:
    RowsWriter(Lines& lines, const Epilogue& epilogue, const Schedule& s, const TurnedShape& shape)
        : t(lines),
          problem_(epilogue.problem()),
          store_(epilogue.stores()[0]),
          s_(s),
          shape_(shape),
          type_(storage_name(store_.dtype)) {}

    void write() {
        constant("WIDE_OUT", shape_.vector);
        if (!are_vectors() && are_pieces())
            pieces();
        else
            columns(are_vectors() ? shape_.vector : 1);
    }

private:
    void constant(const std::string& name, int64_t v) { t.line("static constexpr int " + name + " = " + num(v) + ";"); }

    // All rows are whole vectors.
    bool are_vectors() const {
        const int vector = shape_.vector;
        if (s_.phases_w != s_.period[3] || problem_.axes[3].out % vector || store_.offset % vector) return false;
        if (s_.unbroken && s_.extent[3] * s_.phases_w % vector) return false;
        for (size_t a = 0; a < 4; ++a)
            if (store_.strides[a] % vector) return false;
        return true;
    }
    // A window is a piece of one row or of two, and neighbours lie side by side.
    bool are_pieces() const {
        return s_.phases_w == s_.period[3] && shape_.columns <= 4 * 32 * shape_.vector && shape_.columns <= 512 &&
               (!s_.unbroken || s_.run_pitch >= turned_pixels);
    }

    void window() {
        if (s_.unbroken)
            t.line("const int first = at.start + warpgroup * RUN_PIXELS;");
        else
            t.line("const int first = at.u[3] + warpgroup * RUN_PIXELS;");
        t.line("image = part_image = y + at.u[0] * ys.n, channel = (int)ys.c;");
        t.line("const int d = PERIOD_D * at.u[1] + (code >> 16);");
        t.line("const bool inside = at.u[0] < s.out[0] && d < s.out[1];");
    }
    void begin() {
        t.line("int channel;                      // elements from one to the next");
        t.line(type_ + "* image;");
        t.line(type_ + "* part_image;               // from the first channel of the next part on");
        t.line("int lane, warp;");
    }
    std::string constructor() const {
        return "__device__ __forceinline__ Rows(const Place& at, const Sizes& s, const Strides& ys, " + type_ +
               "* y, int code, int warpgroup, int lane, int warp) : lane(lane), warp(warp) {";
    }

    // Lane by lane, one output or whole vectors of them.
    void columns(int together) {
        const int slots = std::min(32, shape_.columns / together);
        constant("TOGETHER", together), constant("SLOTS", slots), constant("TURNS", shape_.columns / together / slots);
        t.line("// Where a lane's columns lie, each with the same of every channel.");
        t.line("struct Rows {");
        begin();
        t.line("int from[TURNS];");
        t.line("bool there[TURNS];");
        t.line(constructor());
        window();
        t.line("#pragma unroll");
        t.line("for (int turn = 0; turn < TURNS; turn++) {");
        t.line("const int q = (turn * SLOTS + lane % SLOTS) * TOGETHER, pixel = first + q / PHASES_W;");
        t.line(s_.unbroken ? "const int row = pixel / EXTENT_W, column = pixel % EXTENT_W;"
                           : "const int row = 0, column = pixel;");
        t.line(
            "const int h = PERIOD_H * (at.u[2] + row) + (code >> 8 & 255), w = PERIOD_W * column + (code & 255) + q % "
            "PHASES_W;");
        t.line("there[turn] = inside && h < s.out[2] && w < s.out[3];");
        t.line("from[turn] = (int)ys.d * d + (int)ys.h * h + w;");
        t.line("}");
        t.line("}");
        t.line("__device__ __forceinline__ int shift(int, int) const { return 0; }");
        t.line("__device__ __forceinline__ void store(const " + type_ + "* laid, int part) {");
        t.line("#pragma unroll");
        t.line("for (int turn = 0; turn < TURNS; turn++) {");
        t.line("const int c0 = warp * (32 / SLOTS) + lane / SLOTS, first = part * LAID + c0;");
        t.line(type_ + "* const to = part_image + (c0 * channel + from[turn]);");
        t.line("const " + type_ + "* const row = laid + c0 * LAID_PITCH + (turn * SLOTS + lane % SLOTS) * TOGETHER;");
        t.line("#pragma unroll");
        t.line("for (int c = 0; c < LAID; c += 4 * (32 / SLOTS))");
        t.line(
            "if (there[turn] && (LAID % (4 * (32 / SLOTS)) == 0 || c0 + c < LAID) && (COUT % LAID == 0 || first + c "
            "< COUT))");
        t.line("*(tf_vector<" + type_ + ", TOGETHER>*)(to + c * channel) = *(const tf_vector<" + type_ +
               ", TOGETHER>*)(row + c * LAID_PITCH);");
        t.line("}");
        t.line("part_image += LAID * channel;");
        t.line("}");
        t.line("};");
    }

    // Vectors wherever a row begins; what is left at the ends of a piece singly. (Vectors only where they fill sectors
    // of 32 bytes were slower: f11 0.956 ms instead of 0.908, fp16 0.937 instead of 0.841.)
    void pieces() {
        constant("KINDS", shape_.vector / 4);  // of channels, by their shifts, that a warp has
        constant("WIDE_TURNS", std::max(1, shape_.columns / (32 * shape_.vector)));
        t.line("// The one or two pieces of rows that a window's outputs are, column q of the window at `from` + q.");
        t.line("struct Rows {");
        begin();
        t.line("int second;                       // the first pixel of the second piece");
        t.line("int from[2], begin[2], end[2];    // columns that there are");
        t.line("int at_0[KINDS][2];               // where column 0 of shared memory would lie, for each piece");
        t.line(
            "unsigned what[KINDS];             // a lane's two single columns, 10 bits each; whether they and its "
            "vectors are there, and in which piece");
        t.line(constructor());
        window();
        t.line(s_.unbroken ? "const int row = first / EXTENT_W, w = first % EXTENT_W;"
                           : "const int row = 0, w = first;");
        t.line("const int h = PERIOD_H * (at.u[2] + row) + (code >> 8 & 255);");
        t.line("second = " + std::string(s_.unbroken ? "EXTENT_W - w;" : "RUN_PIXELS;"));
        t.line("const int plane = (int)ys.d * d + (int)ys.h * h;");
        t.line("from[0] = plane + PERIOD_W * w, from[1] = plane + PERIOD_H * (int)ys.h - PERIOD_W * second;");
        t.line("begin[0] = 0, begin[1] = PERIOD_W * second;");
        t.line(
            "end[0] = inside && h < s.out[2] ? min(PERIOD_W * min(RUN_PIXELS, second), s.out[3] - PERIOD_W * w) : 0;");
        t.line("end[1] = inside && h + PERIOD_H < s.out[2] ? min(PERIOD_W * RUN_PIXELS, begin[1] + s.out[3]) : 0;");
        t.line("#pragma unroll");
        t.line("for (int kind = 0; kind < KINDS; kind++) {");
        t.line("const int c0 = warp + kind * 4;   // and every WIDE_OUT-th channel from it on");
        ranges();
        wholes();
        ends();
        t.line("}");
        t.line("}");
        t.line("// As far as from a multiple of 16 bytes in memory, and the second piece after the first.");
        t.line("__device__ __forceinline__ int shift_of(int piece, int c) const {");
        t.line(
            "return piece * WIDE_OUT + (int)((unsigned)((unsigned long long)image / sizeof(*image) + from[piece] + c * "
            "channel) % WIDE_OUT);");
        t.line("}");
        t.line(
            "__device__ __forceinline__ int shift(int pixel, int c) const { return pixel >= second ? shift_of(1, c) : "
            "shift_of(0, c); }");
        stores();
        t.line("};");
    }

    void ranges() {
        t.line("// Columns of shared memory: where they lie in memory, and which of them come in whole vectors.");
        t.line("int first_one[2], wide[2], narrow[2], last[2];");
        t.line("#pragma unroll");
        t.line("for (int p = 0; p < 2; p++) {");
        t.line("const int shift = shift_of(p, c0);");
        t.line(
            "first_one[p] = begin[p] + shift, last[p] = max(first_one[p], end[p] + shift), at_0[kind][p] = from[p] - "
            "shift;");
        t.line("wide[p] = min(last[p], (first_one[p] + WIDE_OUT - 1) / WIDE_OUT * WIDE_OUT);");
        t.line("narrow[p] = max(wide[p], min(last[p], WIDE_TURNS * 32 * WIDE_OUT) / WIDE_OUT * WIDE_OUT);");
        t.line("}");
        t.line("what[kind] = 0;");
    }

    void wholes() {
        t.line("#pragma unroll");
        t.line("for (int turn = 0; turn < WIDE_TURNS; turn++) {");
        t.line("const int column = (turn * 32 + lane) * WIDE_OUT, p = column >= wide[1] && column < narrow[1];");
        t.line("if (p || (column >= wide[0] && column < narrow[0])) what[kind] |= (p ? 3u : 1u) << (24 + 2 * turn);");
        t.line("}");
    }

    void ends() {
        t.line("// What is left: the ends of both pieces, one after another.");
        t.line("#pragma unroll");
        t.line("for (int turn = 0; turn < 2; turn++) {");
        t.line("int e = turn * 32 + lane;");
        t.line("#pragma unroll");
        t.line("for (int p = 0; p < 2; p++) {");
        t.line("const int heads = wide[p] - first_one[p], tails = last[p] - narrow[p];");
        t.line("if (e >= 0 && e < heads + tails) {");
        t.line(
            "what[kind] |= (unsigned)(e < heads ? first_one[p] + e : narrow[p] + e - heads) << (10 * turn) | (p ? 5u : "
            "1u) << (20 + turn);");
        t.line("}");
        t.line("e -= heads + tails;");
        t.line("}");
        t.line("}");
    }

    void stores() {
        t.line("__device__ __forceinline__ void store(const " + type_ + "* laid, int part) {");
        t.line("#pragma unroll");
        t.line("for (int kind = 0; kind < KINDS; kind++)");
        t.line("#pragma unroll");
        t.line("for (int c = kind * 4; c < LAID; c += WIDE_OUT) {");
        t.line("if (COUT % LAID != 0 && part * LAID + c + warp >= COUT) continue;");
        t.line(type_ + "* const to = part_image + (c + warp) * channel;");
        t.line("const " + type_ + "* const row = laid + (c + warp) * LAID_PITCH;");
        t.line("#pragma unroll");
        t.line("for (int turn = 0; turn < WIDE_TURNS; turn++)");
        t.line(
            "if (what[kind] >> (24 + 2 * turn) & 1) *(uint4*)(to + (what[kind] >> (25 + 2 * turn) & 1 ? at_0[kind][1] "
            ": "
            "at_0[kind][0]) + (turn * 32 + lane) * WIDE_OUT) = *(const uint4*)(row + (turn * 32 + lane) * WIDE_OUT);");
        t.line("#pragma unroll");
        t.line("for (int turn = 0; turn < 2; turn++) {");
        t.line("const int column = what[kind] >> (10 * turn) & 1023;");
        t.line(
            "if (what[kind] >> (20 + turn) & 1) to[(what[kind] >> (22 + turn) & 1 ? at_0[kind][1] : at_0[kind][0]) + "
            "column] = row[column];");
        t.line("}");
        t.line("}");
        t.line("part_image += LAID * channel;");
        t.line("}");
    }

    Lines& t;
    const Problem& problem_;
    const Operand& store_;
    const Schedule& s_;
    const TurnedShape& shape_;
    const std::string type_;
};

}  // namespace

void turned_rows(Lines& lines, const Epilogue& epilogue, const Schedule& schedule, const TurnedShape& shape) {
    RowsWriter(lines, epilogue, schedule, shape).write();
}

}  // namespace transfuse::cuda
