// Questions a graph answers.
#include "transfuse/graph.h"

#include <algorithm>

#include "graph/infer.h"
#include "transfuse/error.h"

namespace transfuse {

Graph::Graph() {
    static const auto none = std::make_shared<const Contents>();
    contents_ = none;
}

namespace {

// Then it is the shape of what a pointwise op makes of them, and all else about it is as it was.
bool have_one_shape(const std::vector<const Node*>& operands) {
    return std::ranges::all_of(operands, [&](const Node* node) { return node->type.shape == operands[0]->type.shape; });
}

// Gives the nodes what they are for other types of the leaves. False where one has other attributes then: it may be the
// same as another.
bool infer_anew(std::vector<Node>& nodes, const std::vector<ValueId>& leaves, const std::vector<Type>& leaf_types) {
    std::vector<bool> other(nodes.size());  // the type is not what it was
    std::vector<const Node*> operands;
    bool alike = true;  // nothing but extents changes
    const auto give = [&](size_t leaf) {
        const auto id = static_cast<size_t>(leaves[leaf]);
        if (nodes[id].type == leaf_types[leaf]) return;
        check_type(name(nodes[id].op), leaf_types[leaf]);
        other[id] = true;
        alike =
            alike && nodes[id].type.dtype == leaf_types[leaf].dtype && nodes[id].type.rank() == leaf_types[leaf].rank();
        nodes[id].type = leaf_types[leaf];
    };
    const auto infer_value = [&](size_t id) {
        Node& node = nodes[id];
        const auto changed = [&](ValueId arg) { return other[static_cast<size_t>(arg)]; };
        if (std::none_of(node.args.begin(), node.args.end(), changed)) return true;
        operands.clear();
        for (ValueId arg : node.args) operands.push_back(&nodes[static_cast<size_t>(arg)]);
        if (alike && is_pointwise(node.op) && have_one_shape(operands)) {
            other[id] = true;
            node.type.shape = operands[0]->type.shape;
            return true;
        }
        const Attributes attributes = node.attributes;
        const Type type = node.type;
        infer(node, operands);
        other[id] = node.type != type;
        return node.attributes.same(attributes);
    };
    for (size_t leaf = 0; leaf < leaves.size(); ++leaf) give(leaf);
    for (size_t id = 0; id < nodes.size(); ++id)
        if (!infer_value(id)) return false;
    return true;
}

}  // namespace

Graph Graph::with_nodes(std::vector<std::pair<ValueId, Node>> others) const {
    Contents anew = *contents_;
    for (auto& [id, node] : others) anew.nodes[static_cast<size_t>(id)] = std::move(node);
    return Graph(std::move(anew));
}

Graph Graph::with_leaf_types(const std::vector<Type>& types) const {
    if (types.size() != leaves().size())
        fail("graph ", name(), " has ", leaves().size(), " leaves, got ", types.size(), " types");
    Contents anew = *contents_;
    if (infer_anew(anew.nodes, leaves(), types)) return Graph(std::move(anew));
    Builder builder(name());
    std::vector<ValueId> moved;
    moved.reserve(nodes().size());
    size_t leaf = 0;
    for (const Node& node : nodes()) {
        if (node.op == Op::input) {
            moved.push_back(builder.input(node.name, types[leaf++]));
        } else if (node.op == Op::param) {
            moved.push_back(builder.param(node.name, types[leaf++]));
        } else {
            Operands args;
            args.reserve(node.args.size());
            bool alike = true;  // what parameters alone make does not change
            for (ValueId arg : node.args) {
                args.push_back(moved[static_cast<size_t>(arg)]);
                alike = alike && builder[args.back()].type == (*this)[arg].type;
            }
            moved.push_back(alike ? builder.again(node, std::move(args))
                                  : builder.add(node.op, std::move(args), node.attributes, node.name));
        }
    }
    std::vector<ValueId> given;
    for (ValueId output : outputs()) given.push_back(moved[static_cast<size_t>(output)]);
    return builder.finish(std::move(given), output_names());
}

Lattices lattices(const Graph& graph, ValueId id) {
    const Node& node = graph[id];
    const Type& x = graph[node.args.at(0)].type;
    switch (node.op) {
        case Op::lattice:
            return lattices(node, x, 3, graph[node.args[1]].type);
        case Op::correlate:
            return lattices(node, x, 0, graph[node.args[1]].type);
        case Op::conv:
        case Op::conv_transpose:
            return lattices(node, x, 2, graph[node.args[1]].type);
        default:
            return lattices(node, x, 0, Type{});
    }
}

namespace {

// The primitive, asked for most: its attributes are looked through once.
Lattices lattices_of_primitive(const Node& node, const Type& x, const Type& w) {
    const Sizes *up = nullptr, *down = nullptr, *dil = nullptr, *offset = nullptr, *out = nullptr;
    for (const auto& [key, number] : node.attributes.items()) {
        const Sizes** const place = key == Key::up       ? &up
                                    : key == Key::down   ? &down
                                    : key == Key::dil    ? &dil
                                    : key == Key::offset ? &offset
                                    : key == Key::out    ? &out
                                                         : nullptr;
        if (place) *place = std::get_if<Sizes>(&number);
    }
    require(up && down && dil && offset && out, "a lattice has no axes");
    const size_t d = out->size(), first_in = x.shape.size() - d, first_tap = 3;
    Lattices axes(d);
    for (size_t j = 0; j < d; ++j)
        axes[j] = {
            (*up)[j], (*down)[j], (*dil)[j], (*offset)[j], x.shape[first_in + j], (*out)[j], w.shape[first_tap + j]};
    return axes;
}

}  // namespace

Lattices lattices(const Node& node, const Type& x, int64_t first_spatial_tap_axis, const Type& w) {
    if (node.op == Op::lattice && first_spatial_tap_axis == 3) return lattices_of_primitive(node, x, w);
    auto get = [&](Key key, size_t j) { return node.attributes.integers(key)[j]; };
    auto taps = [&](size_t j) { return w.shape[static_cast<size_t>(first_spatial_tap_axis) + j]; };
    const Key counted = node.op == Op::lattice                                  ? Key::out
                        : node.op == Op::correlate || node.op == Op::covariance ? Key::taps
                        : node.op == Op::upsample                               ? Key::scale
                        : node.op == Op::avg_pool                               ? Key::kernel
                                                                                : Key::stride;
    const size_t d = node.attributes.integers(counted).size();
    Lattices axes(d);
    for (size_t j = 0; j < d; ++j) {
        const int64_t in = x.shape[x.shape.size() - d + j];
        switch (node.op) {
            case Op::lattice:
                axes[j] = {
                    get(Key::up, j), get(Key::down, j), get(Key::dil, j), get(Key::offset, j), in, get(Key::out, j),
                    taps(j)};
                break;
            case Op::correlate:  // w is g: its spatial extents are the lattice's outputs
                axes[j] = {get(Key::up, j), get(Key::down, j), get(Key::dil, j), get(Key::offset, j), in,
                           w.shape[2 + j],  get(Key::taps, j)};
                break;
            case Op::covariance:
                axes[j] = {get(Key::up, j),  1, get(Key::dil, j), get(Key::offset, j), in, get(Key::out, j),
                           get(Key::taps, j)};
                break;
            case Op::conv_transpose:
                axes[j] = Lattice::conv_transpose(in, taps(j), get(Key::stride, j), get(Key::padding, j),
                                                  get(Key::output_padding, j), get(Key::dilation, j));
                break;
            case Op::conv:
                axes[j] = Lattice::conv(in, taps(j), get(Key::stride, j), get(Key::padding, j), get(Key::dilation, j));
                break;
            case Op::avg_pool:
                axes[j] = Lattice::avg_pool(in, get(Key::kernel, j), get(Key::stride, j), get(Key::padding, j));
                break;
            case Op::upsample:
                axes[j] = Lattice::upsample(in, get(Key::scale, j));
                break;
            default:
                fail(name(node.op), ": not a convolution, it has no lattice");
        }
    }
    return axes;
}

int64_t slice_start(const Node& slice, const Type& x) {
    const auto axis = static_cast<size_t>(slice.attributes.integer(Key::axis));
    return slice_bound(slice.attributes.integer(Key::start), x.shape[axis]);
}

std::vector<bool> parameter_values(const Graph& graph) {
    std::vector<bool> parameter(graph.nodes().size());
    for (size_t id = 0; id < parameter.size(); ++id) {
        const Node& node = graph.nodes()[id];
        parameter[id] = node.op != Op::input && std::all_of(node.args.begin(), node.args.end(), [&](ValueId arg) {
                            return parameter[static_cast<size_t>(arg)];
                        });
    }
    return parameter;
}

std::vector<std::vector<ValueId>> uses(const Graph& graph) {
    std::vector<std::vector<ValueId>> readers(graph.nodes().size());
    for (ValueId id = 0; id < graph.size(); ++id)
        for (ValueId arg : graph[id].args) {
            auto& list = readers[static_cast<size_t>(arg)];
            if (list.empty() || list.back() != id) list.push_back(id);
        }
    return readers;
}

}  // namespace transfuse
