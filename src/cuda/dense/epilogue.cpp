#include "cuda/dense/epilogue.h"

#include <algorithm>
#include <map>
#include <set>

#include "cuda/expression.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

void Lines::line(const std::string& text) {
    if (text.empty()) return blank();
    const bool closes = text[0] == '}';
    if (closes) --depth_;
    if (text[0] != '#') body_.append(static_cast<size_t>(depth_) * 4, ' ');
    body_ += text + "\n";
    if (text.back() == '{') ++depth_;
}

namespace {

std::string num(int64_t v) { return std::to_string(v); }

std::string combine(Op op, const std::string& a, const std::string& b) {
    if (op == Op::amax) return "tf_max(" + a + ", " + b + ")";
    if (op == Op::amin) return "tf_min(" + a + ", " + b + ")";
    return "(" + a + " + " + b + ")";
}
std::string identity(Op op) {
    if (op == Op::amax || op == Op::logsumexp) return "__int_as_float(0xff800000)";
    if (op == Op::amin) return "__int_as_float(0x7f800000)";
    return "0.f";
}

}  // namespace

Epilogue::Epilogue(const TileProgram& program, const Problem& problem)
    : program_(program), problem_(problem), graph_(program.around->plan.graph), reads_(program.reads), stores_(program.stores) {
    channels_ = problem.groups * problem.cout;
    // Tables serve the tile steps; what only the prologue reads comes from memory.
    std::set<ValueId> used;
    if (program.bias >= 0) used.insert(program.bias);
    for (ValueId v : program.steps)
        for (ValueId a : graph_[v].args) used.insert(a);
    for (const Operand& o : reads_)
        table_of_.push_back(used.count(o.value) && (o.per_channel() || (o.constant() && true)) && channels_ <= 2048 ? tables_++ : -1);
    slots_at_ = tables_ * static_cast<int>(channels_) * problem.real_bytes();
    bool batch_kept = false;
    for (const GridReduction& g : program.grid) {
        Partial p;
        p.reduction = g;
        if (g.whole) {
            p.first_stat = stats_, p.stats = g.op == Op::logsumexp ? 2 : 1;
            stats_ += p.stats;
            batch_kept = batch_kept || !g.reduced[0];
        } else {
            for (const Partial& other : partials_)
                if (other.store >= 0 && other.reduction.of == g.of) p.store = other.store;
            if (p.store < 0) {
                Operand o;
                o.value = g.of, o.root = -1, o.dtype = problem.real_bytes() == 8 ? DType::f64 : DType::f32;
                const Sizes& shape = graph_[g.of].type.shape;
                const Sizes strides = contiguous_strides(shape);
                for (size_t k = 0; k < shape.size(); ++k) {
                    const size_t axis = k < 2 ? k : k + 3 - static_cast<size_t>(program.spatial);
                    o.strides[axis] = strides[k], o.depends[axis] = shape[k] > 1;
                }
                p.store = static_cast<int>(stores_.size());
                stores_.push_back(o);
            }
        }
        partials_.push_back(p);
    }
    per_tile_ = batch_kept;
    slots_at_ = (slots_at_ + 15) / 16 * 16;
    exchange_at_ = (stats_ * static_cast<int>(channels_) * problem.real_bytes() + 15) / 16 * 16;
}

StoreMap Epilogue::map(const Schedule& s, const Config& c) const {
    StoreMap m;
    const int chunk_pixels = s.chunk_rows * c.chunk_width;
    m.channels = s.segments > 1 ? s.segment : (s.joint && s.rows_per_plane == 2 ? 128 : 64);
    if (program_.pixel_major) {
        m.vector = m.channels >= 128 ? 4 : m.channels >= 64 ? 4 : m.channels >= 16 ? 2 : 1;
        m.lanes = std::min(32, m.channels / m.vector);
        m.rows = 128 / m.lanes;
        m.items = (chunk_pixels * s.phases_w + m.rows - 1) / m.rows;
        m.batch = std::min(m.items, std::max(1, (c.store_groups > 1 ? 8 : 24) / m.vector));
        m.turns = 1;
        return m;
    }
    int columns;
    if (program_.pool) {
        int64_t window = 1;
        for (int a = 0; a < 4; ++a) window *= std::max<int64_t>(1, program_.needs(s.phases_w).pool[a] / s.period[a]);
        columns = chunk_pixels / static_cast<int>(window);
        m.vector = 1, m.pixels = 1;
    } else {
        m.vectors = program_.vector > 1 && program_.vector % s.phases_w == 0;
        m.vector = m.vectors ? program_.vector : 1;
        m.pixels = m.vectors ? program_.vector / s.phases_w : 1;
        columns = m.vectors ? chunk_pixels / m.pixels : chunk_pixels * s.phases_w;
    }
    const int most = c.store_groups > 1 ? 16 : 32;   // values a thread holds
    if (program_.channel_reductions && columns % 4 == 0 && stats_ == 0) {
        // All channels of a pixel in one warp: partial results meet by shuffles, without a barrier.
        m.warps_along_w = true;
        m.lanes = 8;
        while (columns % (4 * m.lanes)) m.lanes /= 2;
        while ((m.channels + 32 / m.lanes - 1) / (32 / m.lanes) * m.vector > most && m.lanes > 1) m.lanes /= 2;
        m.rows = 32 / m.lanes;
        m.turns = columns / (4 * m.lanes);
        m.items = m.batch = (m.channels + m.rows - 1) / m.rows;
        return m;
    }
    m.lanes = 32;
    while (columns % m.lanes) m.lanes /= 2;
    auto items = [&] { return (m.channels + 128 / m.lanes - 1) / (128 / m.lanes); };
    if (program_.channel_reductions)
        while (items() * m.vector > most && m.lanes > 4) m.lanes /= 2;
    m.rows = 128 / m.lanes;
    m.turns = columns / m.lanes;
    m.items = items();
    m.batch = program_.channel_reductions ? m.items : std::min(m.items, std::max(1, most / m.vector));
    return m;
}

std::string Epilogue::operands() const {
    Lines t;
    t.line("struct Operands {");
    for (size_t k = 0; k < reads_.size(); ++k)
        t.line("const " + std::string(storage_name(reads_[k].dtype)) + "* r" + num(static_cast<int64_t>(k)) + "; Strides rs" + num(static_cast<int64_t>(k)) + ";");
    for (size_t k = 0; k < stores_.size(); ++k)
        t.line(std::string(storage_name(stores_[k].dtype)) + "* y" + num(static_cast<int64_t>(k)) + "; Strides ys" + num(static_cast<int64_t>(k)) + ";");
    if (stats_) t.line("REAL* partial;");
    t.line("};");
    return t.str();
}

std::string Epilogue::parameters() const {
    std::string p;
    for (size_t k = 0; k < reads_.size(); ++k)
        p += ", const " + std::string(storage_name(reads_[k].dtype)) + "* r" + num(static_cast<int64_t>(k)) + ", Strides rs" + num(static_cast<int64_t>(k));
    for (size_t k = 0; k < stores_.size(); ++k)
        p += ", " + std::string(storage_name(stores_[k].dtype)) + "* y" + num(static_cast<int64_t>(k)) + ", Strides ys" + num(static_cast<int64_t>(k));
    if (stats_) p += ", REAL* partial";
    return p;
}

std::string Epilogue::operands_made() const {
    std::string p;
    for (size_t k = 0; k < reads_.size(); ++k) p += (p.empty() ? "r" : ", r") + num(static_cast<int64_t>(k)) + ", rs" + num(static_cast<int64_t>(k));
    for (size_t k = 0; k < stores_.size(); ++k) p += (p.empty() ? "y" : ", y") + num(static_cast<int64_t>(k)) + ", ys" + num(static_cast<int64_t>(k));
    if (stats_) p += p.empty() ? "partial" : ", partial";
    return "const Operands operands{" + p + "};";
}

std::vector<Argument> Epilogue::arguments(int64_t partial_at, const std::vector<int64_t>& kept_at) const {
    std::vector<Argument> list;
    for (const Operand& o : reads_) {
        list.push_back(Argument::of_value(o.root, o.offset * bytes(o.dtype)));
        list.push_back(Argument::of(o.strides));
    }
    size_t kept = 0;
    for (const Operand& o : stores_) {
        list.push_back(o.root < 0 ? Argument::of_scratch(kept_at[kept++]) : Argument::of_value(o.root, o.offset * bytes(o.dtype)));
        list.push_back(Argument::of(o.strides));
    }
    if (stats_) list.push_back(Argument::of_scratch(partial_at));
    return list;
}

std::string Epilogue::prologue() const {
    Lines t;
    t.line("constexpr bool PROLOGUE = " + std::string(program_.prologue.empty() ? "false" : "true") + ";");
    t.line("static __device__ __forceinline__ REAL prologue(REAL x, int channel, const Pixel& at, const Operands& operands) {");
    std::map<ValueId, std::string> names{{program_.input.value, "x"}};
    for (ValueId v : program_.prologue) {
        std::vector<std::string> args;
        for (ValueId a : graph_[v].args) {
            if (is_literal(graph_, a)) {
                args.push_back(literal(graph_[a].attributes.number(Key::value), real()));
                continue;
            }
            if (!names.count(a)) {
                for (size_t k = 0; k < reads_.size(); ++k) {
                    if (reads_[k].value != a) continue;
                    static const char* coordinate[5] = {"at.at[0]", "channel", "at.at[1]", "at.at[2]", "at.at[3]"};
                    static const char* stride[5] = {"n", "c", "d", "h", "w"};
                    std::string at = "0ll";
                    for (size_t i = 0; i < 5; ++i)
                        if (reads_[k].depends[i]) at += std::string(" + ") + coordinate[i] + " * operands.rs" + num(static_cast<int64_t>(k)) + "." + stride[i];
                    t.line("const REAL r" + num(a) + " = tf_load<REAL>(operands.r" + num(static_cast<int64_t>(k)) + " + (" + at + "));");
                    names[a] = "r" + num(a);
                }
            }
            require(names.count(a) > 0, "dense prologue: value %", a, " is neither a step nor a read of the pass");
            args.push_back(names[a]);
        }
        t.line("const REAL v" + num(v) + " = " + expression(graph_[v], args, real()) + ";");
        names[v] = "v" + num(v);
    }
    t.line("return " + (program_.prologue.empty() ? std::string("x") : "v" + num(program_.prologue.back())) + ";");
    t.line("}");
    return t.str();
}

std::string Epilogue::tables() const {
    Lines t;
    for (size_t k = 0; k < reads_.size(); ++k) {
        if (table_of_[k] < 0) continue;
        const std::string id = num(static_cast<int64_t>(k));
        t.line("for (int c = t; c < " + num(channels_) + "; c += THREADS) ((REAL*)(shared + TABLES_AT))[" + num(table_of_[k] * channels_) + " + c] = tf_load<REAL>(r" + id +
               (reads_[k].depends[1] ? " + c * rs" + id + ".c" : "") + ");");
    }
    for (const Partial& p : partials_)
        for (int j = 0; j < p.stats && p.reduction.whole; ++j)
            t.line("for (int c = t; c < " + num(channels_) + "; c += THREADS) for (int g = 0; g < STORE_GROUPS; g++) ((REAL*)(shared + TABLES_AT + " + num(slots_at_) + " + g * " + num(group_bytes()) + "))[" + num((p.first_stat + j) * channels_) +
                   " + c] = " + (j == 0 ? identity(p.reduction.op) : "0.f") + ";");
    return t.str();
}

// Emits the steps on register arrays. A value that varies along channels and pixels is v[i][e]; i counts a thread's rows,
// e its neighbouring outputs; which of the two is the channel depends on the chunk's order.
struct Epilogue::Emit {
    const Epilogue& epilogue;
    Lines& t;
    const StoreMap& m;
    bool pixel_major;
    std::map<ValueId, Kind> kinds;
    std::map<ValueId, std::string> names;
    std::map<ValueId, ValueId> exponentials;   // logsumexp over channels -> its operand

    std::string channel_var() const { return pixel_major ? "e" : "i"; }
    std::string pixel_var() const { return pixel_major ? "i" : "e"; }
    std::string extent(const std::string& var) const { return var == "i" ? "BATCH" : "VECTOR"; }
    std::string dims(Kind k) const {
        std::string text;
        const bool i = pixel_major ? k.x : k.c, e = pixel_major ? k.c : k.x;
        if (i) text += "[BATCH]";
        if (e) text += "[VECTOR]";
        return text;
    }
    std::string ref(const std::string& name, Kind k) const {
        const bool i = pixel_major ? k.x : k.c, e = pixel_major ? k.c : k.x;
        return name + (i ? "[i]" : "") + (e ? "[e]" : "");
    }
    void loops(Kind k) const {
        const bool i = pixel_major ? k.x : k.c, e = pixel_major ? k.c : k.x;
        if (i) t.line("#pragma unroll"), t.line("for (int i = 0; i < BATCH; i++)");
        if (e) t.line("#pragma unroll"), t.line("for (int e = 0; e < VECTOR; e++)");
    }

    std::string operand(ValueId a) {
        const Graph& graph = epilogue.graph_;
        if (is_literal(graph, a)) return literal(graph[a].attributes.number(Key::value), epilogue.real());
        if (!names.count(a)) load(a);
        return ref(names.at(a), kinds.at(a));
    }

    void load(ValueId a) {
        for (size_t k = 0; k < epilogue.reads_.size(); ++k) {
            const Operand& o = epilogue.reads_[k];
            if (o.value != a) continue;
            const std::string id = num(static_cast<int64_t>(k)), name = "r" + num(a);
            Kind kind{o.depends[1], o.depends[0] || o.depends[2] || o.depends[3] || o.depends[4]};
            kinds[a] = kind, names[a] = name;
            t.line("REAL " + name + dims(kind) + ";");
            loops(kind);
            if (epilogue.table_of_[k] >= 0) {
                t.line(ref(name, kind) + " = table[" + num(epilogue.table_of_[k] * epilogue.channels_) + (kind.c ? " + group * COUT + CHANNEL(" + channel_var() + ")" : "") + "];");
                return;
            }
            std::string at = "0ll";
            const std::string x = pixel_var();
            if (o.depends[0]) at += " + PN(" + x + ") * operands.rs" + id + ".n";
            if (o.depends[1]) at += " + (group * COUT + CHANNEL(" + channel_var() + ")) * operands.rs" + id + ".c";
            if (o.depends[2]) at += " + PD(" + x + ") * operands.rs" + id + ".d";
            if (o.depends[3]) at += " + PH(" + x + ") * operands.rs" + id + ".h";
            if (o.depends[4]) at += " + PW(" + x + ") * operands.rs" + id + ".w";
            std::string valid = kind.x ? "VALID(" + x + ")" : "true";
            if (kind.c) valid += " && CHANNEL_OK(" + channel_var() + ")";
            t.line(ref(name, kind) + " = " + valid + " ? tf_load<REAL>(operands.r" + id + " + (" + at + ")) : 0.f;");
            return;
        }
        fail("dense epilogue: value %", a, " is neither a step nor a read of the pass");
    }

    void pointwise(ValueId v) {
        const Node& node = epilogue.graph_[v];
        // exp(x − logsumexp(x)) = exp(x − max) / Σ exp(x − max): the exponentials are there already.
        if (node.op == Op::exp && epilogue.graph_[node.args[0]].op == Op::sub) {
            const Node& difference = epilogue.graph_[node.args[0]];
            const auto found = exponentials.find(difference.args[1]);
            if (found != exponentials.end() && found->second == difference.args[0]) {
                const std::string of = "v" + num(difference.args[1]);
                names[v] = "v" + num(v), kinds[v] = {true, true};
                t.line("REAL " + of + "_share" + dims({false, true}) + ";");
                loops({false, true});
                t.line(ref(of + "_share", {false, true}) + " = 1.f / " + ref(of + "_mass", {false, true}) + ";");
                t.line("REAL " + names[v] + "[BATCH][VECTOR];");
                loops({true, true});
                t.line(names[v] + "[i][e] = " + of + "_exp[i][e] * " + ref(of + "_share", {false, true}) + ";");
                return;
            }
        }
        Kind kind;
        std::vector<std::string> args;
        for (ValueId a : node.args) {
            args.push_back(operand(a));
            if (is_literal(epilogue.graph_, a)) continue;
            kind.c = kind.c || kinds[a].c, kind.x = kind.x || kinds[a].x;
        }
        names[v] = "v" + num(v), kinds[v] = kind;
        t.line("REAL " + names[v] + dims(kind) + ";");
        loops(kind);
        t.line(ref(names[v], kind) + " = " + expression(node, args, epilogue.real()) + ";");
    }

    // All channels of each pixel: over the thread's own, then over the threads that hold the others.
    void across(const std::string& result, Op op, const std::string& term) {
        const Kind x{false, true};
        t.line("REAL " + result + dims(x) + ";");
        loops(x);
        t.line(ref(result, x) + " = " + identity(op) + ";");
        loops({true, true});
        t.line("if (CHANNEL_OK(" + channel_var() + ")) " + ref(result, x) + " = " + combine(op, ref(result, x), term) + ";");
        loops(x);
        const std::string first = pixel_major ? "1" : "LANES_W", end = pixel_major ? "LANES_W" : "32";
        t.line("for (int k = " + first + "; k < " + end + "; k *= 2) " + ref(result, x) + " = " + combine(op, ref(result, x), "__shfl_xor_sync(~0u, " + ref(result, x) + ", k)") + ";");
        if (pixel_major || m.warps_along_w) return;
        t.line("if ((t & 31) < LANES_W)");
        loops(x);
        t.line("exchange[((t >> 5) * LANES_W + lane_column) * VECTOR + e] = " + ref(result, x) + ";");
        t.line("barrier_named(2 + store_group, 128);");
        loops(x);
        const std::string part = "exchange[(%d * LANES_W + lane_column) * VECTOR + e]";
        auto nth = [&](int n) { std::string p = part; p.replace(p.find("%d"), 2, num(n)); return p; };
        t.line(ref(result, x) + " = " + combine(op, combine(op, nth(0), nth(1)), combine(op, nth(2), nth(3))) + ";");
        t.line("barrier_named(2 + store_group, 128);");
    }

    void channel_reduction(ValueId v) {
        const Node& node = epilogue.graph_[v];
        const std::string a = operand(node.args[0]);
        const Kind x{false, true};
        const std::string name = "v" + num(v), count = literal(static_cast<double>(epilogue.problem_.groups * epilogue.problem_.cout), epilogue.real());
        names[v] = name, kinds[v] = x;
        switch (node.op) {
            case Op::sum: across(name, Op::sum, a); break;
            case Op::amax: across(name, Op::amax, a); break;
            case Op::amin: across(name, Op::amin, a); break;
            case Op::mean:
                across(name, Op::sum, a);
                loops(x);
                t.line(ref(name, x) + " *= 1.f / " + count + ";");
                break;
            case Op::logsumexp:
                across(name + "_max", Op::amax, a);
                loops(x);
                t.line("if (tf_abs(" + ref(name + "_max", x) + ") == __int_as_float(0x7f800000)) " + ref(name + "_max", x) + " = 0.f;");
                t.line("REAL " + name + "_exp[BATCH][VECTOR];");
                loops({true, true});
                t.line(name + "_exp[i][e] = tf_exp(" + a + " - " + ref(name + "_max", x) + ");");
                across(name + "_mass", Op::sum, name + "_exp[i][e]");
                t.line("REAL " + name + dims(x) + ";");
                loops(x);
                t.line(ref(name, x) + " = tf_log(" + ref(name + "_mass", x) + ") + " + ref(name + "_max", x) + ";");
                exponentials[v] = node.args[0];
                break;
            case Op::var: {
                across(name + "_mean", Op::sum, a);
                loops(x);
                t.line(ref(name + "_mean", x) + " *= 1.f / " + count + ";");
                const std::string d = "(" + a + " - " + ref(name + "_mean", x) + ")";
                across(name, Op::sum, d + " * " + d);
                loops(x);
                const double rest = static_cast<double>(epilogue.problem_.groups * epilogue.problem_.cout) - node.attributes.number(Key::correction);
                t.line(ref(name, x) + " *= 1.f / " + literal(rest, epilogue.real()) + ";");
                break;
            }
            default: fail("dense epilogue: ", transfuse::name(node.op), " is no channel reduction");
        }
    }

    void store(size_t k) {
        const Operand& o = epilogue.stores_[k];
        const std::string id = num(static_cast<int64_t>(k));
        Kind kind = kinds.at(o.value);
        const std::string value = operand(o.value);
        const std::string type(storage_name(o.dtype));
        t.line("{");
        if (!kind.c && !pixel_major) t.line("if (lane_row == 0 && hb == 0) {");
        if (!kind.c && pixel_major) t.line("if (lane_column == 0) {");
        if (pixel_major) {
            t.line("#pragma unroll");
            t.line("for (int i = 0; i < BATCH; i++) {");
            t.line("if (!VALID(i)) continue;");
            t.line(type + "* to = operands.y" + id + " + (PN(i) * operands.ys" + id + ".n + PD(i) * operands.ys" + id + ".d + PH(i) * operands.ys" + id + ".h + PW(i) * operands.ys" + id + ".w);");
            if (kind.c) {
                t.line("to += (long long)(group * COUT + CHANNEL(0)) * operands.ys" + id + ".c;");
                t.line("if (wide" + id + " && CHANNEL_OK(VECTOR - 1)) store_vector<VECTOR>(to, " + names.at(o.value) + (kind.x ? "[i]" : "") + ");");
                t.line("else {");
                t.line("#pragma unroll");
                t.line("for (int e = 0; e < VECTOR; e++) if (CHANNEL_OK(e)) tf_store(to + e * operands.ys" + id + ".c, " + value + ");");
                t.line("}");
            } else {
                t.line("tf_store(to, " + value + ");");
            }
            t.line("}");
        } else {
            t.line("const long long step = ROWS * operands.ys" + id + ".c;");
            t.line(type + "* to = operands.y" + id + " + (PN(0) * operands.ys" + id + ".n + PD(0) * operands.ys" + id + ".d + PH(0) * operands.ys" + id + ".h + PW(0) * operands.ys" + id + ".w" +
                   (o.depends[1] || kind.c ? " + (long long)(group * COUT + CHANNEL(0)) * operands.ys" + id + ".c" : "") + ");");
            const std::string rows = kind.c ? "BATCH" : "1";
            t.line("if (VECTOR > 1 && wide" + id + " && count == VECTOR) {");
            t.line("#pragma unroll");
            t.line("for (int i = 0; i < " + rows + "; i++, to += step) {");
            if (kind.c) t.line("if (!CHANNEL_OK(i)) continue;");
            t.line("REAL whole[VECTOR];");
            t.line("#pragma unroll");
            t.line("for (int e = 0; e < VECTOR; e++) whole[e] = " + value + ";");
            t.line("store_vector<VECTOR>(to, whole);");
            t.line("}");
            t.line("} else {");
            t.line("#pragma unroll");
            t.line("for (int i = 0; i < " + rows + "; i++, to += step) {");
            if (kind.c) t.line("if (!CHANNEL_OK(i)) continue;");
            t.line("#pragma unroll");
            t.line("for (int e = 0; e < VECTOR; e++) if (VALID(e)) tf_store(to + e * operands.ys" + id + ".w, " + value + ");");
            t.line("}");
            t.line("}");
        }
        if (!kind.c) t.line("}");
        t.line("}");
    }

    // Adds the chunk's part of a grid reduction to its slots: one slot a channel, touched by the same threads always.
    void accumulate(const Partial& p) {
        const Op op = p.reduction.op;
        const std::string value = operand(p.reduction.of);
        const Kind kind = kinds.at(p.reduction.of);
        const Op join = op == Op::mean ? Op::sum : op;
        t.line(kind.c ? "#pragma unroll" : "if (lane_row == 0 && hb == 0) {");
        if (kind.c) t.line("for (int i = 0; i < BATCH; i++) {");
        t.line("REAL part = " + identity(op) + ";");
        if (op == Op::logsumexp) {
            t.line("#pragma unroll");
            t.line("for (int e = 0; e < VECTOR; e++) if (VALID(e)) part = tf_max(part, " + value + ");");
            t.line("for (int k = 1; k < LANES_W; k *= 2) part = tf_max(part, __shfl_xor_sync(ROW_LANES, part, k));");
            t.line("REAL mass = 0.f;");
            t.line("#pragma unroll");
            t.line("for (int e = 0; e < VECTOR; e++) if (VALID(e) && " + value + " != __int_as_float(0xff800000)) mass += tf_exp(" + value + " - part);");
            t.line("for (int k = 1; k < LANES_W; k *= 2) mass += __shfl_xor_sync(ROW_LANES, mass, k);");
        } else {
            t.line("#pragma unroll");
            t.line("for (int e = 0; e < VECTOR; e++) if (VALID(e)) part = " + combine(join, "part", value) + ";");
            t.line("for (int k = 1; k < LANES_W; k *= 2) part = " + combine(join, "part", "__shfl_xor_sync(ROW_LANES, part, k)") + ";");
        }
        const std::string at = num(p.first_stat * epilogue.channels_) + (kind.c ? " + group * COUT + CHANNEL(i)" : "");
        t.line(std::string("if (lane_column == 0") + (kind.c ? " && CHANNEL_OK(i)" : "") + ") {");
        t.line("REAL* slot_of = slots + (" + at + ");");
        if (op == Op::logsumexp) {
            t.line("const REAL top = tf_max(slot_of[0], part);");
            t.line("if (top != __int_as_float(0xff800000)) slot_of[" + num(epilogue.channels_) + "] = slot_of[" + num(epilogue.channels_) + "] * tf_exp(slot_of[0] - top) + mass * tf_exp(part - top);");
            t.line("slot_of[0] = top;");
        } else {
            t.line("slot_of[0] = " + combine(join, "slot_of[0]", "part") + ";");
        }
        t.line("}");
        t.line("}");
    }
};

std::string Epilogue::store_role(const Schedule& s, const Config& c) const {
    const StoreMap m = map(s, c);
    const bool pm = program_.pixel_major;
    Lines t;
    auto constant = [&](const std::string& name, int64_t v) { t.line("constexpr int " + name + " = " + num(v) + ";"); };
    constant("VECTOR", m.vector), constant("VECTOR_PIXELS", m.pixels), constant("LANES_W", m.lanes), constant("ROWS", m.rows);
    constant("TURNS", m.turns), constant("PHASE_CHANNELS", m.channels), constant("ITEMS", m.items), constant("BATCH", m.batch);
    constant("BATCHES", (m.items + m.batch - 1) / m.batch);
    constant("WRITERS", s.joint ? 1 : 2), constant("CHUNK_OUTER", s.chunk_outer), constant("PHASES_W", s.phases_w);
    std::string codes;
    for (const auto& sets : s.phase_table)
        for (const auto& list : sets)
            for (const ChunkPhase& p : list) codes += (codes.empty() ? "" : ", ") + num(p.d < 0 ? -1 : p.d * 256 + p.h);
    t.line("__constant__ int phase_codes[" + num(static_cast<int64_t>(s.phase_table.size()) * s.sets * s.chunk_outer) + "] = {" + codes + "};   // residue along d * 256 + along h");
    t.line("// The first row of a phase in the chunk, −1 where it has no taps.");
    t.line("static __device__ __forceinline__ constexpr int row_of(int outer, int w) {");
    {
        bool affine = true;
        const int step = s.phases_w > 1 ? s.row_of(0, 1) - s.row_of(0, 0) : 0, jump = s.real_outer > 1 ? s.row_of(1, 0) - s.row_of(0, 0) : 0;
        for (int q = 0; q < s.real_outer; ++q)
            for (int w = 0; w < s.phases_w; ++w) affine = affine && s.row_of(q, w) >= 0 && s.row_of(q, w) == q * jump + w * step;
        if (affine) {
            t.line("return outer < " + num(s.real_outer) + " ? outer * " + num(jump) + " + w * " + num(step) + " : -1;");
        } else {
            for (int q = 0; q < s.real_outer; ++q)
                for (int w = 0; w < s.phases_w; ++w)
                    if (s.row_of(q, w) >= 0) t.line("if (outer == " + num(q) + " && w == " + num(w) + ") return " + num(s.row_of(q, w)) + ";");
            t.line("return -1;");
        }
    }
    t.line("}");
    t.line("template <int N, class S> static __device__ __forceinline__ void store_vector(S* to, const REAL (&v)[N]) {");
    t.line("tf_vector<S, N> whole;");
    t.line("#pragma unroll");
    t.line("for (int e = 0; e < N; e++) tf_from(whole.lane[e], v[e]);");
    t.line("if constexpr (sizeof(whole) == 16) __stcs((float4*)to, *(float4*)&whole);");
    t.line("else if constexpr (sizeof(whole) == 8) __stcs((float2*)to, *(float2*)&whole);");
    t.line("else *(tf_vector<S, N>*)to = whole;");
    t.line("}");
    t.blank();
    t.line("// Store role: takes chunks of accumulators, runs the tile program, writes, while the next tile's products run.");
    t.line("static __device__ void store_role(unsigned char* shared, Barriers& b, const Sizes& s, const Operands& operands, int store_group, int t) {");
    t.line("const REAL* table = (const REAL*)(shared + TABLES_AT);");
    t.line("REAL* slots = (REAL*)(shared + TABLES_AT + " + num(slots_at_) + " + store_group * " + num(group_bytes()) + ");");
    t.line("REAL* exchange = slots + " + num(exchange_at_ / problem_.real_bytes()) + ";");
    if (m.warps_along_w) t.line("const int lane_column = t / 32 * LANES_W + t % LANES_W, lane_row = t % 32 / LANES_W;");
    else t.line("const int lane_column = t % LANES_W, lane_row = t / LANES_W;");
    t.line(std::string("constexpr int COLUMNS_AT_ONCE = ") + (m.warps_along_w ? "4 * " : "") + "LANES_W;");
    t.line("const unsigned ROW_LANES = LANES_W == 32 ? ~0u : ((1u << (LANES_W & 31)) - 1) << ((t & 31) / LANES_W * LANES_W);");
    t.line("(void)table, (void)slots, (void)exchange, (void)ROW_LANES;");
    for (size_t k = 0; k < stores_.size(); ++k) {
        const std::string id = num(static_cast<int64_t>(k));
        const std::string size = num(bytes(stores_[k].dtype) * m.vector);
        const std::string& ys = "operands.ys" + id;
        t.line("const bool wide" + id + " = VECTOR > 1 && " + (pm ? ys + ".c == 1 && " : ys + ".w == 1 && ") + "(((unsigned long long)operands.y" + id + " | " + num(bytes(stores_[k].dtype)) + "ull * (" + ys + ".n | " +
               (pm ? ys + ".w" : ys + ".c") + " | " + ys + ".d | " + ys + ".h)) % " + size + ") == 0 && " + num(bytes(stores_[k].dtype) * m.vector) + " <= 16;");
    }
    t.line("int slot = 0, turn = 0;");
    t.line("for (int tile = blockIdx.x; tile < s.total; tile += gridDim.x) {");
    t.line("const Place at = place_of(tile, s);");
    t.line("const int group = at.fixed / MGROUPS, block = at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64);");
    t.line("for (int chunk_index = 0; chunk_index < CHUNKS; chunk_index++)");
    t.line("for (int set = 0; set < SETS; set++)");
    t.line("for (int wg = 0; wg < WRITERS; wg++) {");
    t.line("if (STORE_GROUPS > 1 && slot % STORE_GROUPS != store_group) {");
    t.line("if (++slot == BUFFERS) { slot = 0; turn++; }");
    t.line("continue;");
    t.line("}");
    t.line("barrier_wait(shared_address(&b.chunk_full[slot]), turn & 1);");
    t.line("const REAL* chunk = (const REAL*)(shared + CHUNKS_AT + slot * CHUNK_BYTES);");
    t.line("const int* codes = phase_codes + ((at.variant * 2 + wg) * SETS + set) * CHUNK_OUTER;");
    t.line("const int first_channel = block + (SPLIT_CHANNELS && !JOINT ? wg * 64 : 0);   // within the group");
    t.line("const int first_n = at.u[0] + wg * SECOND_N, first_d = at.u[1] + wg * SECOND_D, first_h = at.u[2] + wg * SECOND_H, first_w = at.u[3] + wg * SECOND_W;");

    Emit emit{*this, t, m, pm, {}, {}, {}};
    auto run_steps = [&](bool after_pool) {
        const Graph& graph = graph_;
        bool past = !after_pool || !program_.pool;
        for (ValueId v : program_.steps) {
            if (v == program_.pool_value) {
                past = true;
                if (!after_pool) break;
                continue;
            }
            if (!past) continue;
            if (is_pointwise(graph[v].op)) emit.pointwise(v);
            else emit.channel_reduction(v);
        }
    };
    auto start = [&](ValueId anchor) {
        if (program_.bias < 0) return;
        const std::string bias = emit.operand(program_.bias);
        emit.loops({true, true});
        t.line(emit.ref("v" + num(anchor), {true, true}) + " += " + bias + ";");
    };
    auto sinks = [&] {
        for (size_t k = 0; k < stores_.size(); ++k) emit.store(k);
        for (const Partial& p : partials_)
            if (p.reduction.whole) emit.accumulate(p);
    };
    const ValueId anchor = program_.around->pass.anchor;
    const std::string value = "v" + num(anchor);
    emit.names[anchor] = value, emit.kinds[anchor] = {true, true};

    auto exact = problem_.cout % 64 == 0 && s.channel_blocks % s.blocks_per_tile == 0 ? m.items * m.rows == m.channels : false;
    const std::string in_rows = m.items * m.rows > m.channels ? "hb * BATCH * ROWS + lane_row + (i) * ROWS < PHASE_CHANNELS && " : "";
    if (!pm) {
        t.line("#define CHANNEL(i) (first_channel + lane_row + (hb * BATCH + (i)) * ROWS)");
        t.line(exact ? "#define CHANNEL_OK(i) (ITEMS % BATCH == 0 || hb * BATCH + (i) < ITEMS)" : "#define CHANNEL_OK(i) (hb * BATCH + (i) < ITEMS && lane_row + (hb * BATCH + (i)) * ROWS < PHASE_CHANNELS && CHANNEL(i) < COUT)");
        t.line("#define PN(e) ((long long)pn)");
        t.line("#define PD(e) ((long long)pd)");
        t.line("#define PH(e) ((long long)ph)");
        t.line("#define PW(e) ((long long)(pw + (e)))");
        t.line("#define VALID(e) ((e) < count)");
    } else {
        t.line("#define CHANNEL(e) (first_channel + lane_column * VECTOR + (e))");
        t.line("#define CHANNEL_OK(e) (lane_column * VECTOR + (e) < PHASE_CHANNELS && CHANNEL(e) < COUT)");
        t.line("#define PN(i) ((long long)pn[i])");
        t.line("#define PD(i) ((long long)pd[i])");
        t.line("#define PH(i) ((long long)ph[i])");
        t.line("#define PW(i) ((long long)pw[i])");
        t.line("#define VALID(i) ok[i]");
    }

    if (pm) {
        t.line("#pragma unroll");
        t.line("for (int q = 0; q < CHUNK_OUTER; q++) {");
        t.line("const int code = codes[q];");
        t.line("if (code < 0) continue;");
        t.line("for (int hb = 0; hb < BATCHES; hb++) {");
        t.line("int pn[BATCH], pd[BATCH], ph[BATCH], pw[BATCH];");
        t.line("bool ok[BATCH];");
        t.line("REAL " + value + "[BATCH][VECTOR];");
        t.line("#pragma unroll");
        t.line("for (int i = 0; i < BATCH; i++) {");
        t.line("const int column = lane_row + (hb * BATCH + i) * ROWS, px = column / PHASES_W, w_phase = column % PHASES_W;");
        t.line("const int r = chunk_index * CHUNK_WIDTH + px;");
        t.line("const int w = r % EXTENT_W, h = r / EXTENT_W % EXTENT_H, d = r / (EXTENT_W * EXTENT_H) % EXTENT_D, n = r / (EXTENT_W * EXTENT_H * EXTENT_D);");
        t.line("pn[i] = first_n + n; pd[i] = PERIOD_D * (first_d + d) + (code >> 8); ph[i] = PERIOD_H * (first_h + h) + (code & 255); pw[i] = PERIOD_W * (first_w + w) + w_phase;");
        t.line("ok[i] = px < CHUNK_WIDTH && r < RUN_PIXELS && w < RUN_W && h < RUN_H && d < RUN_D && n < RUN_N && pn[i] < s.out[0] && pd[i] < s.out[1] && ph[i] < s.out[2] && pw[i] < s.out[3];");
        t.line("const int row = row_of(q, w_phase);");
        t.line("#pragma unroll");
        t.line("for (int e = 0; e < VECTOR; e++) " + value + "[i][e] = row < 0 || px >= CHUNK_WIDTH ? 0.f : chunk[px * PITCH + row + lane_column * VECTOR + e];");
        t.line("}");
        start(anchor);
        run_steps(false);
        sinks();
        t.line("}");
        t.line("}");
    } else if (!program_.pool) {
        t.line("for (int k = 0; k < TURNS; k++) {");
        t.line("const int column = k * COLUMNS_AT_ONCE + lane_column;");
        t.line(m.vectors ? "const int px = column * VECTOR_PIXELS, w_phase = 0;" : "const int px = column / PHASES_W, w_phase = column % PHASES_W;");
        t.line("const int r = chunk_index * CHUNK_WIDTH + px;");
        t.line("const int w = r % EXTENT_W, h = r / EXTENT_W % EXTENT_H, d = r / (EXTENT_W * EXTENT_H) % EXTENT_D, n = r / (EXTENT_W * EXTENT_H * EXTENT_D);");
        t.line("const bool in_run = r < RUN_PIXELS && w < RUN_W && h < RUN_H && d < RUN_D && n < RUN_N;");
        t.line("#pragma unroll");
        t.line("for (int q = 0; q < CHUNK_OUTER; q++) {");
        t.line("const int code = codes[q];");
        t.line("if (code < 0) continue;");
        t.line("const int pn = first_n + n, pd = PERIOD_D * (first_d + d) + (code >> 8), ph = PERIOD_H * (first_h + h) + (code & 255), pw = PERIOD_W * (first_w + w) + w_phase;");
        t.line("const int count = in_run && pn < s.out[0] && pd < s.out[1] && ph < s.out[2] ? min(VECTOR, s.out[3] - pw) : 0;");
        const bool skip = !program_.channel_reductions && stats_ == 0;
        if (skip) t.line("if (count <= 0) continue;");
        t.line("for (int hb = 0; hb < BATCHES; hb++) {");
        t.line("REAL " + value + "[BATCH][VECTOR];");
        t.line("#pragma unroll");
        t.line("for (int i = 0; i < BATCH; i++)");
        if (m.vectors) {
            t.line("#pragma unroll");
            t.line("for (int f = 0; f < PHASES_W; f++) {");
            t.line("if (row_of(q, f) < 0) {");
            t.line("#pragma unroll");
            t.line("for (int p = 0; p < VECTOR_PIXELS; p++) " + value + "[i][p * PHASES_W + f] = 0.f;");
            t.line("} else {");
            t.line("const tf_vector<REAL, VECTOR_PIXELS> in = *(const tf_vector<REAL, VECTOR_PIXELS>*)(chunk + (row_of(q, f) + lane_row + (hb * BATCH + i) * ROWS) * PITCH + px);");
            t.line("#pragma unroll");
            t.line("for (int p = 0; p < VECTOR_PIXELS; p++) " + value + "[i][p * PHASES_W + f] = in.lane[p];");
            t.line("}");
            t.line("}");
        } else {
            t.line(value + "[i][0] = row_of(q, w_phase) < 0 ? 0.f : chunk[(row_of(q, w_phase) + lane_row + (hb * BATCH + i) * ROWS) * PITCH + px];");
        }
        start(anchor);
        run_steps(false);
        sinks();
        t.line("}");
        t.line("}");
        t.line("}");
    } else {
        // Windows side by side: each thread gathers whole windows, element by element.
        const Needs needs = program_.needs(s.phases_w);
        std::array<int, 4> reach;
        for (int a = 0; a < 4; ++a) reach[a] = static_cast<int>(std::max<int64_t>(1, needs.pool[a] / s.period[a]));
        std::string px, rows, ds, hs, ws;
        int count = 0;
        const auto& list = s.phase_table[0][0];
        for (int jd = 0; jd < reach[1]; ++jd)
            for (int rd = 0; rd < s.period[1]; ++rd)
                for (int jh = 0; jh < reach[2]; ++jh)
                    for (int rh = 0; rh < s.period[2]; ++rh)
                        for (int jw = 0; jw < reach[3]; ++jw)
                            for (int rw = 0; rw < s.phases_w; ++rw, ++count) {
                                int row = -1;
                                for (int q = 0; q < s.real_outer; ++q)
                                    if (list[q].d == rd && list[q].h == rh) row = s.row_of(q, rw);
                                const std::string comma = count ? ", " : "";
                                px += comma + num((jd * c.run[2] + jh) * c.chunk_width + jw);
                                rows += comma + num(row);
                                ds += comma + num(jd * s.period[1] + rd), hs += comma + num(jh * s.period[2] + rh), ws += comma + num(jw * s.period[3] + rw);
                            }
        const std::string kd = num(reach[1]), kh = num(reach[2]), kw = num(reach[3]);
        t.line("constexpr int WINDOW = " + num(count) + ", POOLED_W = CHUNK_WIDTH / " + kw + ", POOLED_H = RUN_H / " + kh + ", POOLED_D = RUN_D / " + kd + ";");
        t.line("constexpr int window_px[] = {" + px + "}, window_row[] = {" + rows + "};");
        t.line("constexpr int window_d[] = {" + ds + "}, window_h[] = {" + hs + "}, window_w[] = {" + ws + "};");
        t.line("for (int k = 0; k < TURNS; k++) {");
        t.line("const int column = k * COLUMNS_AT_ONCE + lane_column;");
        t.line("const int cw = column % POOLED_W, ch = column / POOLED_W % POOLED_H, cd = column / (POOLED_W * POOLED_H) % POOLED_D, n = column / (POOLED_W * POOLED_H * POOLED_D);");
        t.line("const int h = ch * " + kh + ", d = cd * " + kd + ", w = chunk_index * CHUNK_WIDTH + cw * " + kw + ";");
        t.line("const int px = ((n * RUN_D + d) * RUN_H + h) * CHUNK_WIDTH + cw * " + kw + ";");
        t.line("const int pooled_n = first_n + n, pooled_d = (first_d + d) / " + kd + ", pooled_h = (first_h + h) / " + kh + ", pooled_w = (first_w + w) / " + kw + ";");
        t.line("const int inside = n < RUN_N && w < RUN_W && pooled_n < s.out[0] && pooled_d < s.out[1] / " + num(needs.pool[1]) + " && pooled_h < s.out[2] / " + num(needs.pool[2]) + " && pooled_w < s.out[3] / " + num(needs.pool[3]) + ";");
        t.line("for (int hb = 0; hb < BATCHES; hb++) {");
        const std::string pooled = "v" + num(program_.pool_value);
        const bool sums = program_.pool->kind == TilePool::Kind::sum;
        const Op op = program_.pool->kind == TilePool::Kind::max ? Op::amax : sums ? Op::sum : Op::amin;
        t.line("REAL " + pooled + "[BATCH][VECTOR];");
        emit.loops({true, true});
        t.line(pooled + "[i][e] = " + identity(op) + ";");
        t.line("#pragma unroll");
        t.line("for (int j = 0; j < WINDOW; j++) {");
        t.line("const int count = inside;");
        t.line("const int pn = pooled_n, pd = pooled_d * " + num(needs.pool[1]) + " + window_d[j], ph = pooled_h * " + num(needs.pool[2]) + " + window_h[j], pw = pooled_w * " + num(needs.pool[3]) + " + window_w[j];");
        t.line("(void)count; (void)pn; (void)pd; (void)ph; (void)pw;");
        t.line("REAL " + value + "[BATCH][VECTOR];");
        t.line("#pragma unroll");
        t.line("for (int i = 0; i < BATCH; i++) " + value + "[i][0] = window_row[j] < 0 ? 0.f : chunk[(window_row[j] + lane_row + (hb * BATCH + i) * ROWS) * PITCH + px + window_px[j]];");
        start(anchor);
        run_steps(false);
        const ValueId before = graph_[program_.pool_value].args[0];
        const std::string element = emit.operand(before);
        emit.loops({true, true});
        t.line(pooled + "[i][e] = " + combine(op, pooled + "[i][e]", element) + ";");
        t.line("}");
        if (sums && program_.pool->scale != 1) {
            emit.loops({true, true});
            t.line(pooled + "[i][e] *= " + literal(program_.pool->scale, real()) + ";");
        }
        // What was loaded inside the window is out of scope now.
        emit.names.clear(), emit.kinds.clear();
        emit.names[program_.pool_value] = pooled, emit.kinds[program_.pool_value] = {true, true};
        t.line("const int count = inside, pn = pooled_n, pd = pooled_d, ph = pooled_h, pw = pooled_w;");
        t.line("(void)count; (void)pn; (void)pd; (void)ph; (void)pw;");
        run_steps(true);
        sinks();
        t.line("}");
        t.line("}");
    }
    for (const char* macro : {"CHANNEL", "CHANNEL_OK", "PN", "PD", "PH", "PW", "VALID"}) t.line(std::string("#undef ") + macro);
    t.line("barrier_arrive(shared_address(&b.chunk_empty[slot]));");
    t.line("if (++slot == BUFFERS) { slot = 0; turn++; }");
    t.line("}");
    auto flush = [&](const std::string& row) {
        t.line("barrier_named(2 + store_group, 128);");
        for (const Partial& p : partials_)
            for (int j = 0; j < p.stats && p.reduction.whole; ++j) {
                const std::string at = num((p.first_stat + j) * channels_);
                t.line("for (int c = t; c < " + num(channels_) + "; c += 128) {");
                t.line("operands.partial[(" + num(p.first_stat + j) + "ll * " + (per_tile_ ? "s.total" : "gridDim.x") + " * STORE_GROUPS + " + row + " * STORE_GROUPS + store_group) * " + num(channels_) + " + c] = slots[" + at + " + c];");
                if (per_tile_) t.line("slots[" + at + " + c] = " + (j == 0 ? identity(p.reduction.op) : "0.f") + ";");
                t.line("}");
            }
        t.line("barrier_named(2 + store_group, 128);");
    };
    if (stats_ && per_tile_) flush("tile");
    t.line("}");
    if (stats_ && !per_tile_) flush("blockIdx.x");
    t.line("}");
    return t.str();
}

}  // namespace transfuse::cuda
