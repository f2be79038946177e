// Dense passes in two: the product into memory, and what follows it by a loop of rows or by the general kernel.
#include <algorithm>

#include "cuda/assemble/figures.h"
#include "cuda/assemble/pass/pass_generator.h"
#include "cuda/dense/dense.h"
#include "cuda/dense/read/parts.h"
#include "cuda/loop/loop.h"
#include "cuda/plain/grouped/grouped.h"
#include "graph/has.h"

namespace transfuse::cuda {

// Of the same anchor. Offers for it refer to it until they are written.
struct PassGenerator::Part {
    Part(const PassContext& context, Pass steps, size_t number, const std::string& config)
        : pass(std::move(steps)),
          places(context.placement.places_of(pass)),
          around(surroundings_of(context, pass, number, config)) {}
    Part(const Part&) = delete;
    const Pass pass;
    const Places places;
    const Surroundings around;
};

std::optional<PassGenerator::Product> PassGenerator::product_alone() {
    const ValueId anchor = pass_.anchor;
    if (pass_.cost.flops < figures::assemble::worthwhile || is_a_part(anchor)) return std::nullopt;
    const bool added = placement_.add_buffer(anchor, number_);
    auto product = product_by_a_family(product_of_pass());
    if (!product && added) placement_.remove_buffer(anchor);
    return product;
}

std::optional<PassGenerator::Product> PassGenerator::product_by_a_family(const std::shared_ptr<const Part>& product) {
    const Surroundings& around = product->around;
    if (auto grouped = offer_grouped(around, product->places, placement_.sinks_of(product->pass)))
        return Product{0, "ordinary arithmetic for the product alone", "",
                       [this, product, grouped] { return with_packed(grouped->write()); }};
    const auto tiles = std::make_shared<Tiles>(offer_tiles(context_, around, false));
    if (!tiles->offer) return std::nullopt;
    const double seconds = tiles->offer->seconds;
    if (auto products = product_in_parts(product, seconds)) return products;
    return Product{seconds, "tensor-core kernel for the product alone", "",
                   [this, product, tiles] { return with_packed(tiles->offer->write(), tiles->taken); }};
}

bool PassGenerator::is_a_part(ValueId v) const {
    return std::any_of(pass_.stores.begin(), pass_.stores.end(),
                       [&](const Store& store) { return store.value == v && store.target != v; });
}

std::shared_ptr<const PassGenerator::Part> PassGenerator::product_of_pass() const {
    Pass product = pass_;
    std::erase_if(product.steps,
                  [&](const TileStep& step) { return step.scope != Scope::prologue && step.value != pass_.anchor; });
    product.stores = {{pass_.anchor, pass_.anchor, {}}};
    return std::make_shared<const Part>(context_, std::move(product), number_, around_.config);
}

std::optional<PassGenerator::Product> PassGenerator::product_in_parts(const std::shared_ptr<const Part>& product,
                                                                      double than) {
    if (!may_take_memory(context_, product->around)) return std::nullopt;
    const auto offer = offer_dense_in_parts(product->around, than);
    if (!offer) return std::nullopt;
    const auto write = [this, product, offer] {
        FamilyProgram products = offer->write();
        PullRequest gather = pull_request("gather");
        gather.early = true;
        gather.scratch_begin = static_cast<int64_t>(products.program.scratch_bytes);
        gather.places = product->places;
        for (auto& [value, place] : products.places) gather.places.insert_or_assign(value, place);
        gather.sinks = {placement_.sink_of(product->pass.stores[0])};
        Program program = with_packed(std::move(products)), sums = pull(gather);
        for (Launch& launch : sums.launches) program.launches.push_back(std::move(launch));
        program.scratch_bytes = std::max(program.scratch_bytes, sums.scratch_bytes);
        return program;
    };
    return Product{offer->seconds, "tensor-core kernel for " + offer->parts + ", added up to the product alone",
                   offer->parts, write};
}

bool PassGenerator::product_pays() {
    const ValueId anchor = pass_.anchor;
    if (chain_can_gather(around_) || is_a_part(anchor)) return false;
    const Machine& machine = context_.plan.machine;
    double moved = 0;
    for (const Store& store : pass_.stores)
        if (store.value != anchor) moved += static_cast<double>(bytes_of(store.value));
    for (const TileStep& step : pass_.steps)
        if (step.value != anchor && !is_pointwise(graph_[step.value].op))
            moved += static_cast<double>(bytes_of(graph_[step.value].args[0]));
    const double rest = 2 * moved / machine.bandwidth + 2 * machine.launch;
    const bool added = placement_.add_buffer(anchor, number_);
    if (auto product = product_in_parts(product_of_pass(), tiles_->offer->seconds - rest)) {
        why_not_ = "tensor cores would be idle";
        take_product(std::move(*product));
        return true;
    }
    if (added) placement_.remove_buffer(anchor);
    return false;
}

std::optional<Offer> PassGenerator::loop_behind() {
    Pass rest = pass_;
    rest.kind = PassKind::pointwise;
    std::erase_if(rest.steps,
                  [&](const TileStep& step) { return step.scope == Scope::prologue || step.value == pass_.anchor; });
    rest.reads = {pass_.anchor};
    for (const TileStep& step : rest.steps)
        for (ValueId a : graph_[step.value].args)
            if (has(pass_.reads, a) && !has(rest.reads, a)) rest.reads.push_back(a);
    const Places places = placement_.places_of(rest);
    std::vector<Place> stores;
    for (const Store& store : rest.stores) stores.push_back(placement_.sink_of(store).place);
    return offer_loop(surroundings_of(context_, rest, number_, ""), places, stores, nullptr);
}

void PassGenerator::take_product(Product product) {
    main_ = [this, product = std::move(product)] {
        result_.program = product.write();
        say(product.how + " (" + why_not_ + "), then the general kernel; ");
        places().insert_or_assign(pass_.anchor, placement_.place_of(pass_.anchor));
        done_.push_back(pass_.anchor);
    };
}

void PassGenerator::take_product_and_loop(Product product, Offer loop) {
    main_ = [this, product = std::move(product), loop = std::move(loop)] {
        result_.program = product.write();
        for (Launch& launch : loop.write().program.launches) result_.program.launches.push_back(std::move(launch));
        say(product.parts.empty() ? "the product alone, then a loop of rows; "
                                  : "tensor-core kernel for " + product.parts + ", added up, then a loop of rows; ");
        for (const Store& store : pass_.stores) done_.push_back(store.value);
    };
}

bool PassGenerator::rows_behind() {
    const bool buffer = !placement_.in_memory(pass_.anchor);
    auto product = product_alone();
    if (!product) return false;
    double moved = static_cast<double>(bytes_of(pass_.anchor));
    for (const Store& store : pass_.stores) moved += static_cast<double>(bytes_of(store.value));
    const Machine& machine = context_.plan.machine;
    const double seconds = product->seconds + moved / machine.bandwidth + machine.launch;
    const bool faster = !tiles_->offer || (product->seconds > 0 && seconds < tiles_->offer->seconds);
    auto loop = faster ? loop_behind() : std::nullopt;
    if (!loop) {
        if (buffer) placement_.remove_buffer(pass_.anchor);
        return false;
    }
    take_product_and_loop(std::move(*product), std::move(*loop));
    return true;
}

}  // namespace transfuse::cuda
