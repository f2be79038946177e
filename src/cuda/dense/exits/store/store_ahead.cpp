#include "cuda/dense/exits/store/store_ahead.h"

#include <algorithm>

#include "cuda/kernel/expression.h"

namespace transfuse::cuda {

bool reads_ahead(const StoreText& role) {
    return std::any_of(role.m.ahead.begin(), role.m.ahead.end(), [](int at) { return at >= 0; });
}

void ask_ahead(StoreText& role) {
    role.t.line("auto ask = [&](int tile, int wg, int chunk_index, int set, unsigned char* ahead) {");
    tile_place(role);
    chunk_place(role);
    columns_begin(role);
    role.t.line("if (count <= 0) continue;");
    role.t.line("for (int hb = 0; hb < BATCHES; hb++) {");
    for (size_t k = 0; k < role.m.ahead.size(); ++k) {
        if (role.m.ahead[k] < 0) continue;
        const Operand& o = role.epilogue.reads()[k];
        const std::string id = num(static_cast<int64_t>(k)), rs = "operands.rs" + id, type(storage_name(o.dtype)),
                          size = num(bytes(o.dtype)), whole = num(bytes(o.dtype) * role.m.vector);
        role.t.line("{");
        role.t.line("const " + type + "* from = operands.r" + id + " + (PN(0) * " + rs + ".n + PD(0) * " + rs +
                    ".d + PH(0) * " + rs + ".h + PW(0) * " + rs + ".w + (long long)(group * COUT + CHANNEL(0)) * " +
                    rs + ".c);");
        role.t.unrolled("for (int i = 0; i < BATCH; i++, from += ROW_STEP * " + rs + ".c) {");
        role.t.line("if (!CHANNEL_OK(i)) continue;");
        role.t.line("unsigned char* to = ahead + " + num(role.m.ahead[k]) + " + AHEAD(k, q, i) * " + whole + ";");
        const bool wide = role.m.vector > 1 && o.depends[4] && bytes(o.dtype) * role.m.vector >= 4;
        if (wide)
            role.t.line("if (wide_r" + id + " && count == VECTOR) copy_" + whole + "(shared_address(to), from, true);"),
                role.t.line("else");
        role.t.line("for (int e = 0; e < VECTOR; e++) if (VALID(e)) " +
                    (bytes(o.dtype) >= 4
                         ? "copy_" + size + "(shared_address(to + e * " + size + "), from + e * " + rs + ".w, true);"
                         : "((" + type + "*)to)[e] = from[e * " + rs + ".w];"));
        role.t.line("}");
        role.t.line("}");
    }
    role.t.line("}");
    role.t.line("}");
    role.t.line("}");
    role.t.line("};");
    role.t.line("unsigned char *ahead = shared + AHEAD_AT, *next_ahead = ahead + AHEAD_BYTES;");
    role.t.line("if (blockIdx.x < s.total) ask(blockIdx.x, 0, 0, 0, next_ahead);");
    role.t.line("copy_commit();");
}

void turn_ahead(StoreText& role) {
    role.t.line("unsigned char* const now_ahead = next_ahead;");
    role.t.line("next_ahead = ahead;");
    role.t.line("ahead = now_ahead;");
    role.t.line("{");
    if (role.c.alternates) {
        role.t.line("int tile_next = tile, wg_next = wg + 1, chunk_next = chunk_index, set_next = set;");
        role.t.line("if (wg_next == WRITERS) { wg_next = 0; set_next++; }");
        role.t.line("if (set_next == SETS) { set_next = 0; chunk_next++; }");
        role.t.line("if (chunk_next == CHUNKS) { chunk_next = 0; tile_next = next_tile(tile); }");
    } else {
        role.t.line("int tile_next = tile, wg_next = wg, chunk_next = chunk_index, set_next = set + 1;");
        role.t.line("if (set_next == SETS) { set_next = 0; chunk_next++; }");
        role.t.line("if (chunk_next == CHUNKS) { chunk_next = 0; wg_next++; }");
        role.t.line("if (wg_next == WRITERS) { wg_next = 0; tile_next = next_tile(tile); }");
    }
    role.t.line("if (tile_next < s.total) ask(tile_next, wg_next, chunk_next, set_next, next_ahead);");
    role.t.line("copy_commit();");
    role.t.line("copy_wait<1>();");
    role.t.line("}");
}

}  // namespace transfuse::cuda
