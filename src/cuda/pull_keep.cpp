#include "cuda/pull_keep.h"

#include <algorithm>

#include "cuda/pull_terms.h"

namespace transfuse::cuda {

namespace {

constexpr double exponential = 8;    // additions that one term of a logsumexp takes as long as
constexpr double long_thread = 256;  // terms added by one thread that take longer than a barrier
constexpr double least_slices = 32;  // threads that share the terms of a fold

class Keeper {
public:
    Keeper(const PullRequest& request, const SinkPlaces& sinks)
        : request_(request),
          graph_(request.graph),
          places_(request.places),
          sinks_(sinks),
          evaluations_(static_cast<size_t>(graph_.size()), 0),
          in_turn_(static_cast<size_t>(graph_.size()), 1),
          needed_(static_cast<size_t>(graph_.size()), false),
          consumers_(static_cast<size_t>(graph_.size())) {}

    Keeping run() {
        for (const auto& [value, places] : sinks_) needed_[static_cast<size_t>(value)] = true;
        for (const auto& extra : request_.extras) {
            needed_[static_cast<size_t>(extra->root)] = true;
            evaluations_[static_cast<size_t>(extra->root)] += extra->elements;
        }
        for (ValueId v = graph_.size() - 1; v >= 0; --v)
            if (needed_[static_cast<size_t>(v)]) weigh(v);
        for (ValueId fold : folds_) place_fold(fold);
        return std::move(result_);
    }

private:
    // Walking from the sinks down: how often each value would be evaluated if nothing were kept, and whether to keep
    // it.
    void weigh(ValueId v) {
        const auto at = static_cast<size_t>(v);
        const Node& node = graph_[v];
        const auto elements = static_cast<double>(numel(node.type.shape));
        const auto terms = static_cast<double>(terms_of(graph_, v, places_));
        if (sinks_.contains(v)) evaluations_[at] += elements;
        const bool placed = places_.contains(v);
        if (placed && !places_.at(v).partials) return;
        if (is_constant(node.op)) return;
        bool keep = false;
        if (!is_view(node.op)) {
            const bool often = terms > 1 && evaluations_[at] > 1.5 * elements;
            if (often && (evaluations_[at] * terms > 1 << 20 || in_turn_[at] * terms > long_thread)) keep = true;
            if (terms <= 1 && evaluations_[at] > 16 * elements && evaluations_[at] > 1 << 22) keep = true;
            const double each = node.op == Op::logsumexp ? exponential : 1;
            const bool shared = (terms * each >= 64 && can_be_shared(graph_, v, places_) && elements < 1 << 18) ||
                                (terms >= 32 && is_reduction(node.op) && !placed && reduces_last(graph_, v));
            keep = request_.target.decide(keep);
            if (request_.target.decide(shared)) folds_.insert(v);
        }
        if (keep) result_.kept.insert(v);
        if (placed) return;
        const bool once = keep || (sinks_.contains(v) && !is_extra(v));
        const double times = once ? elements : evaluations_[at];
        const double turns =
            (once ? 1 : in_turn_[at]) * (folds_.contains(v) ? std::max(1.0, terms / least_slices) : terms);
        for (size_t i = 0; i < node.args.size(); ++i) {
            const auto arg = static_cast<size_t>(node.args[i]);
            needed_[arg] = true;
            consumers_[arg].push_back(v);
            const bool bias = node.op == Op::lattice && i == 2;
            evaluations_[arg] += times * (bias ? 1 : terms);
            in_turn_[arg] = std::max(in_turn_[arg], turns);
        }
    }

    // A fold is finished together with the pointwise chain above it, or kept where that chain ends.
    void place_fold(ValueId fold) {
        const bool split = splits_of(request_, fold) > 1;
        ValueId top = split ? fold : end_of_chain(fold);
        if (result_.fold_of.contains(top)) top = fold;  // two folds under one root: the second is kept by itself
        // What is stored and read here as well is kept, too: a reader would add all terms with one thread.
        if (!sinks_.contains(top) || !consumers_[static_cast<size_t>(top)].empty())
            result_.kept.insert(top);
        else if (split)
            result_.kept.insert(fold);
        result_.fold_of.emplace(top, fold);
    }

    ValueId end_of_chain(ValueId fold) const {
        ValueId top = fold;
        const int64_t elements = numel(graph_[fold].type.shape);
        while (!sinks_.contains(top) && !result_.kept.contains(top) &&
               consumers_[static_cast<size_t>(top)].size() == 1) {
            const ValueId next = consumers_[static_cast<size_t>(top)][0];
            const Op op = graph_[next].op;
            if (!is_pointwise(op) && (!is_view(op) || op == Op::slice)) break;
            if (numel(graph_[next].type.shape) != elements) break;
            top = next;
        }
        return top;
    }

    bool is_extra(ValueId v) const {
        return std::any_of(request_.extras.begin(), request_.extras.end(),
                           [&](const auto& extra) { return extra->root == v; });
    }

    const PullRequest& request_;
    const Graph& graph_;
    const Places& places_;
    const SinkPlaces& sinks_;
    std::vector<double> evaluations_;
    std::vector<double> in_turn_;  // of these, how many one thread makes after another
    std::vector<bool> needed_;
    std::vector<std::vector<ValueId>> consumers_;
    std::set<ValueId> folds_;
    Keeping result_;
};

}  // namespace

Keeping what_to_keep(const PullRequest& request, const SinkPlaces& sinks) { return Keeper(request, sinks).run(); }

}  // namespace transfuse::cuda
