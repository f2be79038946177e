#include "cuda/general/emit/emitter.h"

#include <algorithm>

#include "cuda/kernel/shares.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

int64_t Fold::trips() const {
    int64_t product = 1;
    for (const Loop& loop : loops) product *= loop.count;
    return product;
}

Emitter::Emitter(const Graph& graph, const std::vector<bool>& parameter_values, const Places& places,
                 Parameters& parameters, Body& body, std::string& tables, bool wide_real, int vector)
    : graph_(graph),
      parameter_values_(parameter_values),
      places_(places),
      parameters_(parameters),
      body_(body),
      tables_(tables),
      wide_(wide_real),
      vector_(vector) {}

void Emitter::open(Body::Pieces head) {
    body_.open(head);
    memo_.emplace_back();
}

void Emitter::close() {
    body_.close();
    memo_.pop_back();
}

// Channels and everything of parameters are fixed by the graph; batch and spatial extents change from call to call.
bool Emitter::dynamic(ValueId id, size_t axis) const {
    return !parameter_values_[static_cast<size_t>(id)] && axis != 1;
}

std::string Emitter::extent(ValueId id, size_t axis) {
    return parameters_.integer(graph_[id].type.shape[axis], dynamic(id, axis));
}

std::string Emitter::let(std::string_view type, Body::Pieces text, std::string_view prefix) {
    std::string name = body_.fresh(prefix);
    body_.let(type, name, text);
    return name;
}

Coordinate Emitter::let_index(const std::string& text) {
    if (is_number(text) || text.find_first_of(" (") == std::string::npos) return {text};
    return {let("tf_index", text, "i")};
}

std::string Emitter::table(const std::vector<double>& values, Real real) {
    const std::string name = body_.fresh("tf_table_");
    std::string text = "__device__ const " + std::string(real_name(real)) + " " + name + "[] = {";
    for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + literal(values[i], real);
    tables_ += text + "};\n";
    return name;
}

std::string Emitter::integer_table(const std::vector<int64_t>& values) {
    const std::string name = body_.fresh("tf_table_");
    std::string text = "__device__ const int " + name + "[] = {";
    for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + number(values[i]);
    tables_ += text + "};\n";
    return name;
}

bool Emitter::has_vector(const Index& index) const {
    return std::any_of(index.begin(), index.end(), [](const Coordinate& c) { return c.vector; });
}

namespace {

bool is_shape_op(Op op) {
    return op == Op::reshape || op == Op::permute || op == Op::expand || op == Op::slice || op == Op::flip;
}

}  // namespace

// Whether all lanes of a vector coordinate can be evaluated by the same code.
bool Emitter::transparent(ValueId id, const Index& index) const {
    const Node& node = graph_[id];
    if (is_pointwise(node.op) || is_constant(node.op) || is_shape_op(node.op)) return true;
    auto axis_is_vector = [&](int64_t axis) { return index[static_cast<size_t>(axis)].vector; };
    if (is_reduction(node.op)) return true;  // a vector coordinate is always on a kept axis: reduced ones have extent 1
    if (node.op == Op::concat || node.op == Op::taps) return !axis_is_vector(node.attributes.integer(Key::axis));
    if (node.op == Op::box_spread) return !axis_is_vector(1);
    if (node.op == Op::pad) {
        const auto &start = node.attributes.integers(Key::start), &end = node.attributes.integers(Key::end);
        for (size_t a = 0; a < index.size(); ++a)
            if (index[a].vector && (start[a] != 0 || end[a] != 0)) return false;
        return true;
    }
    return false;
}

// Along an axis of one element there is one place, whatever its text: the chain of one image asks for image 0.
std::string Emitter::memo_key(ValueId id, const Index& index) const {
    const Sizes& shape = graph_[id].type.shape;
    std::string key = std::to_string(id);
    for (size_t a = 0; a < index.size(); ++a)
        if (shape[a] == 1)
            key += "|0";
        else
            (key += index[a].vector ? "|v " : "|") += index[a].text;
    return key;
}

void Emitter::remember(ValueId id, const Index& index, const Lanes& lanes) {
    memo_.back()[memo_key(id, index)] = lanes;
}

std::optional<Index> Emitter::walk(ValueId from, const Index& index, ValueId to) {
    if (from == to) return index;
    if (places_.contains(from)) return std::nullopt;
    const Node& node = graph_[from];
    if (is_pointwise(node.op)) {
        for (ValueId arg : node.args)
            if (auto found = walk(arg, broadcast(arg, index, index.size()), to)) return found;
    } else if (is_shape_op(node.op)) {
        if (auto source = remap(from, index)) return walk(source->first, source->second, to);
    }
    return std::nullopt;
}

Lanes Emitter::value(ValueId id, const Index& index) {
    const Node& node = graph_[id];
    std::string key = memo_key(id, index);
    for (auto scope = memo_.rbegin(); scope != memo_.rend(); ++scope)
        if (auto at = scope->find(key); at != scope->end()) return at->second;
    Lanes result;
    if (auto place = places_.find(id); place != places_.end()) {
        const bool in_parts = place->second.in_parts();
        if ((place->second.partials || in_parts) && has_vector(index))
            result = per_lane(id, index);
        else if (in_parts)
            result = serial(fold_of_parts(id, place->second, index), wide_, 1);
        else if (place->second.partials)
            result = serial(*partial_fold(id, place->second, index), true, 1);
        else
            result = load(id, place->second, index);
    } else if (node.op == Op::scalar || node.op == Op::full) {
        const Real real = wide_ ? Real::f64 : real_of(node.type.dtype);
        result = {{constant(node.attributes.number(Key::value), real)}, {}, real};
    } else if (has_vector(index) && !transparent(id, index)) {
        result = per_lane(id, index);
    } else {
        result = compute(id, index);
    }
    memo_.back().emplace(std::move(key), result);
    return result;
}

Lanes Emitter::per_lane(ValueId id, const Index& index) {
    Lanes result;
    for (int lane = 0; lane < vector_; ++lane) {
        Index scalar = index;
        for (Coordinate& c : scalar)
            if (c.vector) c = {plus(c.text, number(lane))};
        Lanes one = value(id, scalar);
        result.real = one.real;
        result.text.push_back(one.text[0]);
        if (one.inverse.empty()) continue;
        result.pivot.push_back(one.pivot[0]);
        result.inverse.push_back(one.inverse[0]);
    }
    return result;
}

Lanes Emitter::compute(ValueId id, const Index& index) {
    const Node& node = graph_[id];
    if (is_pointwise(node.op)) return pointwise(node, index);
    if (is_shape_op(node.op)) {
        auto source = remap(id, index);
        return source ? value(source->first, source->second) : per_lane(id, index);
    }
    switch (node.op) {
        case Op::concat:
            return concat(id, index);
        case Op::pad:
            return pad(id, index);
        case Op::taps:
            return taps(id, index);
        case Op::constant: {
            const Real real = real_of(node.type.dtype);
            const Sizes strides = contiguous_strides(node.type.shape);
            if (has_vector(index)) return per_lane(id, index);
            std::string at = "0";
            for (size_t a = 0; a < index.size(); ++a) at = plus(at, times(index[a].text, number(strides[a])));
            const auto& values = node.attributes.numbers(Key::values);
            if (is_number(at)) return {{literal(values[static_cast<size_t>(std::atoll(at.c_str()))], real)}, {}, real};
            return {{let(real_name(real), {table(values, real), "[", at, "]"}, "c")}, {}, real};
        }
        case Op::input:
        case Op::param:
            fail("CUDA: leaf ", node.name, " has no memory in this pass");
        default:
            break;
    }
    auto fold_of = fold(id, index);
    require(fold_of.has_value(), "CUDA: no code for op ", name(node.op));
    const size_t lanes = has_vector(index) ? static_cast<size_t>(vector_) : 1;
    const bool sums = fold_of->combine != Fold::Combine::max && fold_of->combine != Fold::Combine::min;
    // One sum of many terms collects their roundings. (PyTorch forms products in one sum as well, sums in several.)
    const bool many = fold_of->trips() > (is_reduction(node.op) ? 8 : 64);
    const bool wide = wide_ || (sums && many) || node.type.dtype == DType::f64;
    return serial(*fold_of, wide, lanes);
}

// The operand's index under right-aligned broadcasting.
Index Emitter::broadcast(ValueId operand, const Index& index, size_t rank) const {
    const Sizes& shape = graph_[operand].type.shape;
    Index result(shape.size());
    for (size_t a = 0; a < shape.size(); ++a)
        result[a] = shape[a] == 1 ? Coordinate{"0"} : index[rank - shape.size() + a];
    return result;
}

// The share of a softmax, where the pivot and the sum of its logsumexp are at hand.
std::optional<Lanes> Emitter::share(const Node& node, const Index& index) {
    const auto share = share_of(graph_, node);
    if (!share || places_.contains(share->difference)) return std::nullopt;
    const Lanes total = value(share->total, broadcast(share->total, index, index.size()));
    if (total.inverse.empty()) return std::nullopt;
    const Lanes x = value(share->x, broadcast(share->x, index, index.size()));
    Lanes result;
    result.real = x.real == Real::f64 || total.real == Real::f64 ? Real::f64 : Real::f32;
    const std::string type(real_name(result.real));
    auto lane_of = [](const std::vector<std::string>& texts, size_t lane) {
        return texts[texts.size() == 1 ? 0 : lane];
    };
    for (size_t lane = 0; lane < std::max(x.text.size(), total.text.size()); ++lane)
        result.text.push_back(let(type,
                                  {"tf_exp((", type, ")", x[lane], " - (", type, ")", lane_of(total.pivot, lane),
                                   ") * (", type, ")", lane_of(total.inverse, lane)},
                                  "v"));
    return result;
}

Lanes Emitter::pointwise(const Node& node, const Index& index) {
    if (auto shares = share(node, index)) return *shares;
    std::vector<Lanes> operands;
    Real real = wide_ && node.op != Op::cast ? Real::f32 : real_of(node.type.dtype);
    if (node.type.dtype == DType::f64) real = Real::f64;
    size_t lanes = 1;
    const bool compares = node.op == Op::greater || node.op == Op::greater_equal || node.op == Op::equal;
    const bool scales = node.op == Op::mul || node.op == Op::div || node.op == Op::add || node.op == Op::sub;
    for (ValueId arg : node.args) {
        if (graph_[arg].op == Op::scalar || graph_[arg].op == Op::full) {
            operands.emplace_back();
            continue;
        }
        operands.push_back(value(arg, broadcast(arg, index, node.type.shape.size())));
        lanes = std::max(lanes, operands.back().text.size());
        if (operands.back().real == Real::f64 && (wide_ || node.op != Op::cast)) real = Real::f64;
    }
    Lanes result;
    result.real = real;
    for (size_t lane = 0; lane < lanes; ++lane) {
        std::vector<std::string> texts;
        for (size_t i = 0; i < operands.size(); ++i) {
            const Node& operand = graph_[node.args[i]];
            if (operands[i].text.empty()) {
                const double number = operand.attributes.number(Key::value);
                texts.push_back(scales ? constant(number, real) : literal(number, real));
                continue;
            }
            std::string text = operands[i][lane];
            if (operands[i].real != real && node.op != Op::cast) text = "(" + std::string(real_name(real)) + ")" + text;
            // Values of 16 bits are compared as they would lie in memory: the other side may have been stored.
            if (compares && bytes(operand.type.dtype) == 2)
                text = "tf_round<" + std::string(storage_name(operand.type.dtype)) + ">(" + text + ")";
            texts.push_back(std::move(text));
        }
        result.text.push_back(let(real_name(real), expression(node, texts, real), "v"));
    }
    return result;
}

Lanes Emitter::load(ValueId id, const Place& place, const Index& index) {
    const bool fine = place.storage == DType::f64 && (wide_ || graph_[id].type.dtype == DType::f64);
    const Real real = fine || widens_ ? Real::f64 : real_of(graph_[id].type.dtype);
    const std::string storage(storage_name(place.storage)), real_text(real_name(real));
    const std::string pointer = parameters_.pointer(place.base, "const " + storage, place.read_only);
    std::string offset = "0";
    bool vector = false, aligned = place.aligned;
    std::string vector_stride = "0";
    const int64_t chunk = std::min<int64_t>(vector_, 16 / bytes(place.storage));
    for (size_t a = 0; a < index.size(); ++a) {
        const int64_t stride = place.strides[a];
        // A stride over a fixed extent of channels is fixed, too, but then it is only one number more to pass.
        const std::string stride_text = parameters_.integer(stride, !parameter_values_[static_cast<size_t>(id)]);
        if (index[a].vector && stride != 0) {
            vector = true, vector_stride = stride_text;
            if (stride != 1) aligned = false;
        } else if (index[a].text != "0" && stride % chunk != 0) {
            aligned = false;
        }
        offset = plus(offset, times(index[a].text, stride_text));
    }
    Lanes result;
    result.real = real;
    if (!vector) {
        result.text.push_back(let(real_text, {"tf_load<", real_text, ">(", pointer, " + ", offset, ")"}, "v"));
        return result;
    }
    const std::string base = let("tf_index", offset, "i");
    if (aligned && chunk > 1) {
        for (int64_t begin = 0; begin < vector_; begin += chunk) {
            const std::string type = "tf_vector<" + storage + ", " + number(chunk) + ">";
            const std::string pack =
                let(type, {"*(const ", type, "*)(", pointer, " + ", plus(base, number(begin)), ")"}, "q");
            for (int64_t lane = 0; lane < chunk; ++lane)
                result.text.push_back("tf_to<" + real_text + ">(" + pack + ".lane[" + number(lane) + "])");
        }
        return result;
    }
    for (int lane = 0; lane < vector_; ++lane)
        result.text.push_back(let(
            real_text,
            {"tf_load<", real_text, ">(", pointer, " + ", plus(base, times(number(lane), vector_stride)), ")"}, "v"));
    return result;
}

}  // namespace transfuse::cuda
