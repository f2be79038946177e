#include "cuda/general/pull/keep.h"

#include <algorithm>

#include "algebra/lattice/integer.h"
#include "cuda/general/emit/figures.h"
#include "cuda/general/emit/terms.h"

namespace transfuse::cuda {

using namespace figures;

namespace {

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
        result_.finishes = finishes();
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
            const bool asked_often = terms > 1 && evaluations_[at] > often * elements;
            if (asked_often && (evaluations_[at] * terms > 1 << 20 || in_turn_[at] * terms > long_thread)) keep = true;
            if (terms <= 1 && evaluations_[at] > 16 * elements && evaluations_[at] > 1 << 22) keep = true;
            const bool moments = placed && places_.at(v).partials->moments;
            const double each = node.op == Op::logsumexp || moments ? exponential : 1;
            const bool shared = (terms * each >= 64 && can_be_shared(graph_, v, places_) && elements < 1 << 18) ||
                                (terms >= 32 && is_reduction(node.op) && !placed && reduces_last(graph_, v));
            if (shared) folds_.insert(v);
        }
        // Who reads a sink here would make it again.
        const double readers = sinks_.contains(v) ? evaluations_[at] - elements : 0;
        if (readers > 0 && readers * loads_of(v) > 1 << 20) keep = true;
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

    // How many elements are read for one of the value, if nothing between is kept.
    double loads_of(ValueId v) {
        if (const auto known = loads_.find(v); known != loads_.end()) return known->second;
        double of_a_term = 0;
        if (!places_.contains(v))
            for (const ValueId arg : graph_[v].args) of_a_term += loads_of(arg);
        return loads_[v] = static_cast<double>(terms_of(graph_, v, places_)) * std::max(1.0, of_a_term);
    }

    // What a sink is made of.
    struct Made {
        std::set<ValueId> folds;  // those in slots that it takes
        bool by_elements = true;  // and takes element by element, and nothing else that takes long
    };

    bool lies_in_slots(ValueId v) const { return folds_.contains(v) && places_.contains(v); }

    Made made_of(ValueId sink, int64_t elements) const {
        Made made;
        std::set<ValueId> open = {sink}, takes;  // takes: made of folds
        std::vector<ValueId> between;
        while (!open.empty()) {
            const ValueId v = *open.rbegin();
            open.erase(v);
            const Node& node = graph_[v];
            if (lies_in_slots(v)) {
                made.folds.insert(v), takes.insert(v);
                made.by_elements = made.by_elements && numel(node.type.shape) == elements;
            } else if (!places_.contains(v) && !is_leaf(node.op) && !is_constant(node.op)) {
                between.push_back(v);
                open.insert(node.args.begin(), node.args.end());
            }
        }
        for (auto at = between.rbegin(); at != between.rend(); ++at) {  // operands first
            const Node& node = graph_[*at];
            const bool simple = (is_pointwise(node.op) || is_view(node.op)) && !result_.kept.contains(*at);
            const bool in_order = is_pointwise(node.op) || node.op == Op::reshape || node.op == Op::expand ||
                                  node.op == Op::identity || node.op == Op::detach;
            const bool made_of_folds =
                std::any_of(node.args.begin(), node.args.end(), [&](ValueId arg) { return takes.contains(arg); });
            if (made_of_folds) takes.insert(*at);
            const bool same = in_order && numel(node.type.shape) == elements;
            made.by_elements = made.by_elements && simple && (same || !made_of_folds);
        }
        return made;
    }

    // Folds and sinks that hang together, where all of them go element by element. What an end of a chain does alone is
    // left to it.
    std::vector<Finish> finishes() {
        std::vector<Finish> found;
        if (std::none_of(folds_.begin(), folds_.end(), [&](ValueId v) { return lies_in_slots(v); })) return found;
        std::set<ValueId> apart;  // folds that others want as well
        for (const auto& extra : request_.extras) apart.merge(made_of(extra->root, 0).folds);
        for (const auto& [sink, places] : sinks_) {
            Made made = made_of(sink, numel(graph_[sink].type.shape));
            if (made.folds.empty()) continue;
            if (!made.by_elements) {
                apart.merge(made.folds);
                continue;
            }
            Finish all{{}, {sink}};
            std::erase_if(found, [&](const Finish& other) {
                const bool meets = std::any_of(other.folds.begin(), other.folds.end(),
                                               [&](ValueId fold) { return made.folds.contains(fold); });
                if (!meets) return false;
                made.folds.insert(other.folds.begin(), other.folds.end());
                all.sinks.insert(all.sinks.end(), other.sinks.begin(), other.sinks.end());
                return true;
            });
            all.folds.assign(made.folds.begin(), made.folds.end());
            std::sort(all.sinks.begin(), all.sinks.end());
            found.push_back(std::move(all));
        }
        std::erase_if(found, [&](const Finish& all) {
            const bool alone =
                all.folds.size() == 1 && all.sinks.size() == 1 && end_of_chain(all.folds[0]) == all.sinks[0];
            return alone || all.folds.size() > most_folds ||
                   std::any_of(all.folds.begin(), all.folds.end(), [&](ValueId fold) { return apart.contains(fold); });
        });
        for (const Finish& all : found)
            for (ValueId fold : all.folds) folds_.erase(fold), result_.kept.erase(fold);
        return found;
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
    std::map<ValueId, double> loads_;
    Keeping result_;
};

}  // namespace

int64_t splits_of(const PullRequest& request, ValueId fold) {
    if (request.places.contains(fold)) return 1;
    const Graph& graph = request.graph;
    const int64_t terms = terms_of(graph, fold, request.places);
    const bool rows = is_reduction(graph[fold].op) && reduces_last(graph, fold);
    const int64_t per_block = rows ? 1 : 32, slices = rows ? 256 : 8;
    const int64_t blocks = ceil_div(numel(graph[fold].type.shape), per_block);
    const int64_t wanted = 8 * request.target.multiprocessors;
    if (blocks * 4 > wanted || terms < slices * 64) return 1;
    return std::max<int64_t>(1, std::min(terms / (slices * 32), ceil_div(wanted, blocks)));
}

Keeping what_to_keep(const PullRequest& request, const SinkPlaces& sinks) { return Keeper(request, sinks).run(); }

}  // namespace transfuse::cuda
