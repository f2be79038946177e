#include "cuda/dense/read/chain.h"

#include <algorithm>

#include "cuda/kernel/expression.h"
#include "graph/has.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

std::string combined(Op op, const std::string& a, const std::string& b) {
    if (op == Op::amax) return "tf_max(" + a + ", " + b + ")";
    if (op == Op::amin) return "tf_min(" + a + ", " + b + ")";
    return "(" + a + " + " + b + ")";
}

std::string identity(Op op) {
    if (op == Op::amax || op == Op::logsumexp) return "__int_as_float(0xff800000)";
    if (op == Op::amin) return "__int_as_float(0x7f800000)";
    return "0.f";
}

// exp(x − logsumexp(x)) lies between 0 and 1, rounded or not.
static bool is_share(const Graph& graph, ValueId v) {
    while (graph[v].op == Op::cast) v = graph[v].args[0];
    if (graph[v].op != Op::exp || graph[graph[v].args[0]].op != Op::sub) return false;
    const Node& difference = graph[graph[v].args[0]];
    return graph[difference.args[1]].op == Op::logsumexp && graph[difference.args[1]].args[0] == difference.args[0];
}

std::string Chain::dims(Kind k) const {
    const bool i = pixel_major_ ? k.x : k.c, e = pixel_major_ ? k.c : k.x;
    return std::string(i ? "[BATCH]" : "") + (e ? "[VECTOR]" : "");
}

std::string Chain::ref(const std::string& name, Kind k) const {
    const bool i = pixel_major_ ? k.x : k.c, e = pixel_major_ ? k.c : k.x;
    return name + (i ? "[i]" : "") + (e ? "[e]" : "");
}

void Chain::loops(Kind k) const {
    const bool i = pixel_major_ ? k.x : k.c, e = pixel_major_ ? k.c : k.x;
    if (i) t.unrolled("for (int i = 0; i < BATCH; i++)");
    if (e) t.unrolled("for (" + columns() + ")");
}

std::string Chain::operand(ValueId a) {
    const Graph& graph = epilogue_.graph();
    if (is_literal(graph, a)) return literal(graph[a].attributes.number(Key::value), epilogue_.real());
    if (!names_.count(a)) load(a);
    return ref(names_.at(a), kinds_.at(a));
}

void Chain::load(ValueId a) {
    for (size_t k = 0; k < epilogue_.reads().size(); ++k) {
        const Operand& o = epilogue_.reads()[k];
        if (o.value != a) continue;
        const std::string id = num(static_cast<int64_t>(k)), name = "r" + num(a);
        const int of_image = epilogue_.image_table_of(k), table = of_image >= 0 ? of_image : epilogue_.table_of(k);
        const Kind kind{o.depends[1], table < 0 && (o.depends[0] || o.depends[2] || o.depends[3] || o.depends[4])};
        define(a, name, kind);
        t.line("REAL " + name + dims(kind) + ";");
        if (of_image >= 0 && kind.c && !pixel_major_) return load_image_rows(name, k);
        if (table >= 0) {
            const std::string at = (of_image >= 0 ? "image_table + " : "table + ") + num(table * epilogue_.channels());
            if (!kind.c) {
                t.line(name + " = *(" + at + ");");
            } else if (pixel_major_) {
                load_channels(name, at);
            } else {
                t.line("load_rows(" + name + ", " + at + " + group * COUT + CHANNEL(0));");
            }
            return;
        }
        load_elements(name, k, kind);
        return;
    }
    fail("dense epilogue: value %", a, " is neither a step nor a read of the pass");
}

void Chain::load_channels(const std::string& name, const std::string& from) {
    loops({true, false});
    t.line(ref(name, {true, false}) + " = (" + from + ")[group * COUT + CHANNEL(e)];");
}

void Chain::load_elements(const std::string& name, size_t read, Kind kind) {
    const Operand& o = epilogue_.reads()[read];
    const std::string id = num(static_cast<int64_t>(read));
    loops(kind);
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
}

void Chain::load_image_rows(const std::string& name, size_t read) {
    t.line("load_rows(" + name + ", image_table + " + num(epilogue_.image_table_of(read) * epilogue_.channels()) +
           " + group * COUT + CHANNEL(0));");
}

void Chain::anchor() {
    const TileProgram& program = epilogue_.program();
    const ValueId anchor = program.around->pass.anchor;
    const Kind all{true, true};
    define(anchor, "v" + num(anchor), all);
    if (program.bias < 0 || epilogue_.leaving().biased) return;
    const std::string bias = operand(program.bias);
    loops(all);
    t.line(ref("v" + num(anchor), all) + " += " + bias + ";");
}

void Chain::begin_after_pool(const std::string& pooled) {
    names_.clear(), kinds_.clear(), means_.clear();
    define(epilogue_.program().pool_value, pooled, {true, true});
}

void Chain::steps(bool after) {
    const TileProgram& program = epilogue_.program();
    const Leaving& leaving = epilogue_.leaving();
    bool past = !after || !program.pool;
    for (ValueId v : program.steps) {
        if (leaving.exit == Exit::fold && v == leaving.handed) continue;  // unfold() makes it
        if (leaving.handed >= 0 && has(leaving.before, v) == after) continue;
        if (v == program.pool_value) {
            past = true;
            if (!after) break;
            continue;
        }
        if (past) step(v);
    }
}

void Chain::step(ValueId v) {
    if (is_pointwise(epilogue_.graph()[v].op))
        pointwise(v);
    else
        reduction(v);
}

// ∞ makes the mass NaN.
static std::string or_infinite(const Node& sum, const std::string& top) {
    return sum.attributes.flag(Key::finite) ? "" : "tf_abs(" + top + ") == __int_as_float(0x7f800000) ? " + top + " : ";
}

void Chain::unfold(const std::string& parts, const std::string& masses) {
    const ValueId fold = epilogue_.leaving().handed;
    const Node& node = epilogue_.graph()[fold];
    const Kind x{false, true};
    const std::string name = "v" + num(fold), lowest = "__int_as_float(0xff800000)";
    define(fold, name, x);
    if (node.op == Op::logsumexp) {
        across(name + "_top", Op::amax, parts + "[i][e]");
        const std::string top = ref(name + "_top", x);
        across(name + "_mass", Op::sum,
               "(" + parts + "[i][e] == " + lowest + " ? (REAL)0 : " + masses + "[i][e] * tf_exp(" + parts +
                   "[i][e] - " + top + "))");
        t.line("REAL " + name + dims(x) + ";");
        loops(x);
        t.line(ref(name, x) + " = " + or_infinite(node, top) + "tf_log(" + ref(name + "_mass", x) + ") + " + top + ";");
        return;
    }
    across(name, node.op == Op::mean ? Op::sum : node.op, parts + "[i][e]");
    if (node.op != Op::mean) return;
    loops(x);
    t.line(ref(name, x) + " *= 1.f / " + literal(static_cast<double>(epilogue_.channels()), epilogue_.real()) + ";");
}

std::string Chain::spelled(const Node& node, const std::vector<std::string>& args) const {
    return expression(node, args, epilogue_.real());
}

void Chain::pointwise(ValueId v) {
    const Graph& graph = epilogue_.graph();
    const Node& node = graph[v];
    // exp(x − logsumexp(x)) = exp(x − reference)·share: the exponentials are there already.
    if (node.op == Op::exp && graph[node.args[0]].op == Op::sub) {
        const Node& difference = graph[node.args[0]];
        const auto found = exponentials_.find(difference.args[1]);
        if (found != exponentials_.end() && found->second == difference.args[0]) {
            const std::string of = "v" + num(difference.args[1]);
            define(v, "v" + num(v), {true, true});
            t.line("REAL " + names_[v] + "[BATCH][VECTOR];");
            loops({true, true});
            t.line(names_[v] + "[i][e] = " + of + "_exp[i][e] * " + ref(of + "_share", kinds_.at(difference.args[1])) +
                   ";");
            return;
        }
    }
    Kind kind;
    std::vector<std::string> args;
    for (ValueId a : node.args) {
        args.push_back(operand(a));
        if (is_literal(graph, a)) continue;
        kind.c = kind.c || kinds_[a].c, kind.x = kind.x || kinds_[a].x;
    }
    define(v, "v" + num(v), kind);
    t.line("REAL " + names_[v] + dims(kind) + ";");
    loops(kind);
    const bool share = node.op == Op::sigmoid && is_share(graph, node.args[0]) && epilogue_.real() == Real::f32;
    t.line(ref(names_[v], kind) + " = " + (share ? "tf_sigmoid_of_share(" + args[0] + ")" : spelled(node, args)) + ";");
}

void Chain::along(const std::string&, Op op, const std::string&) {
    fail("dense epilogue: ", transfuse::name(op), " along rows");
}

void Chain::exponentials(const std::string& v, const std::string& term, Kind left) {
    reduce(v + "_top", Op::amax, term, left);
    exponentials_below(v, term, left);
    reduce(v + "_mass", Op::sum, v + "_exp[i][e]", left);
    t.line("REAL " + v + "_share" + dims(left) + ";");
    loops(left);
    t.line(ref(v + "_share", left) + " = tf_quotient((REAL)1, " + ref(v + "_mass", left) + ");");
}

void Chain::exponentials_below(const std::string& v, const std::string& term, Kind left) {
    const std::string top = ref(v + "_top", left);
    t.line("REAL " + v + "_exp[BATCH][VECTOR];");
    loops({true, true});
    t.line(v + "_exp[i][e] = tf_exp_below(" + term + ", " + top + " == __int_as_float(0xff800000) ? (REAL)0 : " + top +
           ");");
}

void Chain::reduction(ValueId v) {
    const Node& node = epilogue_.graph()[v];
    const std::string a = operand(node.args[0]);
    const bool of_channels = node.attributes.integers(Key::dims)[0] == 1;
    const Kind left = of_channels ? pixels : rows;
    const std::string name = "v" + num(v);
    define(v, name, left);
    auto scale = [&](const std::string& of, double less) {
        loops(left);
        t.line(ref(of, left) + " *= 1.f / " +
               (of_channels ? literal(static_cast<double>(epilogue_.channels()) - less, epilogue_.real())
                : less == 0 ? "(REAL)s.out[3]"
                            : "((REAL)s.out[3] - " + literal(less, epilogue_.real()) + ")") +
               ";");
    };
    switch (node.op) {
        case Op::sum:
        case Op::amax:
        case Op::amin:
            reduce(name, node.op, a, left);
            break;
        case Op::mean:
            reduce(name, Op::sum, a, left);
            scale(name, 0);
            means_[{node.args[0], of_channels}] = name;
            break;
        case Op::logsumexp: {
            exponentials(name, a, left);
            t.line("REAL " + name + dims(left) + ";");
            loops(left);
            const std::string top = ref(name + "_top", left);
            t.line(ref(name, left) + " = " + or_infinite(node, top) + "tf_log(" + ref(name + "_mass", left) + ") + " +
                   top + ";");
            exponentials_[v] = node.args[0];
            break;
        }
        case Op::var: {
            std::string& mean = means_[{node.args[0], of_channels}];
            if (mean.empty()) {
                mean = name + "_mean";
                reduce(mean, Op::sum, a, left);
                scale(mean, 0);
            }
            const std::string d = "(" + a + " - " + ref(mean, left) + ")";
            reduce(name, Op::sum, d + " * " + d, left);
            scale(name, node.attributes.number(Key::correction));
            break;
        }
        default:
            fail("dense epilogue: ", transfuse::name(node.op), " is no reduction of a tile");
    }
}

}  // namespace transfuse::cuda
