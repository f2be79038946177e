#include "cuda/dense/exits/store/chunk_chain.h"

#include "cuda/kernel/expression.h"

namespace transfuse::cuda {

namespace {

std::string part(int warp, int value, int values) {
    return "exchange[exchange_turn * 512 + ((" + num(warp) + " * LANES_W + lane_column) * VECTOR + e) * " +
           num(values) + " + " + num(value) + "]";
}

}  // namespace

void ChunkChain::in_warp(const std::string& result, Op op, const std::string& term) {
    const Kind x{false, true};
    t.line("REAL " + result + dims(x) + ";");
    if (!pixel_major_) {  // four sums side by side: each waits for itself alone
        loops(x);
        t.line("{");
        t.line("constexpr int APART = BATCH < 4 ? BATCH : 4;");
        t.line("REAL part[APART];");
        const std::string one = "(CHANNEL_OK(i) ? (REAL)(" + term + ") : " + identity(op) + ")";
        t.unrolled("for (int i = 0; i < BATCH; i++) part[i % APART] = i < APART ? " + one + " : " +
                   combined(op, "part[i % APART]", one) + ";");
        t.unrolled("for (int i = 1; i < APART; i++) part[0] = " + combined(op, "part[0]", "part[i]") + ";");
        t.line(ref(result, x) + " = part[0];");
        t.line("}");
    } else {
        loops(x);
        t.line(ref(result, x) + " = " + identity(op) + ";");
        loops({true, true});
        t.line("if (CHANNEL_OK(" + channel_var() + ")) " + ref(result, x) + " = " + combined(op, ref(result, x), term) +
               ";");
    }
    loops(x);
    const std::string first = pixel_major_ ? "1" : "LANES_W", end = pixel_major_ ? "LANES_W" : "32";
    t.line("for (int k = " + first + "; k < " + end + "; k *= 2) " + ref(result, x) + " = " +
           combined(op, ref(result, x), "__shfl_xor_sync(~0u, " + ref(result, x) + ", k)") + ";");
}

// Two places in turn: when one is written again, everybody has passed the barrier after reading it.
void ChunkChain::send(const std::vector<std::string>& values) {
    const Kind x{false, true};
    const std::string many = num(static_cast<int64_t>(values.size()));
    t.line("if ((t & 31) < LANES_W) {");
    for (size_t k = 0; k < values.size(); ++k) {
        loops(x);
        t.line("exchange[exchange_turn * 512 + (((t >> 5) * LANES_W + lane_column) * VECTOR + e) * " + many + " + " +
               num(static_cast<int64_t>(k)) + "] = " + ref(values[k], x) + ";");
    }
    t.line("}");
    t.line("barrier_named(2 + store_group, 128);");
}

void ChunkChain::across(const std::string& result, Op op, const std::string& term) {
    in_warp(result, op, term);
    if (!exchanged()) return;
    const Kind x{false, true};
    send({result});
    loops(x);
    t.line(ref(result, x) + " = " +
           combined(op, combined(op, part(0, 0, 1), part(1, 0, 1)), combined(op, part(2, 0, 1), part(3, 0, 1))) + ";");
    t.line("exchange_turn ^= 1;");
}

void ChunkChain::along(const std::string& result, Op op, const std::string& term) {
    const std::string one = ref(result, rows);
    t.line("REAL " + result + dims(rows) + ";");
    loops(rows);
    t.line(one + " = " + identity(op) + ";");
    loops({true, true});
    t.line("if (VALID(e)) " + one + " = " + combined(op, one, term) + ";");
    t.unrolled("for (int apart = 1; apart < LANES_W; apart *= 2)");
    loops(rows);
    t.line(one + " = " + combined(op, one, "__shfl_xor_sync(~0u, " + one + ", apart)") + ";");
}

void ChunkChain::exponentials(const std::string& v, const std::string& term, Kind left) {
    if (!exchanged() || !left.x) return Chain::exponentials(v, term, left);
    const Kind x = pixels;
    const std::string none = "__int_as_float(0xff800000)", top = ref(v + "_top", x), mass = ref(v + "_mass", x),
                      share = ref(v + "_share", x);
    in_warp(v + "_top", Op::amax, term);
    exponentials_below(v, term, x);
    in_warp(v + "_mass", Op::sum, v + "_exp[i][e]");
    send({v + "_top", v + "_mass"});
    t.line("REAL " + v + "_share" + dims(x) + ";");
    loops(x);
    t.line("{");
    t.line("const REAL own = " + top + ";");
    t.line("constexpr int WARP = LANES_W * VECTOR * 2;");
    t.line(
        "const REAL* parts = exchange + exchange_turn * 512 + (lane_column * VECTOR + e) * 2;   // of each warp its "
        "top and its mass");
    auto warp = [](int k) { return "parts[" + num(k) + " * WARP]"; };
    t.line(top + " = " +
           combined(Op::amax, combined(Op::amax, warp(0), warp(1)), combined(Op::amax, warp(2), warp(3))) + ";");
    auto factor = [&](const std::string& of) {
        return "(" + of + " == " + none + " ? (REAL)0 : tf_exp(" + of + " - " + top + "))";
    };
    t.line(mass + " = 0.f;");
    t.unrolled("for (int k = 0; k < 4; k++) " + mass + " += parts[k * WARP + 1] * " + factor("parts[k * WARP]") + ";");
    t.line(share + " = tf_quotient(" + factor("own") + ", " + mass + ");");
    t.line("}");
    t.line("exchange_turn ^= 1;");
}

void ChunkChain::load_elements(const std::string& name, size_t read, Kind kind) {
    const Operand& o = epilogue_.reads()[read];
    if (m_.ahead[read] >= 0) {  // it came while the chunk before was stored
        const std::string vector = "tf_vector<" + std::string(storage_name(o.dtype)) + ", VECTOR>";
        t.unrolled("for (int i = 0; i < BATCH; i++) {");
        t.line("const " + vector + " whole = ((const " + vector + "*)(ahead + " + num(m_.ahead[read]) +
               "))[AHEAD(k, q, i)];");
        t.unrolled("for (int e = 0; e < VECTOR; e++) " + name + "[i][e] = tf_to<REAL>(whole.lane[e]);");
        t.line("}");
        return;
    }
    const bool along = pixel_major_ ? o.depends[1] : o.depends[4];
    if (m_.vector == 1 || m_.along || !along || !kind.x) return Chain::load_elements(name, read, kind);
    const std::string id = num(static_cast<int64_t>(read)), rs = "operands.rs" + id;
    const std::string type(storage_name(o.dtype)), lane = pixel_major_ ? "CHANNEL_OK(e)" : "VALID(e)";
    const std::string rows = pixel_major_ || kind.c ? "BATCH" : "1";
    auto pixel = [&](const std::string& x) {
        return "PN(" + x + ") * " + rs + ".n + PD(" + x + ") * " + rs + ".d + PH(" + x + ") * " + rs + ".h + PW(" + x +
               ") * " + rs + ".w";
    };  // strides of what it does not vary along are 0
    const std::string channel = kind.c ? " + (long long)(group * COUT + CHANNEL(0)) * " + rs + ".c" : "";
    const std::string to = name + (pixel_major_ || kind.c ? "[i]" : ""), row_ok = pixel_major_ ? "VALID(i)"
                                                                                  : kind.c     ? "CHANNEL_OK(i)"
                                                                                               : "true";
    // One branch for all rows: their loads are under way together.
    auto each_row = [&] {
        if (!pixel_major_) t.line("const " + type + "* from = operands.r" + id + " + (" + pixel("0") + channel + ");");
        t.unrolled("for (int i = 0; i < " + rows + "; i++" + (pixel_major_ ? "" : ", from += ROW_STEP * " + rs + ".c") +
                   ") {");
        if (pixel_major_) t.line("const " + type + "* from = operands.r" + id + " + (" + pixel("i") + channel + ");");
    };
    t.line("if (wide_r" + id + " && " + (pixel_major_ ? "CHANNEL_OK(VECTOR - 1)" : "count == VECTOR") + ") {");
    each_row();
    t.line("tf_vector<" + type + ", VECTOR> whole = {};");
    t.line("if (" + row_ok + ") whole = *(const tf_vector<" + type + ", VECTOR>*)from;");
    t.unrolled("for (int e = 0; e < VECTOR; e++) " + to + "[e] = tf_to<REAL>(whole.lane[e]);");
    t.line("}");
    t.line("} else {");
    each_row();
    t.unrolled("for (int e = 0; e < VECTOR; e++) " + to + "[e] = " + row_ok + " && " + lane +
               " ? tf_load<REAL>(from + e * " + rs + (pixel_major_ ? ".c" : ".w") + ") : 0.f;");
    t.line("}");
    t.line("}");
}

}  // namespace transfuse::cuda
