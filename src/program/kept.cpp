#include "program/kept.h"

#include <algorithm>
#include <string>
#include <utility>

#include "program/cut.h"
#include "transfuse/algebra.h"

namespace transfuse {
namespace {

constexpr double beside = 4096;  // bytes that a tensor more is worth

size_t at(ValueId id) { return static_cast<size_t>(id); }

Operands moved_args(const Node& node, const std::vector<ValueId>& moved) {
    Operands args;
    for (ValueId arg : node.args) args.push_back(moved[at(arg)]);
    return args;
}

double size(const Type& type) { return static_cast<double>(numel(type.shape) * bytes(type.dtype)); }

bool is_view(Op op) {
    return op == Op::reshape || op == Op::permute || op == Op::expand || op == Op::slice || op == Op::flip ||
           op == Op::identity || op == Op::detach;
}

// The values of both graphs in one: equal ones have one number.
struct Together {
    Builder builder{"together"};
    std::vector<ValueId> forward, gradient;  // where their values are

    Together(const Graph& forward_graph, const Graph& gradient_graph) {
        for (ValueId leaf : gradient_graph.leaves()) {
            const Node& node = gradient_graph[leaf];
            leaves_.push_back(node.op == Op::input ? builder.input(node.name, node.type)
                                                   : builder.param(node.name, node.type));
        }
        forward = added(forward_graph);
        gradient = added(gradient_graph);
    }

private:
    std::vector<ValueId> leaves_;

    std::vector<ValueId> added(const Graph& graph) {
        std::vector<ValueId> moved(at(graph.size()), -1);
        for (size_t i = 0; i < graph.leaves().size(); ++i) moved[at(graph.leaves()[i])] = leaves_[i];
        for (ValueId id = 0; id < graph.size(); ++id) {
            if (moved[at(id)] >= 0) continue;
            Node node = graph[id];
            node.name.clear();
            moved[at(id)] = builder.again(node, moved_args(node, moved));
        }
        return moved;
    }
};

// What the gradient needs of the forward graph, by its own numbers.
class Need {
public:
    Need(const Graph& gradient, size_t forward_leaves) : graph_(gradient), constant_(parameter_values(gradient)) {
        const ValueId end = gradient.size();
        behind_.assign(at(end), false);
        for (size_t i = forward_leaves; i < gradient.leaves().size(); ++i) behind_[at(gradient.leaves()[i])] = true;
        for (ValueId id = 0; id < end; ++id)
            for (ValueId arg : gradient[id].args) behind_[at(id)] = behind_[at(id)] || behind_[at(arg)];
        alive_.assign(at(end), false), read_.assign(at(end), false);
        for (ValueId id : gradient.outputs()) alive_[at(id)] = true, read_[at(id)] = !behind_[at(id)];
        for (ValueId id = end; id-- > 0;) {
            if (!alive_[at(id)]) continue;
            for (ValueId arg : gradient[id].args) {
                alive_[at(arg)] = true;
                if (behind_[at(id)] && !behind_[at(arg)]) read_[at(arg)] = true;
            }
        }
        find_roots();
        find_compared();
    }

    // Values of parameters and numbers are made anew by whoever reads them.
    bool counts(ValueId id) const { return alive_[at(id)] && !behind_[at(id)] && !constant_[at(id)]; }
    bool is_read(ValueId id) const { return read_[at(id)]; }  // by the gradient proper
    // An extreme whose equals are looked for: made of the same numbers as they, so both anew or neither, as another
    // pass may round them otherwise.
    bool is_compared(ValueId id) const { return compared_[at(id)]; }
    // A norm's result: where its statistics are known, what it normalises is stored already, and stands for it.
    bool is_normalised(ValueId id) const { return normalised_[at(id)]; }

    // The memory traffic that making a value again costs, its operands being there.
    double cost_again(ValueId id, const Machine& machine) const {
        const Node& node = graph_[id];
        if (is_view(node.op)) return 0;
        const Cost own = cost(graph_, id);
        const double work = own.flops * machine.bandwidth;
        const double read = node.args.empty() ? 0 : size(graph_[node.args[0]].type), made = size(node.type);
        if (is_pointwise(node.op))  // of two tensors: one of them would not have been read
            return work / machine.pointwise_flops + (root_[at(id)] == id ? 2.5 * made : 0);
        switch (node.op) {
            case Op::lattice:
            case Op::correlate:
            case Op::covariance:  // and stored once more, for all who read it
                return work / machine.flops + read + 3 * made;
            case Op::concat:
            case Op::pad:
                return made;
            default:
                return work / machine.pointwise_flops + read + made;
        }
    }

private:
    // Of a value that follows from one large tensor element by element, that tensor; else the value itself.
    void find_roots() {
        root_.resize(at(graph_.size())), normalised_.assign(at(graph_.size()), false);
        for (ValueId id = 0; id < graph_.size(); ++id) {
            const Node& node = graph_[id];
            root_[at(id)] = id;
            if (!is_pointwise(node.op) && !is_view(node.op)) continue;
            ValueId only = -1;
            bool several = false, normalised = false;
            for (ValueId arg : node.args) {
                if (constant_[at(arg)]) continue;
                normalised |= normalised_[at(arg)];
                if (numel(graph_[arg].type.shape) * 2 < numel(node.type.shape)) {
                    normalised = true;
                    continue;
                }
                const ValueId root = root_[at(arg)];
                several |= only >= 0 && root != only;
                only = root;
            }
            if (only >= 0 && !several) root_[at(id)] = only, normalised_[at(id)] = normalised;
        }
    }

    void find_compared() {
        compared_.assign(at(graph_.size()), false);
        for (const Node& node : graph_.nodes()) {
            if (node.op != Op::equal) continue;
            for (ValueId arg : node.args) {
                while (is_view(graph_[arg].op) || graph_[arg].op == Op::cast) arg = graph_[arg].args[0];
                if (graph_[arg].op == Op::amax || graph_[arg].op == Op::amin) compared_[at(arg)] = true;
            }
        }
    }

    const Graph& graph_;
    const std::vector<bool> constant_;
    std::vector<bool> behind_;  // depends on an incoming gradient
    std::vector<bool> alive_, read_, normalised_, compared_;
    std::vector<ValueId> root_;
};

}  // namespace

std::vector<ValueId> kept_values(const Graph& forward, const Graph& gradient, std::span<const ValueId> shared,
                                 const Machine& machine) {
    const Together together(forward, gradient);
    std::vector<ValueId> made(at(together.builder.size()), -1);  // by the joint number
    for (ValueId id = forward.size(); id-- > 0;) made[at(together.forward[at(id)])] = id;
    std::vector<bool> is_shared(made.size(), false);
    for (ValueId id : shared) is_shared[at(together.forward[at(id)])] = true;

    const Need need(gradient, forward.leaves().size());
    const size_t source = 0, sink = 1;
    const auto before = [](ValueId id) { return 2 + 2 * at(id); };
    const auto after = [&](ValueId id) { return before(id) + 1; };
    const auto rounded = [](double traffic) { return static_cast<int64_t>(std::min(traffic, 1e15)); };
    Cut cut(2 + 2 * at(gradient.size()));
    for (ValueId id = 0; id < gradient.size(); ++id) {
        if (!need.counts(id)) continue;
        const Node& node = gradient[id];
        const ValueId joint = together.gradient[at(id)];
        const double once = size(node.type);
        if (is_leaf(node.op)) {
            cut.edge(source, before(id), Cut::never);
            cut.edge(before(id), after(id), rounded(once));
        } else {
            cut.edge(source, before(id), rounded(need.cost_again(id, machine)));
            const double times = is_shared[at(joint)] ? 1 : need.is_normalised(id) ? 4 : 2;
            const bool stays = made[at(joint)] < 0 || need.is_compared(id);
            cut.edge(before(id), after(id), stays ? Cut::never : rounded(times * once + beside));
            for (ValueId arg : node.args)
                if (need.counts(arg)) cut.edge(after(arg), before(id), Cut::never);
        }
        if (need.is_read(id)) cut.edge(after(id), sink, Cut::never);
    }
    const std::vector<bool> with_source = cut.with_source(source, sink);

    std::vector<ValueId> kept;
    for (ValueId id = 0; id < gradient.size(); ++id) {
        const ValueId joint = together.gradient[at(id)];
        if (!need.counts(id) || is_leaf(gradient[id].op) || is_shared[at(joint)]) continue;
        if (with_source[before(id)] && !with_source[after(id)]) kept.push_back(made[at(joint)]);
    }
    return kept;
}

Graph giving(const Graph& forward, std::span<const ValueId> kept) {
    Builder builder(forward.name());
    std::vector<ValueId> moved;
    for (const Node& node : forward.nodes())
        moved.push_back(node.op == Op::input ? builder.input(node.name, node.type)
                        : node.op == Op::param
                            ? builder.param(node.name, node.type)
                            : builder.add(node.op, moved_args(node, moved), node.attributes, node.name));
    std::vector<ValueId> outputs;
    for (ValueId id : forward.outputs()) outputs.push_back(moved[at(id)]);
    for (ValueId id : kept) outputs.push_back(moved[at(id)]);
    return builder.finish(std::move(outputs));
}

Graph taking(const Graph& gradient, const Graph& forward, std::span<const ValueId> kept) {
    Builder builder(gradient.name());
    std::vector<ValueId> moved(at(gradient.size()), -1);
    for (ValueId leaf : gradient.leaves()) {
        const Node& node = gradient[leaf];
        moved[at(leaf)] =
            node.op == Op::input ? builder.input(node.name, node.type) : builder.param(node.name, node.type);
    }
    const Together together(forward, gradient);
    std::vector<ValueId> given(at(together.builder.size()), -1);  // by the joint number
    for (size_t i = 0; i < kept.size(); ++i)
        given[at(together.forward[at(kept[i])])] = builder.input("kept" + std::to_string(i), forward[kept[i]].type);
    for (ValueId id = 0; id < gradient.size(); ++id) {
        const Node& node = gradient[id];
        if (moved[at(id)] >= 0) continue;
        const ValueId instead = given[at(together.gradient[at(id)])];
        moved[at(id)] =
            instead >= 0 ? instead : builder.add(node.op, moved_args(node, moved), node.attributes, node.name);
    }
    std::vector<ValueId> outputs;
    for (ValueId id : gradient.outputs()) outputs.push_back(moved[at(id)]);
    return builder.finish(std::move(outputs), gradient.output_names());
}

}  // namespace transfuse
