#include "cuda/loop/loop_writer.h"

#include <algorithm>

#include "cuda/general/pull/pull.h"
#include "cuda/kernel/shares.h"

namespace transfuse::cuda {

Launch LoopWriter::write() {
    body_.line("TF_SEQUENCE();");
    body();
    Source source;
    source.entry = "tf_loop";
    source.text = std::string(device_math()).append(index_code(parameters_.wide_index())).append(sequence_code()) +
                  helpers() + "\nextern \"C\" __global__ void __launch_bounds__(" + number(shape_.threads) +
                  ") tf_loop(" + parameters_.declaration() + ") {\n" + body_.text() + "}\n";
    Launch launch;
    launch.grid = {static_cast<uint32_t>(blocks()), 1, 1};
    launch.block = {static_cast<uint32_t>(shape_.threads), 1, 1};
    launch.early = true;
    launch.arguments = parameters_.arguments();
    launch.source = std::make_shared<const Source>(std::move(source));
    launch.note = note();
    return launch;
}

bool LoopWriter::flat(const LoopTensor& t) const {
    int64_t stride = 1;
    if (loop_.row > 1 && t.row() != 1) return false;
    stride = loop_.row;
    for (size_t a = loop_.outer.size(); a-- > 0; stride *= loop_.outer[a])
        if (t.strides[a] != stride) return false;
    return true;
}

// 16 bytes where the tensor lies so.
int LoopWriter::chunk(const LoopTensor& t, bool is_flat) const {
    int64_t width = std::min<int64_t>(shape_.vector, 16 / bytes(t.place.storage));
    if (!t.place.aligned || t.row() != 1) return 1;
    if (is_flat && shape_.crosses) return static_cast<int>(width);
    for (size_t a = 0; a < loop_.outer.size(); ++a)
        while (width > 1 && t.strides[a] % width != 0) width /= 2;
    return static_cast<int>(width);
}

int LoopWriter::widest() const {
    int64_t smallest = 8;
    for (const auto* list : {&loop_.reads, &loop_.stores})
        for (const LoopTensor& t : *list)
            if (t.row() == 1) smallest = std::min<int64_t>(smallest, bytes(t.place.storage));
    return static_cast<int>(16 / smallest);
}

void LoopWriter::coordinates_of(const std::string& linear, const std::string& prefix) {
    std::string rest = linear;
    for (size_t a = loop_.outer.size(); a-- > 0;) {
        const std::string name = prefix + number(static_cast<int64_t>(a));
        if (a == 0) {
            body_.line({"const tf_index ", name, " = ", rest, ";"});
            break;
        }
        const std::string q = body_.fresh("q");
        body_.line({"const tf_index ", q, " = ", parameters_.quotient(rest, loop_.outer[a], true), ";"});
        body_.line({"const tf_index ", name, " = ", parameters_.remainder(rest, q, loop_.outer[a], true), ";"});
        rest = q;
    }
}

std::string LoopWriter::offset(const LoopTensor& t, const std::string& prefix, const std::string& along) {
    std::string text = "0";
    for (size_t a = 0; a < loop_.outer.size(); ++a)
        text = plus(text, times(prefix + number(static_cast<int64_t>(a)), parameters_.integer(t.strides[a], true)));
    return plus(text, times(along, parameters_.integer(t.row(), true)));
}

std::string LoopWriter::pointer(const LoopTensor& t, bool written) {
    const std::string storage(storage_name(t.place.storage));
    return parameters_.pointer(t.place.base, written ? storage : "const " + storage, !written && t.place.read_only);
}

void LoopWriter::load_vector(const std::string& to, const LoopTensor& t, const std::string& at, int width) {
    const std::string real(real_name(real_of_read(t))), from = pointer(t, false);
    if (width == 1) {
        for (int e = 0; e < shape_.vector; ++e)
            body_.line({to, "[", number(e), "] = tf_load<", real, ">(", from, " + ",
                        plus(at, times(number(e), parameters_.integer(t.row(), true))), ");"});
        return;
    }
    const std::string type = "tf_vector<" + std::string(storage_name(t.place.storage)) + ", " + number(width) + ">";
    for (int begin = 0; begin < shape_.vector; begin += width) {
        const std::string pack = body_.fresh("pack");
        body_.line({"const ", type, " ", pack, " = *(const ", type, "*)(", from, " + ", plus(at, number(begin)), ");"});
        for (int e = 0; e < width; ++e)
            body_.line({to, "[", number(begin + e), "] = tf_to<", real, ">(", pack, ".lane[", number(e), "]);"});
    }
}

void LoopWriter::store_vector(const LoopTensor& t, const std::string& at, int width, const LoopValue& v,
                              const std::string& index) {
    const std::string storage(storage_name(t.place.storage)), to = pointer(t, true);
    auto lane = [&](int e) { return v.index.empty() ? v.name : v.name + index + "[" + number(e) + "]"; };
    if (width == 1) {
        for (int e = 0; e < shape_.vector; ++e)
            body_.line({"tf_store(", to, " + ", plus(at, times(number(e), parameters_.integer(t.row(), true))), ", ",
                        lane(e), ");"});
        return;
    }
    const std::string type = "tf_vector<" + storage + ", " + number(width) + ">";
    for (int begin = 0; begin < shape_.vector; begin += width) {
        const std::string pack = body_.fresh("pack");
        body_.line({type, " ", pack, ";"});
        for (int e = 0; e < width; ++e)
            body_.line({"tf_from(", pack, ".lane[", number(e), "], ", lane(begin + e), ");"});
        body_.line({"*(", type, "*)(", to, " + ", plus(at, number(begin)), ") = ", pack, ";"});
    }
}

void LoopWriter::pointwise(ValueId id, std::map<ValueId, LoopValue>& values, const std::string& dims,
                           const std::vector<std::string>& loops, const std::string& subscript) {
    const Node& node = graph_[id];
    LoopValue result{"v" + number(id), real_of(node.type.dtype), ""};
    for (ValueId a : node.args) {
        if (is_literal(graph_, a)) continue;
        const LoopValue& v = values.at(a);
        if (!v.index.empty()) result.index = subscript;
        if (v.real == Real::f64 && node.op != Op::cast) result.real = Real::f64;
    }
    std::vector<std::string> texts;
    const bool compares = node.op == Op::greater || node.op == Op::greater_equal || node.op == Op::equal;
    const bool scales = node.op == Op::mul || node.op == Op::div || node.op == Op::add || node.op == Op::sub;
    for (ValueId a : node.args) {
        if (is_literal(graph_, a)) {
            const double number = graph_[a].attributes.number(Key::value);
            texts.push_back(scales ? constant(number, result.real) : literal(number, result.real));
            continue;
        }
        const LoopValue& v = values.at(a);
        std::string text = v.name + v.index;
        if (v.real != result.real && node.op != Op::cast) text = "(" + std::string(real_name(result.real)) + ")" + text;
        // Values of 16 bits are compared as they would lie in memory: the other side may have been stored.
        if (compares && bytes(graph_[a].type.dtype) == 2)
            text = "tf_round<" + std::string(storage_name(graph_[a].type.dtype)) + ">(" + text + ")";
        texts.push_back(std::move(text));
    }
    const std::string real(real_name(result.real));
    std::string made = expression(node, texts, result.real);
    if (const auto share = share_of(graph_, node); share && values.contains(share->total)) {
        const LoopValue &total = values.at(share->total), &x = values.at(share->x);
        if (!total.inverse.empty()) made = "tf_exp(" + x.name + x.index + " - " + total.pivot + ") * " + total.inverse;
    }
    if (result.index.empty()) {
        body_.line({"const ", real, " ", result.name, " = ", made, ";"});
    } else {
        body_.line({real, " ", result.name, dims, ";"});
        for (const std::string& head : loops) body_.line({"_Pragma(\"unroll\") ", head});
        body_.line({result.name, result.index, " = ", made, ";"});
    }
    values[id] = result;
}

std::optional<Offer> offer_loop(const Surroundings& around, const Places& places, const std::vector<Place>& stores,
                                std::string* why_not) {
    auto read = read_loop(around, places, stores, why_not);
    if (!read) return std::nullopt;
    const auto loop = std::make_shared<const Loop>(std::move(*read));
    constexpr int64_t limit = (int64_t{1} << 31) - 8192;
    bool wide_index = loop->rows() * loop->row >= limit;
    for (const auto* list : {&loop->reads, &loop->stores})
        for (const LoopTensor& t : *list) {
            int64_t reach = std::abs(t.row()) * (loop->row - 1);
            for (size_t a = 0; a < loop->outer.size(); ++a) reach += std::abs(t.strides[a]) * (loop->outer[a] - 1);
            wide_index = wide_index || reach >= limit;
        }
    const std::shared_ptr<LoopWriter> writer =
        (loop->reduces ? row_writer : element_writer)(*loop, around.plan.graph, wide_index, around.target.any_size);
    if (!writer->shape()) {
        if (why_not) *why_not = "a row is too long for registers";
        return std::nullopt;
    }
    return Offer{.write = [loop, writer] {
        FamilyProgram result;
        result.program.launches.push_back(writer->write());
        result.program.note = result.program.launches[0].note;
        return result;
    }};
}

}  // namespace transfuse::cuda
