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
          element_(static_cast<int>(bytes(store_.dtype))),
          wide_turns_(std::max(1, shape.columns / (32 * shape.vector))),
          type_(storage_name(store_.dtype)) {}

    void constants() {
        const int columns = shape_.columns / together(), slots = std::min(32, columns);
        t.constants({{"WIDE_OUT", shape_.vector}});
        if (in_pieces())
            t.constants({{"KINDS", shape_.vector / 4}, {"WIDE_TURNS", wide_turns_}});
        else
            t.constants({{"ROW_VECTOR", together()}, {"ROW_SLOTS", slots}, {"ROW_TURNS", columns / slots}});
    }
    void write() {
        t.line("// Stores in one instruction, taken or not: what follows in the text need not wait for a branch.");
        if (in_pieces() || together() > 1) store_where(16);
        if (in_pieces() || together() == 1) store_where(element_);
        in_pieces() ? pieces() : columns();
    }

private:
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
    bool in_pieces() const {
        return !are_vectors() && s_.phases_w == s_.period[3] && shape_.columns <= 4 * 32 * shape_.vector &&
               shape_.columns <= 512 && (!s_.unbroken || s_.run_pitch >= turned_pixels);
    }
    int together() const { return are_vectors() ? shape_.vector : 1; }

    // Elements are loaded and stored as the bits of one word.
    static std::string word_of(int bytes) { return bytes == 16 ? "uint4" : bytes == 4 ? "unsigned" : "unsigned short"; }
    void store_where(int bytes) {
        const std::string word = word_of(bytes);
        t.line("static __device__ __forceinline__ void store_where(bool taken, void* to, " + word + " v) {");
        t.line("#ifdef __CUDACC__");
        const std::string to = bytes == 16  ? "v4.u32 [%1], {%2, %3, %4, %5}"
                               : bytes == 4 ? "u32 [%1], %2"
                                            : "u16 [%1], %2";
        const std::string values = bytes == 16  ? "\"r\"(v.x), \"r\"(v.y), \"r\"(v.z), \"r\"(v.w)"
                                   : bytes == 4 ? "\"r\"(v)"
                                                : "\"h\"(v)";
        t.line("asm volatile(\"{.reg .pred p; setp.ne.u32 p, %0, 0; @p st.global." + to +
               ";}\" ::\"r\"((unsigned)taken), \"l\"(to), " + values + " : \"memory\");");
        t.line("#else");
        t.line("if (taken) *(" + word + "*)to = v;");
        t.line("#endif");
        t.line("}");
    }

    // What either kind knows of a window, and what it finds out of its tile. The constructor is left open.
    void begin(const std::string& what, const std::vector<std::string>& fields) {
        t.line("// " + what);
        t.line("struct Rows {");
        t.line(type_ + "* image;");
        t.line("int lane, warp, channel;          // elements from a channel to the next");
        for (const std::string& field : fields) t.line(field);
        t.line("__device__ __forceinline__ Rows(const Place& at, const Sizes& s, const Strides& ys, " + type_ +
               "* y, int code, int warpgroup, int lane, int warp) : image(y + at.u[0] * ys.n), lane(lane), "
               "warp(warp), channel((int)ys.c) {");
        t.line("const int first = " + std::string(s_.unbroken ? "at.start" : "at.u[3]") +
               " + warpgroup * RUN_PIXELS, d = PERIOD_D * at.u[1] + (code >> 16);");
        t.line("const bool inside = at.u[0] < s.out[0] && d < s.out[1];");
    }

    // Lane by lane, one output or whole vectors of them.
    void columns() {
        begin("Where a lane's columns lie, each with the same of every channel.",
              {type_ + "* to[ROW_TURNS];                // in the first of its channels that are not stored",
               "bool there[ROW_TURNS];"});
        t.unrolled("for (int turn = 0; turn < ROW_TURNS; turn++) {");
        t.line("const int q = (turn * ROW_SLOTS + lane % ROW_SLOTS) * ROW_VECTOR, pixel = first + q / PHASES_W;");
        t.line(turned_row(s_, "pixel", "column"));
        t.line(
            "const int h = PERIOD_H * (at.u[2] + row) + (code >> 8 & 255), w = PERIOD_W * column + (code & 255) + q % "
            "PHASES_W;");
        t.line("there[turn] = inside && h < s.out[2] && w < s.out[3];");
        t.line("to[turn] = image + (first_channel() * channel + (int)ys.d * d + (int)ys.h * h + w);");
        t.line("}");
        t.line("}");
        t.line(
            "__device__ __forceinline__ int first_channel() const { return warp * (32 / ROW_SLOTS) + lane / ROW_SLOTS; "
            "}   // of a part");
        t.line("__device__ __forceinline__ int shift(int, int) const { return 0; }");
        t.line("__device__ __forceinline__ void store(const " + type_ + "* laid, int part) {");
        t.line("constexpr int ROWS = 4 * (32 / ROW_SLOTS);   // that the warps store at once");
        t.unrolled("for (int first = 0; first < LAID; first += ROWS) {");
        t.line("const int c = first + first_channel();");
        t.line("const bool ok = (LAID % ROWS == 0 || c < LAID) && (COUT % LAID == 0 || part * LAID + c < COUT);");
        t.unrolled("for (int turn = 0; turn < ROW_TURNS; turn++) {");
        t.line("store_where(ok && there[turn], to[turn], *(const " + word_of(element_ * together()) +
               "*)(laid + min(c, LAID - 1) * LAID_PITCH + (turn * ROW_SLOTS + lane % ROW_SLOTS) * ROW_VECTOR));");
        t.line("to[turn] += (LAID % ROWS == 0 || first + ROWS < LAID ? ROWS : LAID % ROWS) * (long long)channel;");
        t.line("}");
        t.line("}");
        t.line("}");
        t.line("};");
    }

    // Vectors wherever a row begins; what is left at the ends of a piece singly. (Vectors only where they fill sectors
    // of 32 bytes were slower: f11 0.956 ms instead of 0.908, fp16 0.937 instead of 0.841.)
    void pieces() {
        begin("The one or two pieces of rows that a window's outputs are, column q of the window at `from` + q.",
              {"int second;                       // the first pixel of the second piece",
               "int from[2], begin[2], end[2];    // columns that there are",
               "long long further;                // bytes from a channel to the next whose shifts are its own",
               "// A lane's vectors and its single element: in memory, in the first channel that is not stored.",
               "char* wide_to[KINDS][WIDE_TURNS];", "char* end_to[KINDS];",
               "int end_column[KINDS];            // in shared memory",
               "bool wide_there[KINDS][WIDE_TURNS], end_there[KINDS];"});
        t.line(turned_row(s_, "first", "w"));
        t.line("const int h = PERIOD_H * (at.u[2] + row) + (code >> 8 & 255), plane = (int)ys.d * d + (int)ys.h * h;");
        t.line("second = " + std::string(s_.unbroken ? "EXTENT_W - w;" : "RUN_PIXELS;"));
        t.line("from[0] = plane + PERIOD_W * w, from[1] = plane + PERIOD_H * (int)ys.h - PERIOD_W * second;");
        t.line("further = WIDE_OUT * ys.c * (long long)sizeof(*image);");
        t.line("begin[0] = 0, begin[1] = PERIOD_W * second;");
        t.line(
            "end[0] = inside && h < s.out[2] ? min(PERIOD_W * min(RUN_PIXELS, second), s.out[3] - PERIOD_W * w) : 0;");
        t.line("end[1] = inside && h + PERIOD_H < s.out[2] ? min(PERIOD_W * RUN_PIXELS, begin[1] + s.out[3]) : 0;");
        t.unrolled("for (int kind = 0; kind < KINDS; kind++) {");
        t.line(
            "const int c0 = warp + kind * 4;   // and every WIDE_OUT-th channel from it on, whose shifts are its own");
        t.line(type_ + "* const plane_0 = image + c0 * channel;");
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
        t.line("int first_one[2], wide[2], narrow[2], last[2], at_0[2];");
        t.unrolled("for (int p = 0; p < 2; p++) {");
        t.line("const int shift = shift_of(p, c0);");
        t.line(
            "first_one[p] = begin[p] + shift, last[p] = max(first_one[p], end[p] + shift), at_0[p] = from[p] - shift;");
        t.line("wide[p] = min(last[p], (first_one[p] + WIDE_OUT - 1) / WIDE_OUT * WIDE_OUT);");
        t.line("narrow[p] = max(wide[p], min(last[p], WIDE_TURNS * 32 * WIDE_OUT) / WIDE_OUT * WIDE_OUT);");
        t.line("}");
    }

    void wholes() {
        t.unrolled("for (int turn = 0; turn < WIDE_TURNS; turn++) {");
        t.line("const int column = (turn * 32 + lane) * WIDE_OUT;");
        t.line("const bool later = column >= wide[1] && column < narrow[1];");
        t.line("wide_there[kind][turn] = later || (column >= wide[0] && column < narrow[0]);");
        t.line("wide_to[kind][turn] = (char*)(plane_0 + ((later ? at_0[1] : at_0[0]) + column));");
        t.line("}");
    }

    void ends() {
        t.line("// What is left: the ends of both pieces, one after another, fewer than there are lanes.");
        t.line("const int heads[2] = {wide[0] - first_one[0], wide[1] - first_one[1]};");
        t.line("const int ends[2] = {heads[0] + last[0] - narrow[0], heads[1] + last[1] - narrow[1]};");
        t.line("const bool later = lane >= ends[0];");
        t.line("const int e = later ? lane - ends[0] : lane;");
        t.line("end_there[kind] = e < (later ? ends[1] : ends[0]);");
        t.line("const bool head = e < (later ? heads[1] : heads[0]);");
        t.line("const int of_head = later ? first_one[1] : first_one[0];");
        t.line("const int of_tail = later ? narrow[1] - heads[1] : narrow[0] - heads[0];");
        t.line("end_column[kind] = end_there[kind] ? (head ? of_head : of_tail) + e : 0;");
        t.line("end_to[kind] = (char*)(plane_0 + ((later ? at_0[1] : at_0[0]) + end_column[kind]));");
    }

    void stores() {
        const bool within = wide_turns_ * 32 * shape_.vector <= shape_.pitch;
        const std::string column = "(turn * 32 + lane) * WIDE_OUT";
        t.line("__device__ __forceinline__ void store(const " + type_ + "* laid, int part) {");
        t.unrolled("for (int kind = 0; kind < KINDS; kind++)");
        t.unrolled("for (int c = kind * 4; c < LAID; c += WIDE_OUT) {");
        t.line("if (COUT % LAID != 0 && part * LAID + c + warp >= COUT) continue;");
        t.line("const " + type_ + "* const row = laid + (c + warp) * LAID_PITCH;");
        t.unrolled("for (int turn = 0; turn < WIDE_TURNS; turn++) {");
        t.line("store_where(wide_there[kind][turn], wide_to[kind][turn], *(const uint4*)(row + " +
               (within ? column : "min(" + column + ", LAID_PITCH - WIDE_OUT)") + "));");
        t.line("wide_to[kind][turn] += further;");
        t.line("}");
        t.line("store_where(end_there[kind], end_to[kind], *(const " + word_of(element_) +
               "*)(row + end_column[kind]));");
        t.line("end_to[kind] += further;");
        t.line("}");
        t.line("}");
    }

    Lines& t;
    const Problem& problem_;
    const Operand& store_;
    const Schedule& s_;
    const TurnedShape& shape_;
    const int element_;     // bytes
    const int wide_turns_;  // of a warp, to store the vectors of a piece
    const std::string type_;
};

}  // namespace

void turned_row_constants(Lines& lines, const Epilogue& epilogue, const Schedule& schedule, const TurnedShape& shape) {
    RowsWriter(lines, epilogue, schedule, shape).constants();
}

void turned_rows(Lines& lines, const Epilogue& epilogue, const Schedule& schedule, const TurnedShape& shape) {
    RowsWriter(lines, epilogue, schedule, shape).write();
}

}  // namespace transfuse::cuda
