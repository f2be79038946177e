// Plans, pass by pass. A pass sees what it reads and nothing else, so a plan that is wrong fails here by name.
#include <algorithm>
#include <optional>

#include "reference/evaluate.h"
#include "transfuse/error.h"

namespace transfuse {

namespace {

using reference::Tensor;

std::string shown(const Graph& graph, ValueId id) {
    const Node& node = graph[id];
    return "%" + (node.name.empty() ? std::to_string(id) : node.name) + " (" + std::string(name(node.op)) + ")";
}

// Main memory: leaves, and what passes have stored, element by element.
class Memory {
public:
    Memory(const Plan& plan, std::vector<Tensor> leaves) : plan_(plan), slots_(plan.graph.nodes().size()) {
        for (size_t i = 0; i < leaves.size(); ++i) {
            Slot& slot = slots_[index(plan.graph.leaves()[i])];
            slot.tensor = std::move(leaves[i]);
            slot.missing = 0;
        }
    }

    bool holds(ValueId id) const { return slots_[index(id)].missing == 0; }
    const Tensor& tensor(ValueId id) const { return slots_[index(id)].tensor; }
    bool stored(ValueId id) const { return slots_[index(id)].stored && holds(id); }

    void store(const Store& store, const Tensor& value) {
        const Type& type = plan_.graph[store.target].type;
        Slot& slot = slots_[index(store.target)];
        slot.stored = true;
        if (numel(value.type.shape) == numel(type.shape)) {  // all of it, perhaps under another shape
            slot = {{type, value.data}, {}, 0, true};
            return;
        }
        if (store.start.size() != type.shape.size() || value.type.rank() != type.rank())
            fail("a store of ", shown(plan_.graph, store.value), " into ", shown(plan_.graph, store.target),
                 " has start ", to_string(store.start), " for ", to_string(value.type), " in ", to_string(type));
        if (slot.missing < 0) {
            slot.tensor = reference::zeros(type);
            slot.written.assign(slot.tensor.data.size(), false);
            slot.missing = numel(type.shape);
        }
        const Sizes strides = contiguous_strides(type.shape);
        size_t next = 0;
        reference::for_each_index(value.type.shape, [&](const Sizes& offset) {
            Sizes to = offset;
            for (size_t axis = 0; axis < to.size(); ++axis) {
                to[axis] += store.start[axis];
                if (to[axis] < 0 || to[axis] >= type.shape[axis])
                    fail("a store of ", shown(plan_.graph, store.value), " leaves ", shown(plan_.graph, store.target));
            }
            const size_t at = reference::at(to, strides);
            slot.tensor.data[at] = value.data[next++];
            if (slot.written.empty() || slot.written[at]) return;
            slot.written[at] = true;
            --slot.missing;
        });
    }

private:
    struct Slot {
        Tensor tensor;
        std::vector<bool> written;  // of a target stored in pieces
        int64_t missing = -1;       // elements; -1: never touched
        bool stored = false;        // by a pass
    };
    static size_t index(ValueId id) { return static_cast<size_t>(id); }

    const Plan& plan_;
    std::vector<Slot> slots_;
};

// Which scopes of its own pass a step may take operands from.
bool may_use(Scope step, Scope operand) {
    switch (step) {
        case Scope::prologue:
            return operand == Scope::prologue;
        case Scope::tile:
        case Scope::grid:
            return operand == Scope::prologue || operand == Scope::tile;
        case Scope::tail:
            return operand == Scope::grid || operand == Scope::tail;
    }
    return false;
}

class PassRun {
public:
    PassRun(const Plan& plan, size_t number, Memory& memory, Arithmetic arithmetic)
        : plan_(plan), pass_(plan.passes[number]), number_(number), memory_(memory), arithmetic_(arithmetic) {
        values_.resize(plan.graph.nodes().size());
        scopes_.resize(values_.size());
    }

    void run() {
        for (const TileStep& step : pass_.steps) {
            check(step.value);
            const Node& node = plan_.graph[step.value];
            if (is_leaf(node.op)) ill_formed("computes the leaf ", shown(plan_.graph, step.value));
            std::vector<const Tensor*> args;
            for (ValueId arg : node.args) args.push_back(&operand(arg, step));
            values_[index(step.value)] = reference::evaluate(node, args, arithmetic_);
            scopes_[index(step.value)] = step.scope;
        }
        for (const Store& store : pass_.stores) {
            check(store.value);
            check(store.target);
            memory_.store(store, stored_value(store.value));
        }
    }

private:
    static size_t index(ValueId id) { return static_cast<size_t>(id); }

    template <class... Parts>
    [[noreturn]] void ill_formed(const Parts&... parts) const {
        fail("plan of ", plan_.graph.name(), ": pass ", number_, " ", parts...);
    }

    void check(ValueId id) const {
        if (id < 0 || id >= plan_.graph.size()) ill_formed("names value ", id, ", which the graph does not have");
    }

    const Tensor& operand(ValueId id, const TileStep& step) {
        if (is_literal(plan_.graph, id)) return literal(id);
        if (const auto& scope = scopes_[index(id)]) {
            if (!may_use(step.scope, *scope))
                ill_formed("computes ", shown(plan_.graph, step.value), " from ", shown(plan_.graph, id),
                           ", which is not complete in its scope");
            return *values_[index(id)];
        }
        if (std::find(pass_.reads.begin(), pass_.reads.end(), id) == pass_.reads.end())
            ill_formed("uses ", shown(plan_.graph, id), " in ", shown(plan_.graph, step.value), " without reading it");
        return read(id);
    }

    const Tensor& stored_value(ValueId id) {
        if (is_literal(plan_.graph, id)) return literal(id);
        return scopes_[index(id)] ? *values_[index(id)] : read(id);
    }

    const Tensor& literal(ValueId id) {
        auto& value = values_[index(id)];
        if (!value) value = reference::evaluate(plan_.graph[id], {}, arithmetic_);
        return *value;
    }

    // From memory, through views.
    const Tensor& read(ValueId id) {
        if (memory_.holds(id)) return memory_.tensor(id);
        auto& value = values_[index(id)];
        if (value) return *value;
        if (index(id) >= plan_.views.size() || !plan_.views[index(id)])
            ill_formed("reads ", shown(plan_.graph, id), ", which no earlier pass has stored");
        const Tensor& source = read(plan_.graph[id].args.at(0));
        const Tensor* args[] = {&source};
        return *(value = reference::evaluate(plan_.graph[id], args, arithmetic_));
    }

    const Plan& plan_;
    const Pass& pass_;
    size_t number_;
    Memory& memory_;
    Arithmetic arithmetic_;
    std::vector<std::optional<Tensor>> values_;  // steps, literals and views
    std::vector<std::optional<Scope>> scopes_;   // steps
};

}  // namespace

std::vector<std::vector<double>> evaluate(const Plan& plan, const std::vector<std::vector<double>>& leaves,
                                          Arithmetic arithmetic) {
    Memory memory(plan, reference::leaf_tensors(plan.graph, leaves, arithmetic));
    for (size_t number = 0; number < plan.passes.size(); ++number) PassRun(plan, number, memory, arithmetic).run();
    std::vector<std::vector<double>> outputs;
    for (ValueId output : plan.graph.outputs()) {
        if (!memory.stored(output))
            fail("plan of ", plan.graph.name(), ": no pass stores the output ", shown(plan.graph, output));
        outputs.push_back(memory.tensor(output).data);
    }
    return outputs;
}

}  // namespace transfuse
