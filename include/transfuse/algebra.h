// Rewriting: named rules with preconditions, run to a fixed point under a cost check, and the derivation they leave behind.
#pragma once

#include <string>
#include <vector>

#include "transfuse/graph.h"

namespace transfuse {

struct Cost {
    double flops = 0;   // every multiply-add counts two, every pointwise op one per element
    double bytes = 0;   // compulsory traffic if each op read its operands and wrote its result once
    Cost& operator+=(const Cost& other);
    bool operator==(const Cost&) const = default;
};
Cost cost(const Graph& graph);                // as written: op by op
Cost cost(const Graph& graph, ValueId id);

struct Step {                                 // one fired rule
    std::string rule;                         // "collapse"
    std::string what;                         // "mean over [2,3] moves before conv_transpose %y: 4 boxes"
    Cost before, after;                       // of the whole graph
};

struct Derivation {
    Graph written, rewritten;
    std::vector<Step> steps;
};

// What the choice between exact forms needs to know of a device; Machine has them (plan.h).
struct Prices {
    double stored_from = 800;         // flops an element from which a convolution is stored rather than computed twice
    double covariance = 8;            // a product of the input with itself, in products of the convolution
    double quadratic_form = 1 << 22;  // most products of wᵀ·C·w, C a covariance
    bool operator==(const Prices&) const = default;
};

struct RewriteOptions {
    bool inference = true;                    // no gradient will flow: detach is the identity
    bool differentiated = false;              // gradient() will be asked of the result: only forms that have one
    std::vector<std::string> without;         // rules not to use (tests, and the curious)
    std::vector<std::string> only;            // if not empty: nothing but these and the expansions
    bool heed_cost = true;                    // false: exact rules fire even where the cost model sees no gain (tests)
    bool forks = true;                        // a convolution may stand in two forms at once, dense and collapsed, say
    Prices prices = {};                       // of the device it is for
    bool for_each = false;                    // what several linear maps read may be taken apart for each of them
    bool outer_first = false;                 // of convolutions in a row the last two are made one first
};

Derivation rewrite(const Graph& graph, const RewriteOptions& options = {});
std::string explain(const Derivation& derivation);    // readable: the graph as written, each step, the graph at the end
std::vector<std::string> rule_names();

// The gradient as a graph of its own: inputs are the leaves of `forward` (already rewritten or not) followed by one input
// "grad_<output>" for each output that needs one; outputs are the gradients of the leaves named in `wrt`, in order
// (named "grad_<leaf>"). A leaf no gradient reaches gets zeros (`full`). Differentiating a collapsed graph gives collapsed
// gradients: box_sums turns into box_spread, and the large intermediate never exists.
struct GradientRequest {
    std::vector<ValueId> outputs;             // positions in forward.outputs() that receive a gradient
    std::vector<ValueId> wrt;                 // positions in forward.leaves()
};
Graph gradient(const Graph& forward, const GradientRequest& request);
// The gradient of a graph as written, rewritten. The forward graph is rewritten before it is differentiated; where that left
// a convolution in two forms, dense and collapsed, the gradients of both would meet as a difference of large terms, and the
// graph as written is differentiated instead, unless that costs twice as much.
Derivation derive_gradient(const Graph& written, const GradientRequest& request);

}  // namespace transfuse
