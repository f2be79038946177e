#include "cuda/assemble/pass/pass_program.h"

#include <algorithm>

#include "cuda/assemble/pass/pass_generator.h"
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

PassProgram PassGenerator::run() {
    switch (pass_.kind) {
        case PassKind::dense:
            if (takes_tiles(context_, number_, around_.config)) dense();
            break;
        case PassKind::moments:
            moments();
            break;
        case PassKind::correlate:
            correlate();
            break;
        case PassKind::pointwise:
            pointwise();
            break;
        default:
            break;
    }
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
    if (auto thin = generate_thin(around_, places(), placement_.sinks_of(pass_))) {
        if (thin->pack) result_.packed = {thin->packed_bytes, context_.options.freeze, std::move(thin->pack)};
        take(std::move(thin->program), "ordinary arithmetic; ");
        for (const Store& store : pass_.stores) done_.push_back(store.value);
        return true;
    }
    if (auto ordinary = ordinary_product()) {
        take(std::move(ordinary->program), "ordinary arithmetic; ");
        place(ordinary->grid);
        tiles_are_done();
        return true;
    }
    return false;
}

void PassGenerator::tensor_cores() {
    Tiles tiles = ahead_ ? std::move(*ahead_) : generate_tiles(context_, around_, true);
    if (reduces_rows(graph_, pass_) && rows_apart(tiles)) return;
    if (tiles.dense && tiles.dense->parts.empty() && product_pays(tiles.seconds)) return;
    if (tiles.dense) return take_tiles(std::move(tiles));
    why_not_ = std::move(tiles.why_not);
    if (auto product = product_alone()) {
        if (auto loop = loop_behind()) return take_product_and_loop(std::move(*product), std::move(*loop));
        return take_product(std::move(*product));
    }
    left_to_the_general_kernel();
}

std::optional<GridProgram> PassGenerator::ordinary_product() {
    auto cells = generate_cells(around_, places(), placement_.tile_sinks(pass_));
    return cells ? std::move(cells) : generate_grouped(around_, places(), placement_.tile_sinks(pass_));
}

void PassGenerator::take_tiles(Tiles tiles) {
    const std::string parts = std::move(tiles.dense->parts);
    in_parts_ = !parts.empty();
    if (!in_parts_) tiles_are_done();
    place(tiles.dense->places);
    result_.config = std::move(tiles.dense->config);
    result_.taken = std::move(tiles.taken);
    const Words note = in_parts_ ? Words() : std::move(tiles.dense->pass_note);
    take(with_packed_weights(std::move(*tiles.dense)),
         in_parts_ ? "tensor-core kernel for " + parts + "; " : std::string(by_tensor_cores), note);
}

void PassGenerator::moments() {
    std::vector<std::pair<ValueId, Place>> stores;
    for (const Store& store : pass_.stores)
        if (store.value == store.target) stores.emplace_back(store.value, placement_.sink_of(store).place);
    auto moments = generate_moments(around_, places(), stores, &why_not_);
    if (!moments) return left_to_the_general_kernel();
    take(std::move(moments->program));
    place(moments->grid);
    done_.insert(done_.end(), moments->stored.begin(), moments->stored.end());
}

void PassGenerator::correlate() {
    auto correlate = generate_grouped_gradient(around_, places());
    if (!correlate) correlate = generate_correlate(around_, places(), &why_not_);
    if (!correlate) correlate = generate_covariance(around_, places());
    if (!correlate) return left_to_the_general_kernel();
    take(std::move(correlate->program));
    place(correlate->grid);
}

void PassGenerator::pointwise() {
    std::vector<Place> stores;
    for (const Store& store : pass_.stores) stores.push_back(placement_.sink_of(store).place);
    auto loop = generate_loop(around_, places(), stores, &why_not_);
    if (!loop) return;
    result_.note = loop->note;
    result_.program.launches.push_back(std::move(*loop));
    for (const Store& store : pass_.stores) done_.push_back(store.value);
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

Program PassGenerator::with_packed_weights(DenseProgram tiles) {
    const ValueId weight = tiles.pack->root;
    const bool parameters = context_.parameters[static_cast<size_t>(weight)];
    result_.packed = {tiles.packed_bytes, context_.options.freeze && parameters, {}};
    if (parameters) {
        result_.packed->job = std::move(tiles.pack);
        return std::move(tiles.program);
    }
    PullRequest request = pull_request("pack");
    request.early = true;
    const ValueId root = view_root(context_.plan, weight);
    if (!is_literal(graph_, root)) request.places.emplace(root, placement_.place_of(root));
    request.extras.push_back(std::move(tiles.pack));
    Program program = pull(request);
    for (Launch& launch : tiles.program.launches) program.launches.push_back(std::move(launch));
    program.scratch_bytes = tiles.program.scratch_bytes, program.note = tiles.program.note;
    return program;
}

PassProgram generate_pass(const PassContext& context, size_t number, const std::string& config,
                          std::optional<Tiles> ahead) {
    return PassGenerator(context, number, config, std::move(ahead)).run();
}

}  // namespace transfuse::cuda
