#include "cuda/dense/exits/swap_ab/swap_ab_rows.h"

#include <algorithm>

#include "cuda/kernel/expression.h"

namespace transfuse::cuda {

namespace {

// Elements are loaded and stored as the bits of one word.
std::string word_of(int bytes) { return bytes == 16 ? "uint4" : bytes == 4 ? "unsigned" : "unsigned short"; }

}  // namespace

SwapAbRows::SwapAbRows(Lines& lines, const Epilogue& epilogue, const Schedule& s, const SwapAbShape& shape)
    : t(lines),
      problem_(epilogue.problem()),
      store_(epilogue.stores()[0]),
      s_(s),
      shape_(shape),
      element_(static_cast<int>(bytes(store_.dtype))),
      wide_turns_(std::max(1, shape.columns / (32 * shape.vector))),
      type_(storage_name(store_.dtype)) {}

void SwapAbRows::constants() {
    const int columns = shape_.columns / together(), slots = std::min(32, columns);
    t.constants({{"WIDE_OUT", shape_.vector}});
    if (in_pieces())
        t.constants({{"KINDS", shape_.vector / 4}, {"WIDE_TURNS", wide_turns_}});
    else
        t.constants({{"ROW_VECTOR", together()}, {"ROW_SLOTS", slots}, {"ROW_TURNS", columns / slots}});
}

void SwapAbRows::functions() {
    t.line("// Stores in one instruction, taken or not: what follows in the text need not wait for a branch.");
    if (in_pieces() || together() > 1) store_where(16);
    if (in_pieces() || together() == 1) store_where(element_);
}

void SwapAbRows::window() {
    t.line(type_ + "* const image = operands.y0 + at.u[0] * operands.ys0.n;");
    t.line("const int first = " + std::string(s_.unbroken ? "at.start" : "at.u[3]") +
           " + warpgroup * RUN_PIXELS, d = PERIOD_D * at.u[1] + (code >> 16);");
    t.line("const int channel_step = (int)operands.ys0.c, row_step = (int)operands.ys0.h;   // elements");
    t.line("const bool inside = at.u[0] < s.out[0] && d < s.out[1];");
    in_pieces() ? pieces() : columns();
}

std::string SwapAbRows::shift(const std::string& pixel, const std::string& channel) const {
    return in_pieces() ? " + (" + pixel + " >= second ? shift_of(1, " + channel + ") : shift_of(0, " + channel + "))"
                       : "";
}

void SwapAbRows::stores() { in_pieces() ? stores_of_pieces() : stores_of_columns(); }

// All rows are whole vectors.
bool SwapAbRows::are_vectors() const {
    const int vector = shape_.vector;
    if (s_.phases_w != s_.period[3] || problem_.axes[3].out % vector || store_.offset % vector) return false;
    if (s_.unbroken && s_.extent[3] * s_.phases_w % vector) return false;
    for (size_t a = 0; a < 4; ++a)
        if (store_.strides[a] % vector) return false;
    return true;
}
// A window is a piece of one row or of two, and neighbours lie side by side.
bool SwapAbRows::in_pieces() const {
    return !are_vectors() && s_.phases_w == s_.period[3] && shape_.columns <= 4 * 32 * shape_.vector &&
           shape_.columns <= 512 && (!s_.unbroken || s_.run_pitch >= swap_ab_pixels);
}

// The pointer goes on within the instruction's text: it would be found anew from counts of channels otherwise.
void SwapAbRows::store_where(int bytes) {
    const std::string word = word_of(bytes);
    t.line("static __device__ __forceinline__ void store_where(bool taken, char*& to, long long further, " + word +
           " v) {");
    t.line("#ifdef __CUDACC__");
    const std::string to = bytes == 16 ? "v4.u32 [%0], {%3, %4, %5, %6}" : bytes == 4 ? "u32 [%0], %3" : "u16 [%0], %3";
    const std::string values = bytes == 16  ? "\"r\"(v.x), \"r\"(v.y), \"r\"(v.z), \"r\"(v.w)"
                               : bytes == 4 ? "\"r\"(v)"
                                            : "\"h\"(v)";
    t.line("asm volatile(\"{.reg .pred p; setp.ne.u32 p, %1, 0; @p st.global." + to +
           "; add.s64 %0, %0, %2;}\" : \"+l\"(to) : \"r\"((unsigned)taken), \"l\"(further), " + values +
           " : \"memory\");");
    t.line("#else");
    t.line("if (taken) *(" + word + "*)to = v;");
    t.line("to += further;");
    t.line("#endif");
    t.line("}");
}

// Lane by lane, one output or whole vectors of them.
void SwapAbRows::columns() {
    t.line(
        "// Where a lane's columns lie, each with the same of every channel; `to` in the first of its channels that "
        "are "
        "not stored.");
    t.line("const int first_channel_of_lane = warp * (32 / ROW_SLOTS) + lane / ROW_SLOTS;   // of a part");
    t.line("char* to[ROW_TURNS];");
    t.line("bool there[ROW_TURNS];");
    t.unrolled("for (int turn = 0; turn < ROW_TURNS; turn++) {");
    t.line("const int q = (turn * ROW_SLOTS + lane % ROW_SLOTS) * ROW_VECTOR, pixel = first + q / PHASES_W;");
    t.line(swap_ab_row(s_, "pixel", "column"));
    t.line(
        "const int h = PERIOD_H * (at.u[2] + row) + (code >> 8 & 255), w = PERIOD_W * column + (code & 255) + q % "
        "PHASES_W;");
    t.line("there[turn] = inside && h < s.out[2] && w < s.out[3];");
    t.line(
        "to[turn] = (char*)(image + (first_channel_of_lane * channel_step + (int)operands.ys0.d * d + row_step * h + "
        "w));");
    t.line("}");
}

void SwapAbRows::stores_of_columns() {
    t.line("constexpr int ROWS = 4 * (32 / ROW_SLOTS);   // that the warps store at once");
    t.unrolled("for (int first = 0; first < LAID; first += ROWS) {");
    t.line("const int c = first + first_channel_of_lane;");
    t.line("const bool ok = (LAID % ROWS == 0 || c < LAID) && (COUT % LAID == 0 || part * LAID + c < COUT);");
    t.line(
        "const long long further = (LAID % ROWS == 0 || first + ROWS < LAID ? ROWS : LAID % ROWS) * (long "
        "long)channel_step * sizeof(*image);");
    t.unrolled("for (int turn = 0; turn < ROW_TURNS; turn++)");
    t.line("store_where(ok && there[turn], to[turn], further, *(const " + word_of(element_ * together()) +
           "*)(half + min(c, LAID - 1) * LAID_PITCH + (turn * ROW_SLOTS + lane % ROW_SLOTS) * ROW_VECTOR));");
    t.line("}");
}

// Vectors wherever a row begins; what is left at the ends of a piece singly. (Vectors only where they fill sectors
// of 32 bytes were slower: f11 0.956 ms instead of 0.908, fp16 0.937 instead of 0.841.)
void SwapAbRows::pieces() {
    const std::string kinds = "[" + num(shape_.vector / 4) + "]", turns = kinds + "[" + num(wide_turns_) + "]";
    t.line(
        "// The window's outputs are pieces of one row or of two, which begin in its columns `start`; its column q "
        "lies at `from` + q.");
    t.line(swap_ab_row(s_, "first", "w"));
    t.line("const int h = PERIOD_H * (at.u[2] + row) + (code >> 8 & 255), second = " +
           std::string(s_.unbroken ? "EXTENT_W - w" : "RUN_PIXELS") + ";   // the first pixel of the second piece");
    t.line("const int start[2] = {-PERIOD_W * w, PERIOD_W * second}, plane = (int)operands.ys0.d * d + row_step * h;");
    t.line("const int from[2] = {plane - start[0], plane + PERIOD_H * row_step - start[1]};");
    t.line("// In shared memory as far as from a multiple of 16 bytes as in memory, the second piece after the first.");
    t.line("auto shift_of = [&](int piece, int c) {");
    t.line(
        "return piece * WIDE_OUT + (int)((unsigned)((unsigned long long)image / sizeof(*image) + from[piece] + c * "
        "channel_step) % WIDE_OUT);");
    t.line("};");
    t.line("// A lane's vectors and its single element: in memory, in the first channel that is not stored.");
    t.line("char *wide_to" + turns + ", *end_to" + kinds + ";");
    t.line("int end_column" + kinds + ";");
    t.line("bool wide_there" + turns + ", end_there" + kinds + ";");
    t.line(
        "const long long further = WIDE_OUT * operands.ys0.c * (long long)sizeof(*image);   // bytes to the next "
        "channel whose shifts are the same");
    t.unrolled("for (int kind = 0; kind < KINDS; kind++) {");
    t.line("const int c0 = warp + kind * 4;   // and every WIDE_OUT-th channel from it on, whose shifts are its own");
    t.line(type_ + "* const plane_0 = image + c0 * channel_step;");
    ranges();
    wholes();
    ends();
    t.line("}");
}

void SwapAbRows::ranges() {
    t.line(
        "// In columns of shared memory: where column 0 lies in memory, what there is, and what of it comes in whole "
        "vectors.");
    t.line("struct Piece { int at, first, last, wide, narrow; };");
    t.line("Piece piece[2];");
    t.unrolled("for (int p = 0; p < 2; p++) {");
    t.line(
        "const int end = inside && h + p * PERIOD_H < s.out[2] ? min(PERIOD_W * RUN_PIXELS, start[p] + s.out[3]) "
        ": 0;");
    t.line("const int shift = shift_of(p, c0), begin = max(start[p], 0) + shift, last = max(begin, end + shift);");
    t.line("const int wide = min(last, (begin + WIDE_OUT - 1) / WIDE_OUT * WIDE_OUT);");
    t.line(
        "piece[p] = {from[p] - shift, begin, last, wide, max(wide, min(last, WIDE_TURNS * 32 * WIDE_OUT) / "
        "WIDE_OUT * WIDE_OUT)};");
    t.line("}");
}

void SwapAbRows::wholes() {
    t.unrolled("for (int turn = 0; turn < WIDE_TURNS; turn++) {");
    t.line("const int column = (turn * 32 + lane) * WIDE_OUT;");
    t.line("const bool later = column >= piece[1].wide && column < piece[1].narrow;");
    t.line("wide_there[kind][turn] = later || (column >= piece[0].wide && column < piece[0].narrow);");
    t.line("wide_to[kind][turn] = (char*)(plane_0 + ((later ? piece[1].at : piece[0].at) + column));");
    t.line("}");
}

void SwapAbRows::ends() {
    t.line("// What is left: the ends of both pieces, one after another, fewer than there are lanes.");
    t.line("const int before = piece[0].wide - piece[0].first + piece[0].last - piece[0].narrow;");
    t.line("const Piece own = lane < before ? piece[0] : piece[1];");
    t.line("const int e = lane < before ? lane : lane - before, head = own.wide - own.first;");
    t.line("end_there[kind] = e < head + own.last - own.narrow;");
    t.line("end_column[kind] = end_there[kind] ? (e < head ? own.first : own.narrow - head) + e : 0;");
    t.line("end_to[kind] = (char*)(plane_0 + (own.at + end_column[kind]));");
}

void SwapAbRows::stores_of_pieces() {
    const bool within = wide_turns_ * 32 * shape_.vector <= shape_.pitch;
    const std::string column = "(turn * 32 + lane) * WIDE_OUT";
    t.unrolled("for (int kind = 0; kind < KINDS; kind++)");
    t.unrolled("for (int c = kind * 4; c < LAID; c += WIDE_OUT) {");
    t.line("if (COUT % LAID != 0 && part * LAID + c + warp >= COUT) continue;");
    t.line("const " + type_ + "* const own = half + (c + warp) * LAID_PITCH;");
    t.unrolled("for (int turn = 0; turn < WIDE_TURNS; turn++)");
    t.line("store_where(wide_there[kind][turn], wide_to[kind][turn], further, *(const uint4*)(own + " +
           (within ? column : "min(" + column + ", LAID_PITCH - WIDE_OUT)") + "));");
    t.line("store_where(end_there[kind], end_to[kind], further, *(const " + word_of(element_) +
           "*)(own + end_column[kind]));");
    t.line("}");
}

}  // namespace transfuse::cuda
