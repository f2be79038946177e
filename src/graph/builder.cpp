// Building graphs: checked, hash-consed, and without dead code once finished.
#include <algorithm>
#include <array>
#include <bit>
#include <unordered_set>

#include "graph/infer.h"
#include "graph/names.h"
#include "graph/pointwise.h"

namespace transfuse {

namespace {

void mix(size_t& hash, uint64_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15ull + (hash >> 29); }

size_t hash_of(const Node& node) {
    size_t hash = static_cast<size_t>(node.op);
    for (ValueId arg : node.args) mix(hash, static_cast<uint64_t>(arg));
    mix(hash, node.attributes.hash());
    return hash;
}

bool same(const Node& a, const Node& b) { return a.op == b.op && a.args == b.args && a.attributes.same(b.attributes); }

void check_leaf_name(Op op, const std::string& name) {
    if (!is_name(name))
        fail(transfuse::name(op),
             ": the name must be made of letters, digits, '_', '.', '-' and '/', and not be digits alone, got '", name,
             "'");
}

}  // namespace

template <class Same>
ValueId Builder::Index::find(size_t hash, const Same& same) const {
    if (slots_.empty()) return -1;
    for (size_t at = hash & (slots_.size() - 1); slots_[at].second >= 0; at = (at + 1) & (slots_.size() - 1))
        if (slots_[at].first == hash && same(slots_[at].second)) return slots_[at].second;
    return -1;
}

void Builder::Index::add(size_t hash, ValueId value) {
    if (2 * (taken_ + 1) > slots_.size()) make_room(2 * slots_.size());  // half of them stay empty
    size_t at = hash & (slots_.size() - 1);
    while (slots_[at].second >= 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {hash, value};
    ++taken_;
}

void Builder::Index::expect(size_t values) {
    if (2 * values > slots_.size()) make_room(std::bit_ceil(2 * values));
}

void Builder::Index::make_room(size_t slots) {
    constexpr size_t smallest = 64;
    std::vector<std::pair<size_t, ValueId>> fewer(std::max(smallest, slots), {0, -1});
    fewer.swap(slots_);
    taken_ = 0;
    for (const auto& [other, id] : fewer)
        if (id >= 0) add(other, id);
}

void Builder::Nodes::push_back(Node node) {
    if (parts_.empty() || parts_.back().size() == part) parts_.emplace_back().reserve(part);
    parts_.back().push_back(std::move(node));
}

bool Builder::take_name(const std::string& name, ValueId value) {
    const size_t hash = std::hash<std::string>{}(name);
    const auto has_it = [&](ValueId other) { return nodes_[static_cast<size_t>(other)].name == name; };
    if (names_.find(hash, has_it) >= 0) return false;
    names_.add(hash, value);
    return true;
}

ValueId Builder::append(Node node) {
    const bool leaf = is_leaf(node.op);
    size_t hash = 0;
    if (!leaf) {
        hash = hash_of(node);
        const ValueId known =
            known_.find(hash, [&](ValueId other) { return same(nodes_[static_cast<size_t>(other)], node); });
        if (known >= 0) {
            Node& twin = nodes_[static_cast<size_t>(known)];
            if (twin.name.empty() && !node.name.empty() && take_name(node.name, known))
                twin.name = std::move(node.name);
            return known;
        }
    }
    const ValueId id = size();
    // The name of an inner value is a courtesy to the reader: one that is taken is dropped. Leaves must be told apart.
    if (!node.name.empty() && !take_name(node.name, id)) {
        if (leaf) fail(name(node.op), ": there is already a value named '", node.name, "'");
        node.name.clear();
    }
    if (leaf)
        leaves_.push_back(id);
    else
        known_.add(hash, id);
    nodes_.push_back(std::move(node));
    return id;
}

ValueId Builder::input(std::string name, Type type) {
    check_leaf_name(Op::input, name);
    check_type("input", type);
    return append({Op::input, {}, {}, std::move(type), std::move(name)});
}

ValueId Builder::param(std::string name, Type type) {
    check_leaf_name(Op::param, name);
    check_type("param", type);
    return append({Op::param, {}, {}, std::move(type), std::move(name)});
}

ValueId Builder::scalar(double value) { return add(Op::scalar, {}, {{Key::value, value}}); }

ValueId Builder::full(Type type, double value) {
    return add(
        Op::full, {},
        {{Key::dtype, static_cast<int64_t>(type.dtype)}, {Key::shape, std::move(type.shape)}, {Key::value, value}});
}

ValueId Builder::add(Op op, Operands args, Attributes attributes, std::string name) {
    if (is_leaf(op)) fail(transfuse::name(op), ": leaves are declared with a name and a type");
    bool numbers_alone = is_unary(op) || is_binary(op) || op == Op::select;
    for (ValueId arg : args) {
        if (arg < 0 || arg >= size()) fail(transfuse::name(op), ": operand ", arg, " is not a value of this graph");
        numbers_alone = numbers_alone && (*this)[arg].op == Op::scalar;
    }
    // PReLU's weight [C] lies along axis 1; as [C, 1, …] it broadcasts like any other operand.
    if (op == Op::prelu && args.size() == 2 && (*this)[args[1]].type.rank() == 1 && (*this)[args[0]].type.rank() > 2) {
        const int64_t channels = (*this)[args[1]].type.shape[0];
        if (channels != 1 && channels != (*this)[args[0]].type.shape[1])
            fail("prelu: weight must have 1 or ", (*this)[args[0]].type.shape[1], " elements for x ",
                 to_string((*this)[args[0]].type), ", got ", channels);
        Sizes shape((*this)[args[0]].type.shape.size() - 1, 1);
        shape[0] = channels;
        args[1] = reshape(args[1], std::move(shape));
    }

    if (!is_name(name)) name.clear();
    Node node{op, std::move(args), std::move(attributes), {}, std::move(name)};
    Few<const Node*, 4> operands(node.args.size());
    std::transform(node.args.begin(), node.args.end(), operands.begin(), [&](ValueId arg) { return &(*this)[arg]; });
    infer(node, operands);

    if (numbers_alone) {  // numbers stay numbers, as in Python: folding keeps their dtype weak
        std::array<double, 3> values{};
        for (size_t i = 0; i < operands.size(); ++i) values[i] = operands[i]->attributes.number(Key::value);
        return scalar(pointwise_function(op, node.attributes)(values[0], values[1], values[2]));
    }
    if (op == Op::scalar) node.name.clear();  // a number is its own name
    return append(std::move(node));
}

ValueId Builder::reduce(Op op, ValueId x, Sizes dims, bool keepdim) {
    return add(op, {x}, {{Key::dims, std::move(dims)}, {Key::keepdim, static_cast<int64_t>(keepdim)}});
}

ValueId Builder::reshape(ValueId x, Sizes shape) { return add(Op::reshape, {x}, {{Key::shape, std::move(shape)}}); }

ValueId Builder::lattice(ValueId x, ValueId w, ValueId bias_or_minus_one, const Lattices& axes, int64_t groups) {
    Operands args{x, w};
    if (bias_or_minus_one >= 0) args.push_back(bias_or_minus_one);
    const ValueId id = add(Op::lattice, std::move(args), lattice_attributes(axes, groups));
    for (size_t j = 0; j < axes.size(); ++j) {
        const int64_t in = (*this)[x].type.shape[2 + j], taps = (*this)[w].type.shape[3 + j];
        if (axes[j].in != in || axes[j].taps != taps)
            fail("lattice: axis ", j, " is for ", axes[j].in, " inputs and ", axes[j].taps, " taps, the operands have ",
                 in, " and ", taps);
    }
    return id;
}

Graph Builder::finish(std::vector<ValueId> outputs, std::vector<std::string> output_names) {
    if (!is_name(name_)) fail("graph: '", name_, "' is not a name");
    if (outputs.empty()) fail("graph ", name_, ": there is no output");
    for (ValueId output : outputs)
        if (output < 0 || output >= size()) fail("graph ", name_, ": output ", output, " is not a value of it");
    if (output_names.size() > outputs.size())
        fail("graph ", name_, ": ", output_names.size(), " output names for ", outputs.size(), " outputs");

    std::vector<bool> needed(nodes_.size());
    for (ValueId id : outputs) needed[static_cast<size_t>(id)] = true;
    for (ValueId id : leaves_) needed[static_cast<size_t>(id)] = true;
    for (size_t id = needed.size(); id-- > 0;)
        if (needed[id])
            for (ValueId arg : nodes_[id].args) needed[static_cast<size_t>(arg)] = true;

    Graph::Contents sealed;
    sealed.name = std::move(name_);
    sealed.nodes.reserve(static_cast<size_t>(std::count(needed.begin(), needed.end(), true)));
    std::vector<ValueId> moved(needed.size(), -1);
    for (size_t id = 0; id < needed.size(); ++id) {
        if (!needed[id]) continue;
        Node& node = nodes_[id];
        for (ValueId& arg : node.args) arg = moved[static_cast<size_t>(arg)];
        moved[id] = static_cast<ValueId>(sealed.nodes.size());
        if (is_leaf(node.op)) sealed.leaves.push_back(moved[id]);
        sealed.nodes.push_back(std::move(node));
    }
    output_names.resize(outputs.size());
    std::unordered_set<std::string> taken;
    for (size_t i = 0; i < outputs.size(); ++i) {
        sealed.outputs.push_back(moved[static_cast<size_t>(outputs[i])]);
        std::string& given = output_names[i];
        if (given.empty()) given = default_output_name(sealed.nodes[static_cast<size_t>(sealed.outputs[i])], i, taken);
        if (!is_name(given)) fail("graph ", sealed.name, ": the name of output ", i, ", '", given, "', is not a name");
        if (!taken.insert(given).second) fail("graph ", sealed.name, ": two outputs are named '", given, "'");
    }
    sealed.output_names = std::move(output_names);
    *this = Builder("graph");
    return Graph(std::move(sealed));
}

}  // namespace transfuse
