// The state of one rewriting round: a builder that knows which of its values are alive and what they cost together.
//
// A round walks the graph once. Each node is rebuilt on the rewritten forms of its operands, then rules are tried on it
// until none applies. Values nobody uses any more die at once and take their cost with them, so the cost of the whole
// graph is known exactly before and after each firing. Until a rule builds something the rebuilt nodes are the graph's
// own, under the same numbers, and none is copied: a round in which nothing happens, as the last one, costs little.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "transfuse/algebra.h"

namespace transfuse {

// What a round asks of a graph's nodes.
struct Survey {
    explicit Survey(const Graph& graph);

    struct Value {
        int uses = 0;
        bool parameter = false, number = false;  // of params and constants, of constants alone
        bool convolution = false, leaf = false, pointwise = false;
        bool moment = false;    // a first moment of a variance
        bool loaded = false;    // convolutions alone read it
        bool composed = false;  // convolutions alone read it, through scales and shifts by parameters at most
        bool for_each =
            false;  // linear maps alone read it, several of them it or what it is made of by scales and sums
        ValueId covariance = -1;  // of the same input, beside the mean of box sums that it is
    };
    std::vector<Value> values;
};

class Rewriter {
public:
    Rewriter(const Graph& graph, const RewriteOptions& options);

    // What rules look at. References do not survive add().
    const Node& operator[](ValueId id) const { return node(id); }
    Op op(ValueId id) const { return node(id).op; }
    bool is(ValueId id, Op op) const { return node(id).op == op; }
    ValueId arg(ValueId id, size_t i = 0) const { return node(id).args[i]; }
    const Sizes& shape(ValueId id) const { return node(id).type.shape; }
    DType dtype(ValueId id) const { return node(id).type.dtype; }
    int64_t rank(ValueId id) const { return node(id).type.rank(); }
    bool is_parameter(ValueId id) const { return known_[at(id)].parameter; }  // of params and constants alone
    int uses(ValueId id) const { return known_[at(id)].uses; }
    bool inference() const { return inference_; }
    bool differentiated() const { return differentiated_; }
    bool forks() const { return forks_; }
    bool heeds_cost() const { return heeds_cost_; }
    const Prices& prices() const { return prices_; }
    // The mean beside a variance, taken as E[d²] − E[d]² or as such: it belongs to the same sums and must stay with
    // them.
    bool is_moment() const { return candidate_is_moment_; }
    // Convolutions alone read the candidate, as their input or by way of pointwise ops: they make it while they load.
    bool is_loaded() const { return candidate_is_loaded_; }
    // What several linear maps read, the candidate among them, and nobody else: it may end where each is made one with
    // what it is made by. That is dearer until all are.
    bool is_one_of_readers() const { return for_each_ && candidate_is_one_of_readers_; }
    // It waits for the convolutions behind the candidate to be made one first.
    bool waits_for_outer() const { return outer_first_ && candidate_is_composed_; }

    // Of a covariance of the input of the box sums whose mean the candidate is; null: there is none.
    const Attributes* covariance_beside() const { return candidate_covariance_; }

    // What rules build with.
    ValueId add(Op op, Operands args, Attributes attributes = {}, std::string name = {});
    ValueId scalar(double value) { return add(Op::scalar, {}, {{Key::value, value}}); }

    // What the step says of itself; called by a rule that is about to succeed.
    template <class... Parts>
    void say(const Parts&... parts) {
        remark_.clear();
        (append(parts), ...);
    }

    // The graph that was rebuilt, and what each of its nodes costs.
    Graph finish(const std::vector<std::string>& output_names, std::vector<Cost>& costs);

    struct Total {
        Cost cost;
        double objective = 0;
        int64_t nodes = 0;
        int64_t convolutions = 0;  // lattices of inputs by a weight that is no number
        bool operator<(const Total& other) const {
            return objective < other.objective || (objective == other.objective && nodes < other.nodes);
        }
    };
    Total total() const { return live_; }

    // The driver's side of a firing.
    // The candidate: `old` on rewritten operands, held. cost: of `old` in its graph.
    ValueId rebuild(ValueId old, const Cost& cost);
    void begin();        // remember what is born from here on
    void drop_unused();  // bury what the rule built in vain
    void hold(ValueId id);
    void release(ValueId id);
    void settle(ValueId old, ValueId id);  // `id` stands for `old` from now on
    std::string take_remark() { return std::move(remark_); }

private:
    struct Known {  // of a value
        Cost cost;
        double objective = 0;
        int uses = 0;
        bool alive = false, parameter = false, number = false;  // number: of constants alone
        bool convolution = false;
    };
    static size_t at(ValueId id) { return static_cast<size_t>(id); }
    const Node& node(ValueId id) const { return copied_ ? builder_[id] : graph_[id]; }
    void copy();  // what was rebuilt so far, into the builder
    void append(std::string_view text) { remark_ += text; }
    void append(const Sizes& sizes) { remark_ += to_string(sizes); }
    void append(const Type& type) { remark_ += to_string(type); }
    void append(int64_t value) { remark_ += std::to_string(value); }
    void append(double value);
    void learn(ValueId id);
    void learn(ValueId id, const Cost& cost);
    void begin_with(const Survey::Value& seen, const Cost& cost, int uses);  // the next of the graph's own values
    bool stands_for(ValueId id, ValueId old) const;                          // as an operand
    void revive(ValueId id);
    void bury(ValueId id);
    void charge(const Known& value, double sign);

    const Graph& graph_;
    bool inference_, differentiated_, forks_, heeds_cost_, for_each_, outer_first_;
    const Prices prices_;
    Builder builder_;
    bool copied_ = false;       // else the values so far are the graph's first ones
    std::vector<ValueId> now_;  // old value -> what stands for it
    const Survey old_;
    bool candidate_is_moment_ = false, candidate_is_loaded_ = false, candidate_is_composed_ = false;
    bool candidate_is_one_of_readers_ = false;
    const Attributes* candidate_covariance_ = nullptr;
    std::vector<Known> known_;
    std::vector<ValueId> born_;
    Total live_;
    std::string remark_;
};

// What decides between two forms of a graph: flops, and bytes weighted as a machine of balance 8 flop/byte weighs them.
// Pointwise ops are fused with their neighbours, so their bytes count for little: they never justify a second
// convolution.
double objective(Op op, const Cost& cost);
double objective(const Graph& graph);
// Convolutions that a graph computes; pools, whose weights are numbers, and products of weights are none.
int64_t convolutions(const Graph& graph);

}  // namespace transfuse
