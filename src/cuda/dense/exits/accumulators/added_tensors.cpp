#include "cuda/dense/exits/accumulators/added_tensors.h"

#include <algorithm>

#include "cuda/kernel/expression.h"

namespace transfuse::cuda {

namespace {

constexpr std::string_view added =
#include "cuda/device/added.cuh"
    ;

std::string boxes_of(size_t number) {
    return number == 0 ? "to" : "to + " + num(static_cast<int64_t>(number)) + " * BLOCKS * SLOT_BYTES";
}

}  // namespace

bool lies_in_boxes(const Operand& tensor, const Problem& problem) {
    const int64_t vector = 16 / bytes(tensor.dtype);
    if (tensor.strides[1] != 1 || tensor.offset % vector != 0 || problem.cout % vector != 0) return false;
    for (size_t a = 0; a < 4; ++a)
        if (problem.axes[a].out > 1 && tensor.strides[a == 0 ? 0 : a + 1] % vector != 0) return false;
    return true;
}

Few<size_t, 4> added_tensors(const Epilogue& epilogue) {
    const Problem& problem = epilogue.problem();
    const auto& reads = epilogue.reads();
    Few<size_t, 4> list;
    if (epilogue.stores().empty()) return list;
    for (size_t k = 0; k < reads.size(); ++k) {
        const Operand& o = reads[k];
        const auto& steps = epilogue.program().steps;
        const bool read = std::any_of(steps.begin(), steps.end(), [&](ValueId v) {
            const auto& args = epilogue.graph()[v].args;
            return std::find(args.begin(), args.end(), o.value) != args.end();
        });
        if (!read || epilogue.table_of(k) >= 0 || epilogue.image_table_of(k) >= 0 || o.root < 0) continue;
        bool everywhere = o.depends[1];
        for (size_t a = 0; a < 4; ++a) {
            const size_t axis = a == 0 ? 0 : a + 1;
            everywhere = everywhere && (problem.axes[a].out == 1 || (o.depends[axis] && o.strides[axis] > 0));
        }
        if (everywhere && bytes(o.dtype) == bytes(epilogue.stores()[0].dtype) && lies_in_boxes(o, problem))
            list.push_back(k);
    }
    return list;
}

std::string_view added_code() { return added; }

Hooks asked_while_multiplying() { return {{"multiplied", "\n            if (k == 0) fragments.ask(at);"}}; }

void added_fields(Lines& t) {
    t.line("unsigned waits;                   // barriers, one an accumulator: its boxes have come");
    t.line("int turn;                         // of the tile");
}

void added_begin(Lines& t) {
    t.line("if (t == 0) {");
    t.line("for (int b = 0; b < BLOCKS; b++) barrier_init(waits + b * 8, 1);");
    t.line("barrier_fence();");
    t.line("}");
    t.line("barrier_named(6 + warpgroup, 128);");
}

void added_asked(Lines& t, int blocks) {
    t.line("__device__ __forceinline__ void ask(const Place& at, int b) const {");
    t.line("const int* const maps = segment_maps + ((at.variant * 2 + warpgroup) * BLOCKS + b) * SEGMENTS;");
    t.line("const unsigned bar = waits + b * 8;");
    t.line("int many = 0;");
    t.line("for (int segment = 0; segment < SEGMENTS; segment++) many += maps[segment] >= 0;");
    t.line("barrier_expect(bar, many * (ADDED * BOX_PARTS * BOX_PIXELS * BOX_ROW));");
    t.line("for (int box = 0; box < ADDED * SEGMENTS * BOX_PARTS; box++) {");
    t.line(
        "const int tensor = box / (SEGMENTS * BOX_PARTS), part = box % (SEGMENTS * BOX_PARTS), map = maps[part / "
        "BOX_PARTS];");
    t.line(
        "if (map >= 0) copy_box(boxes + (tensor * BLOCKS + b) * SLOT_BYTES + part * BOX_BYTES, "
        "operands.added[tensor][map], at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64) + (SPLIT_CHANNELS ? warpgroup * 64 : "
        "0) + part % BOX_PARTS * BOX_CHANNELS, at.u[3] + warpgroup * SECOND_W, at.u[2] + warpgroup * SECOND_H, at.u[1] "
        "+ warpgroup * SECOND_D, at.u[0] + warpgroup * SECOND_N, bar);");
    t.line("}");
    t.line("}");
    t.line("// The boxes of a tile, each as soon as what lay there is on its way.");
    t.line("__device__ __forceinline__ void ask(const Place& at) const {");
    t.line("if (lane != 0 || warp != 0) return;");
    for (int b = 0; b < blocks; ++b) {
        t.line("boxes_read<" + num(blocks - 1 - b) + ">();");
        t.line("ask(at, " + num(b) + ");");
    }
    t.line("}");
}

// As TmaProgram lays them down.
void added_words(Lines& t, const BoxShape& box, const std::string& name, size_t number) {
    t.unrolled("for (int k = 0; k < VECTOR; k += 2) {");
    t.line("const unsigned both = places[k * 2 + lane % 4];");
    t.unrolled("for (int j = 0; j < 2; j++) {");
    t.line("const unsigned row = j ? both >> 16 : both & 0xffff;");
    t.unrolled("for (int i = 0; i < 2; i++) {");
    t.line("const int m = warp * 16 + i * 8 + lane / 4, channel = m % SEGMENT, within = channel % BOX_CHANNELS;");
    t.line("const unsigned box = " + boxes_of(number) +
           " + (m / SEGMENT * BOX_PARTS + channel / BOX_CHANNELS) * BOX_BYTES;");
    t.line(name +
           "[i][k + j] = row != 0xffff && m / SEGMENT < SEGMENTS && channel < BOX_PARTS * BOX_CHANNELS ? "
           "__uint_as_float(shared_word(box + (row " +
           std::string(box.swizzle() ? "^" : "+") + " within * 4))) : 0.f;");
    t.line("}");
    t.line("}");
    t.line("}");
}

void added_pairs(Lines& t, const std::string& name, size_t number, const std::string& type) {
    t.line("{");
    t.line("const int half = lane / 8 % 2, first_row = warp * 16 + half * 8;");
    t.line("const unsigned from = " + boxes_of(number) + ", segment = from + first_row / SEGMENT * BOX_BYTES;");
    t.unrolled("for (int k = 0; k < VECTOR; k += 4) {");
    t.line("const int pixel = k * 4 + lane / 16 * 8 + lane % 8, row = pixel < RUN_PIXELS ? row_of_pixel(pixel) : -1;");
    t.line(
        "const bool there = row >= 0 && first_row / SEGMENT < SEGMENTS && first_row % SEGMENT < BOX_CHANNELS;   // "
        "else anything");
    t.line("unsigned m[4];");
    t.line("load_transposed(m, there ? segment + vector_at(row, first_row % SEGMENT / 8) : from + SLOT_BYTES - 16);");
    t.unrolled("for (int i = 0; i < 4; i++) {");
    t.line("const tf_vector<" + type + ", 2> both = *(const tf_vector<" + type + ", 2>*)&m[i];");
    t.line("if (k + i / 2 * 2 < VECTOR) " + name + "[i % 2][k + i / 2 * 2] = tf_to<REAL>(both.lane[0]), " + name +
           "[i % 2][k + i / 2 * 2 + 1] = tf_to<REAL>(both.lane[1]);");
    t.line("}");
    t.line("}");
    t.line("}");
}

}  // namespace transfuse::cuda
