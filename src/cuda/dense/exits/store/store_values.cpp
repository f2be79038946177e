#include "cuda/dense/exits/store/store_values.h"

#include <algorithm>

#include "cuda/dense/exits/store/store_along.h"
#include "cuda/kernel/expression.h"

namespace transfuse::cuda {

namespace {

constexpr std::string_view store_vectors =
#include "cuda/device/exits/store_vectors.cuh"
    ;

// Stores that need not wait for a branch after values that take long.
bool is_apart(const StoreText& role, const Operand& o) {
    return !role.program.pixel_major && role.program.channel_reductions && role.m.vector > 1 &&
           (bytes(o.dtype) * role.m.vector == 8 || bytes(o.dtype) * role.m.vector == 16);
}

void store_pixels(StoreText& role, size_t k) {
    const Operand& o = role.epilogue.stores()[k];
    const std::string id = num(static_cast<int64_t>(k)), value = role.chain.operand(o.value),
                      type(storage_name(o.dtype));
    const Chain::Kind kind = role.chain.kind(o.value);
    role.t.line("{");
    if (!kind.c) role.t.line("if (lane_column == 0) {");
    role.t.unrolled("for (int i = 0; i < BATCH; i++) {");
    role.t.line("if (!VALID(i)) continue;");
    role.t.line(type + "* to = operands.y" + id + " + at" + id + "[i];");
    if (kind.c) {
        role.t.line("if (wide" + id + " && CHANNEL_OK(VECTOR - 1)) store_vector<VECTOR>(to, " +
                    role.chain.name(o.value) + (kind.x ? "[i]" : "") + ");");
        role.t.line("else {");
        role.t.unrolled("for (int e = 0; e < VECTOR; e++) if (CHANNEL_OK(e)) tf_store(to + e * operands.ys" + id +
                        ".c, " + value + ");");
        role.t.line("}");
    } else {
        role.t.line("tf_store(to, " + value + ");");
    }
    role.t.line("}");
    if (!kind.c) role.t.line("}");
    role.t.line("}");
}

void store_rows(StoreText& role, size_t k) {
    if (role.m.along) return store_along(role, k);
    const Operand& o = role.epilogue.stores()[k];
    const std::string id = num(static_cast<int64_t>(k)), value = role.chain.operand(o.value),
                      type(storage_name(o.dtype)), ys = "operands.ys" + id;
    const Chain::Kind kind = role.chain.kind(o.value);
    const std::string rows = kind.c ? "BATCH" : "1";
    role.t.line(kind.c              ? "if (count > 0) {"
                : role.m.neighbours ? "if (count > 0 && t < LANES_W && hb == 0) {"
                                    : "if (count > 0 && lane_row == 0 && hb == 0) {");
    role.t.line("const long long step = ROW_STEP * " + ys + ".c;");
    role.t.line(type + "* to = operands.y" + id + " + offset_of(" + ys + ", pn, " +
                (o.depends[1] || kind.c ? "group * COUT + CHANNEL(0)" : "0") + ", pd, ph, pw);");
    const bool whole_rows = stores_whole(role, o), apart = is_apart(role, o) && !whole_rows;
    if (role.m.vector > 1) {
        if (!whole_rows)
            role.t.line((apart ? "const bool all = wide" : "if (wide") + id + " && count == VECTOR" +
                        (apart ? ";" : ") {"));
        role.t.unrolled("for (int i = 0; i < " + rows + "; i++, to += step) {");
        if (kind.c) role.t.line("if (!CHANNEL_OK(i)) continue;");
        std::string whole = role.chain.name(o.value) + "[i]";
        if (!kind.c || !kind.x) {
            whole = "whole";
            role.t.line("REAL whole[VECTOR];");
            role.t.unrolled("for (int e = 0; e < VECTOR; e++) whole[e] = " + value + ";");
        }
        role.t.line(apart ? "store_vector_where<VECTOR>(all, to, " + whole + ");"
                          : "store_vector<VECTOR>(to, " + whole + ");");
        role.t.line("}");
        if (apart) role.t.line("to -= " + rows + " * step;");
        if (whole_rows) {
            role.t.line("}");
            return;
        }
        role.t.line(apart ? "if (!all) {" : "} else {");
    }
    role.t.unrolled("for (int i = 0; i < " + rows + "; i++, to += step) {");
    if (kind.c) role.t.line("if (!CHANNEL_OK(i)) continue;");
    role.t.unrolled("for (int e = 0; e < VECTOR; e++) if (e == 0 || VALID(e)) tf_store(to + e * " + ys + ".w, " +
                    value + ");");
    role.t.line("}");
    if (role.m.vector > 1) role.t.line("}");
    role.t.line("}");
}

}  // namespace

bool stores_whole(const StoreText& role, const Operand& o) {
    const int64_t vector = role.m.vector;
    if (role.program.steps.empty() || role.program.pixel_major || vector == 1 || !role.program.around->aligned ||
        o.root < 0 || o.strides[4] != 1 || o.offset % vector != 0)
        return false;
    return role.epilogue.problem().axes[3].out % vector == 0 && bytes(o.dtype) * vector <= 16 &&
           std::all_of(o.strides.begin(), o.strides.begin() + 4, [&](int64_t s) { return s % vector == 0; });
}

std::string_view vectors_stored() { return store_vectors; }

void sinks(StoreText& role) {
    for (size_t k = 0; k < role.epilogue.stores().size(); ++k)
        role.program.pixel_major ? store_pixels(role, k) : store_rows(role, k);
    role.statistics.accumulate();
}

}  // namespace transfuse::cuda
