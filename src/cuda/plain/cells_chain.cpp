// The chain on all channels of an output, in registers: reductions over channels are loops over them, a pool whose
// windows are cells collects over the phases.
#include "cuda/kernel/shares.h"
#include "cuda/plain/cells_writer.h"

namespace transfuse::cuda {

// A value's index: the last axes of its grid's.
Index CellWriter::own_index(ValueId v, const Index& at) const {
    Index own = at;
    own[1] = {of_all("c")};
    const auto rank = static_cast<size_t>(graph_[v].type.rank());
    own.erase(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(own.size() - rank));
    const Sizes& shape = graph_[v].type.shape;
    for (size_t a = 0; a < rank; ++a)
        if (shape[a] == 1) own[a] = {"0"};
    return own;
}

bool CellWriter::has_channels(ValueId v) const {
    const Sizes& shape = graph_[v].type.shape;
    const size_t rank = axes_.size() + 2;
    return shape.size() + 1 >= rank && shape[shape.size() + 1 - rank] != 1;
}

// Steps one after another on all channels of an output, then what is collected and stored of them.
void CellWriter::chain(ValueId first, const std::string& start, const std::vector<ValueId>& steps,
                       const std::vector<ValueId>& grid, const std::vector<const Sink*>& sinks, const Index& at) {
    std::vector<ValueId> known{first};
    auto declare = [&](ValueId v) {
        body_.line("float " + name_of(v) + (has_channels(v) ? "[" + number(own_) + "];" : ";"));
    };
    declare(first);
    body_.line(each_channel() + " " + of_channel(first) + " = " + start + ";");
    auto remember = [&] {
        for (ValueId v : known) {
            Lanes lanes{{of_channel(v)}, {}, Real::f32};
            if (has_shares(graph_, v)) lanes.pivot = {name_of(v) + "_pivot"}, lanes.inverse = {name_of(v) + "_inverse"};
            emitter_.remember(v, own_index(v, at), lanes);
        }
    };
    for (ValueId v : steps) {
        const Node& node = graph_[v];
        if (is_reduction(node.op)) {
            over_channels(v);
        } else {
            declare(v);
            emitter_.open(has_channels(v) ? each_channel() : std::string());
            remember();
            body_.line(of_channel(v) + " = (float)" + emitter_.value(v, own_index(v, at))[0] + ";");
            emitter_.close();
        }
        known.push_back(v);
    }
    for (ValueId v : grid) add(v);
    for (const Sink* sink : sinks) {
        const std::string pointer =
            kernel_.parameters.pointer(sink->place.base, std::string(storage_name(sink->place.storage)), false);
        emitter_.open(has_channels(sink->value) ? each_channel() : std::string());
        remember();
        const Index own = own_index(sink->value, at);
        std::string offset = "0";
        for (size_t a = 0; a < own.size(); ++a)
            offset = plus(offset, times(own[a].text, integer(sink->place.strides[a])));
        body_.line("tf_store(" + pointer + " + " + offset + ", " + emitter_.value(sink->value, own)[0] + ");");
        emitter_.close();
    }
}

void CellWriter::over_channels(ValueId v) {
    const Node& node = graph_[v];
    const std::string name = name_of(v), of = of_channel(node.args[0]);
    const std::string loop = has_channels(node.args[0]) ? each_channel() + " " : "";
    const std::string infinity = "__int_as_float(0x7f800000)";
    if (node.op == Op::sum || node.op == Op::mean) {
        body_.line("float " + name + " = 0.0f;");
        body_.line(loop + name + " += " + of + ";");
        if (node.op == Op::mean && !loop.empty())
            body_.line(name + " *= " + literal(1.0 / static_cast<double>(cout_), Real::f32) + ";");
        return;
    }
    const bool least = node.op == Op::amin;
    const std::string peak = node.op == Op::logsumexp ? name + "_peak" : name;
    body_.line("float " + peak + " = " + (least ? "" : "-") + infinity + ";");
    body_.line(loop + peak + " = " + (least ? "tf_min(" : "tf_max(") + peak + ", " + of + ");");
    if (node.op != Op::logsumexp) return;
    body_.line("float " + name + " = 0.0f;");
    // A pivot of ∞ makes the sum NaN, and so the shares.
    const std::string whole = node.attributes.flag(Key::finite) ? "" : peak + " == " + infinity + " ? ";
    body_.line("const float " + name + "_pivot = " + peak + " == -" + infinity + " ? 0.0f : " + peak + ";");
    body_.line(loop + name + " += tf_exp(" + of + " - " + name + "_pivot);");
    if (has_shares(graph_, v))
        body_.line("const float " + name + "_inverse = " + whole + (whole.empty() ? "" : "0 : ") + "1 / " + name + ";");
    body_.line(name + " = " + whole + (whole.empty() ? "" : peak + " : ") + "logf(" + name + ") + " + name + "_pivot;");
}

void CellWriter::begin_pool() {
    const std::string start = pool_kind_.kind == TilePool::Kind::sum   ? "0.0f"
                              : pool_kind_.kind == TilePool::Kind::max ? "-__int_as_float(0x7f800000)"
                                                                       : "__int_as_float(0x7f800000)";
    body_.line("float pool[" + number(cells) + "][" + number(channels_) + "];");
    body_.line("for (int q = 0; q < " + number(cells) + "; ++q) for (int c = 0; c < " + number(channels_) +
               "; ++c) pool[q][c] = " + start + ";");
}

void CellWriter::collect() {
    const std::string of = of_channel(graph_[pool_].args[0]);
    const std::string joined = pool_kind_.kind == TilePool::Kind::sum   ? "pool[q][c] + " + of
                               : pool_kind_.kind == TilePool::Kind::max ? "tf_max(pool[q][c], " + of + ")"
                                                                        : "tf_min(pool[q][c], " + of + ")";
    body_.line(each_channel() + " pool[q][c] = " + joined + ";");
}

void CellWriter::finish_pool(const std::string& n, const std::vector<std::string>& u) {
    const size_t rank = axes_.size();
    const Sizes& shape = graph_[pool_].type.shape;
    body_.line("#pragma unroll");
    emitter_.open("for (int q = 0; q < " + number(cells) + "; ++q)");
    Index at = {{n}, {"0"}};
    std::string inside;
    for (size_t a = 0; a < rank; ++a) {
        at.push_back({a + 1 == rank ? let(u[a] + " + q", "o") : u[a]});
        inside += (a ? " && " : "") + at.back().text + " < " + integer(shape[a + 2]);
    }
    emitter_.open("if (" + inside + ")");
    const std::string start =
        pool_kind_.kind == TilePool::Kind::sum ? "pool[q][c] * " + literal(pool_kind_.scale, Real::f32) : "pool[q][c]";
    chain(pool_, start, late_, late_grid_, late_sinks_, at);
    emitter_.close();
    emitter_.close();
}

}  // namespace transfuse::cuda
