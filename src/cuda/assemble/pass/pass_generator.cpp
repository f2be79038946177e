#include "cuda/assemble/pass/pass_generator.h"

#include <algorithm>

#include "cuda/dense/dense.h"
#include "cuda/general/around_product.h"
#include "cuda/loop/loop.h"
#include "cuda/plain/cells.h"
#include "cuda/plain/grouped/grouped.h"
#include "cuda/plain/grouped/grouped_gradient.h"
#include "cuda/plain/thin.h"
#include "cuda/sums/correlate/correlate.h"
#include "cuda/sums/covariance/covariance.h"
#include "cuda/sums/moments/moments.h"
#include "graph/has.h"
#include "plan/pass_name.h"

namespace transfuse::cuda {

void PassGenerator::ask() {
    switch (pass_.kind) {
        case PassKind::dense:
            if (takes_tiles(context_, number_, around_.config) && !ordinary_arithmetic())
                tiles_ = offer_tiles(context_, around_, true);
            break;
        case PassKind::moments:
            return moments();
        case PassKind::correlate:
            return correlate();
        case PassKind::pointwise:
            return pointwise();
        default:
            break;
    }
}

void PassGenerator::settle() {
    if (tiles_) settle_tiles();
}

PassProgram PassGenerator::write() {
    if (main_) main_();
    pull_rest();
    return std::move(result_);
}

Places& PassGenerator::places() {
    if (places_) return *places_;
    places_ = placement_.places_of(pass_);
    // Copies of whole leaves read what they write under another name.
    for (const Store& store : pass_.stores)
        if (pass_.steps.empty() && store.value == store.target)
            if (const ValueId root = view_root(context_.plan, store.value); !is_literal(graph_, root))
                places_->emplace(root, placement_.place_of(root));
    return *places_;
}

bool PassGenerator::ordinary_arithmetic() {
    if (!ordinary_arithmetic_may_take(around_)) return false;
    const std::string how = "ordinary arithmetic; ";
    if (auto thin = offer_thin(around_, places(), placement_.sinks_of(pass_))) {
        take(std::move(*thin), how, Does::all);
        return true;
    }
    auto offer = offer_cells(around_, places(), placement_.tile_sinks(pass_));
    if (!offer) offer = offer_grouped(around_, places(), placement_.tile_sinks(pass_));
    if (offer) take(std::move(*offer), how, Does::tiles);
    return offer.has_value();
}

void PassGenerator::moments() {
    std::vector<std::pair<ValueId, Place>> stores;
    for (const Store& store : pass_.stores)
        if (store.value == store.target) stores.emplace_back(store.value, placement_.sink_of(store).place);
    auto moments = offer_moments(around_, places(), stores, &why_not_);
    if (!moments) return left_to_the_general_kernel();
    take(std::move(*moments), "", Does::stored);
}

void PassGenerator::correlate() {
    auto correlate = offer_grouped_gradient(around_, places());
    if (!correlate) correlate = offer_correlate(around_, places(), &why_not_);
    if (!correlate) correlate = offer_covariance(around_, places());
    if (!correlate) return left_to_the_general_kernel();
    take(std::move(*correlate), "", Does::stored);
}

void PassGenerator::pointwise() {
    std::vector<Place> stores;
    for (const Store& store : pass_.stores) stores.push_back(placement_.sink_of(store).place);
    if (auto loop = offer_loop(around_, places(), stores, nullptr)) take(std::move(*loop), "", Does::all);
}

void PassGenerator::settle_tiles() {
    if (reduces_rows(graph_, pass_) && rows_behind()) return;
    if (tiles_->offer && tiles_->offer->parts.empty() && product_pays()) return;
    if (tiles_->offer) return take_tiles();
    why_not_ = std::move(tiles_->why_not);
    if (auto product = product_alone()) {
        if (auto loop = loop_behind()) return take_product_and_loop(std::move(*product), std::move(*loop));
        return take_product(std::move(*product));
    }
    left_to_the_general_kernel();
}

void PassGenerator::take(Offer offer, std::string how, Does does) {
    main_ = [this, offer = std::move(offer), how = std::move(how), does] {
        FamilyProgram made = offer.write();
        for (auto& [value, place] : made.places) places().insert_or_assign(value, std::move(place));
        done_.insert(done_.end(), made.stored.begin(), made.stored.end());
        if (does == Does::all)
            for (const Store& store : pass_.stores) done_.push_back(store.value);
        if (does == Does::tiles)
            for (const TileStep& step : pass_.steps)
                if (step.scope == Scope::tile || step.scope == Scope::prologue) done_.push_back(step.value);
        const Words note = std::move(made.pass_note);
        result_.program = with_packed(std::move(made), tiles_ ? tiles_->taken : nullptr);
        if (note.empty())
            say(how);
        else
            result_.note = note;
    };
}

void PassGenerator::take_tiles() {
    const std::string parts = tiles_->offer->parts;
    in_parts_ = !parts.empty();
    if (in_parts_)
        take(std::move(*tiles_->offer), "tensor-core kernel for " + parts + "; ", Does::stored);
    else
        take(std::move(*tiles_->offer), std::string(by_tensor_cores), Does::tiles);
}

void PassGenerator::pull_rest() {
    Program& program = result_.program;
    const bool tail = !program.launches.empty();
    PullRequest request = pull_request(std::string(pass_name(pass_.kind)) + (tail ? "_tail" : ""));
    request.early = tail;
    request.scratch_begin = static_cast<int64_t>(program.scratch_bytes);
    // Sums over space, what follows them and what prepares weights: small, and often differences of what is nearly
    // equal.
    request.exact = (tail && !in_parts_) || pass_.kind == PassKind::moments ||
                    std::all_of(pass_.steps.begin(), pass_.steps.end(),
                                [](const TileStep& step) { return step.scope == Scope::tail; });
    for (const Store& store : pass_.stores)
        if (!has(done_, store.value)) request.sinks.push_back(placement_.sink_of(store));
    if (request.sinks.empty()) return;
    request.places = std::move(places());
    Program rest = pull(request);
    for (Launch& launch : rest.launches) program.launches.push_back(std::move(launch));
    program.scratch_bytes = std::max(program.scratch_bytes, rest.scratch_bytes);
}

PullRequest PassGenerator::pull_request(std::string name) const {
    PullRequest request{graph_, context_.parameters, {}, {}, context_.target, 0, std::move(name)};
    request.text_cache = around_.text_cache;
    return request;
}

Program PassGenerator::with_packed(FamilyProgram made, const std::shared_ptr<Taken>& taken) {
    if (!made.config.empty()) result_.config = std::move(made.config);
    if (taken && taken->news) result_.taken = std::move(*taken);
    if (!made.pack) return std::move(made.program);
    const ValueId packed = made.pack->root;
    const bool parameters = context_.parameters[static_cast<size_t>(packed)];
    result_.packed = {made.packed_bytes, context_.options.freeze && parameters, {}};
    if (parameters) {
        result_.packed->job = std::move(made.pack);
        return std::move(made.program);
    }
    PullRequest request = pull_request("pack");
    request.early = true;
    const ValueId root = view_root(context_.plan, packed);
    if (!is_literal(graph_, root)) request.places.emplace(root, placement_.place_of(root));
    request.extras.push_back(std::move(made.pack));
    Program program = pull(request);
    for (Launch& launch : made.program.launches) program.launches.push_back(std::move(launch));
    program.scratch_bytes = made.program.scratch_bytes, program.note = made.program.note;
    return program;
}

}  // namespace transfuse::cuda
