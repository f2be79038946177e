#include "cuda/pass_program.h"

#include <algorithm>
#include <string_view>

#include "cuda/around_product.h"
#include "cuda/cells.h"
#include "cuda/correlate.h"
#include "cuda/covariance.h"
#include "cuda/dense/apart.h"
#include "cuda/dense/dense.h"
#include "cuda/dense/frame.h"
#include "cuda/grouped.h"
#include "cuda/grouped_gradient.h"
#include "cuda/loop.h"
#include "cuda/moments.h"
#include "cuda/pull.h"
#include "cuda/thin.h"
#include "graph/has.h"
#include "plan/pass_name.h"

namespace transfuse::cuda {

namespace {

Surroundings surroundings_of(const PassContext& context, const Pass& pass, size_t number, const std::string& config) {
    return {context.plan,
            pass,
            context.placement.strides(),
            context.options.precision,
            context.target,
            context.aligned,
            config,
            static_cast<int>(number),
            context.known ? context.known->written() : nullptr,
            &context.parameters,
            context.frames && &pass == &context.plan.passes[number] ? context.frames->of(number) : nullptr};
}

// Whether other ways are open than the tiles' own, which take scratch memory: to the first size of a program, without a
// configuration that is asked for.
bool may_take_memory(const PassContext& context, const Surroundings& around) {
    const Target& target = context.target;
    return !context.options.lean && !target.any_size && around.config.empty();
}

// Where adding them up afterwards is estimated faster, the products of each tap; or all of them, of an input that is
// laid anew: for the first size of a program, by the heuristic's configuration, where tiles make all of the pass.
Tiles generate_tiles(const PassContext& context, const Surroundings& around, bool all_of_pass) {
    Tiles tiles;
    if (context.known) {
        tiles.dense = generate_dense_among(around, *context.known, tiles.taken.emplace(), &tiles.why_not);
        if (!tiles.dense || !tiles.taken->news) tiles.taken.reset();
    } else {
        tiles.dense = generate_dense(around, &tiles.why_not);
    }
    if (!tiles.dense || !all_of_pass || !may_take_memory(context, around)) return tiles;
    auto products = chain_can_gather(around) ? generate_dense_apart(around, tiles.dense->seconds) : std::nullopt;
    if (products)
        tiles.dense = std::move(products), tiles.apart = true, tiles.taken.reset();
    else if (auto relaid = context.target.stated() ? std::nullopt : generate_dense_relaid(around, tiles.dense->seconds))
        tiles.dense = std::move(relaid), tiles.taken.reset();
    return tiles;
}

class PassGenerator {
public:
    PassGenerator(const PassContext& context, size_t number, const std::string& config, std::optional<Tiles> ahead)
        : context_(context),
          graph_(context.plan.graph),
          pass_(context.plan.passes[number]),
          placement_(context.placement),
          number_(number),
          around_(surroundings_of(context, pass_, number, config)),
          ahead_(std::move(ahead)) {}

    PassProgram run() {
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

private:
    struct Product {
        Program program;
        double seconds = 0;     // an estimate; 0: there is none
        bool gathered = false;  // of products with their taps apart
    };

    // What the general kernel may read.
    Places& places() {
        if (places_) return *places_;
        places_ = placement_.places_of(pass_);
        // Copies of whole leaves read what they write under another name.
        for (const Store& store : pass_.stores)
            if (pass_.steps.empty() && store.value == store.target)
                if (const ValueId root = view_root(context_.plan, store.value); !is_literal(graph_, root))
                    places_->emplace(root, placement_.place_of(root));
        return *places_;
    }

    void dense() {
        if (ahead_ || !ordinary_arithmetic()) tensor_cores();
    }

    // Families that tiles_ahead has asked already. False where none takes the pass.
    bool ordinary_arithmetic() {
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

    void tensor_cores() {
        Tiles tiles = ahead_ ? std::move(*ahead_) : generate_tiles(context_, around_, true);
        if (reduces_rows(graph_, pass_) && !context_.target.stated() && rows_apart(tiles)) return;
        if (tiles.dense && !tiles.apart && product_pays(*tiles.dense)) return;
        if (tiles.dense) return take_tiles(std::move(tiles));
        why_not_ = std::move(tiles.why_not);
        if (auto product = product_alone()) {
            if (auto loop = loop_behind()) return take_product_and_loop(std::move(*product), std::move(*loop));
            return take_product(std::move(*product));
        }
        left_to_the_general_kernel();
    }

    std::optional<GridProgram> ordinary_product() {
        auto cells = generate_cells(around_, places(), placement_.tile_sinks(pass_));
        return cells ? std::move(cells) : generate_grouped(around_, places(), placement_.tile_sinks(pass_));
    }

    void take_tiles(Tiles tiles) {
        apart_ = tiles.apart;
        if (!apart_) tiles_are_done();
        place(tiles.dense->places);
        result_.config = std::move(tiles.dense->config);
        result_.taken = std::move(tiles.taken);
        const Words note = apart_ ? Words() : std::move(tiles.dense->pass_note);
        take(with_packed_weights(std::move(*tiles.dense)),
             apart_ ? "tensor-core kernel for the products of each tap; " : by_tensor_cores, note);
    }

    void take_product(Product product) {
        const std::string how = !result_.config    ? "ordinary arithmetic for the product alone"
                                : product.gathered ? "tensor-core kernel for the products of each tap, added up to"
                                                     " the product alone"
                                                   : "tensor-core kernel for the product alone";
        take(std::move(product.program), how + " (" + why_not_ + "), then the general kernel; ");
        places().insert_or_assign(pass_.anchor, placement_.place_of(pass_.anchor));
        done_.push_back(pass_.anchor);
    }

    void moments() {
        std::vector<std::pair<ValueId, Place>> stores;
        for (const Store& store : pass_.stores)
            if (store.value == store.target) stores.emplace_back(store.value, placement_.sink_of(store).place);
        auto moments = generate_moments(around_, places(), stores, &why_not_);
        if (!moments) return left_to_the_general_kernel();
        take(std::move(moments->program));
        place(moments->grid);
        done_.insert(done_.end(), moments->stored.begin(), moments->stored.end());
    }

    void correlate() {
        auto correlate = generate_grouped_gradient(around_, places());
        if (!correlate) correlate = generate_correlate(around_, places(), &why_not_);
        if (!correlate) correlate = generate_covariance(around_, places());
        if (!correlate) return left_to_the_general_kernel();
        take(std::move(correlate->program));
        place(correlate->grid);
    }

    void pointwise() {
        std::vector<Place> stores;
        for (const Store& store : pass_.stores) stores.push_back(placement_.sink_of(store).place);
        auto loop = generate_loop(around_, places(), stores, &why_not_);
        if (!loop) return;
        result_.note = loop->note;
        result_.program.launches.push_back(std::move(*loop));
        for (const Store& store : pass_.stores) done_.push_back(store.value);
    }

    // What the pass stores beside, by the general kernel; behind the main one it is the pass's tail.
    void pull_rest() {
        Program& program = result_.program;
        const bool tail = !program.launches.empty();
        PullRequest request = pull_request(std::string(pass_name(pass_.kind)) + (tail ? "_tail" : ""));
        request.early = tail;
        request.scratch_begin = static_cast<int64_t>(program.scratch_bytes);
        // Sums over space, what follows them and what prepares weights: small, and often differences of what is nearly
        // equal.
        request.exact = (tail && !apart_) || pass_.kind == PassKind::moments ||
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

    PullRequest pull_request(std::string name) const {
        PullRequest request{graph_, context_.parameters, {}, {}, context_.target, 0, std::move(name)};
        request.written = around_.written;
        return request;
    }

    // A dense pass that no family takes whole: the product alone, into memory.
    std::optional<Product> product_alone() {
        constexpr double worthwhile = 1e6;  // flops
        const ValueId anchor = pass_.anchor;
        if (pass_.cost.flops < worthwhile || is_a_part(anchor)) return std::nullopt;
        const bool added = placement_.add_buffer(anchor, number_);
        auto product = context_.target.attempt([&] { return product_by_a_family(product_of_pass()); });
        if (!product && added) placement_.remove_buffer(anchor);
        return product;
    }

    std::optional<Product> product_by_a_family(const Pass& product) {
        const Surroundings around = surroundings_of(context_, product, number_, around_.config);
        if (auto grouped = generate_grouped(around, placement_.places_of(product), placement_.sinks_of(product)))
            return Product{std::move(grouped->program)};
        if (Tiles tiles = generate_tiles(context_, around, false); tiles.dense) {
            if (auto apart = product_apart(product, tiles.dense->seconds)) return apart;
            result_.config = std::move(tiles.dense->config);
            result_.taken = std::move(tiles.taken);
            const double seconds = tiles.dense->seconds;
            return Product{with_packed_weights(std::move(*tiles.dense)), seconds};
        }
        return std::nullopt;
    }

    bool is_a_part(ValueId v) const {  // of a larger tensor, as it is stored
        return std::any_of(pass_.stores.begin(), pass_.stores.end(),
                           [&](const Store& store) { return store.value == v && store.target != v; });
    }

    Pass product_of_pass() const {
        Pass product = pass_;
        std::erase_if(product.steps, [&](const TileStep& step) {
            return step.scope != Scope::prologue && step.value != pass_.anchor;
        });
        product.stores = {{pass_.anchor, pass_.anchor, {}}};
        return product;
    }

    // The product by its taps apart, and a launch that adds them up into memory, where that is estimated clearly
    // faster.
    std::optional<Product> product_apart(const Pass& product, double than) {
        const Surroundings around = surroundings_of(context_, product, number_, around_.config);
        if (!may_take_memory(context_, around)) return std::nullopt;
        auto apart = generate_dense_apart(around, than);
        if (!apart) return std::nullopt;
        PullRequest gather = pull_request("gather");
        gather.early = true;
        gather.scratch_begin = static_cast<int64_t>(apart->program.scratch_bytes);
        gather.places = placement_.places_of(product);
        for (auto& [value, place] : apart->places) gather.places.insert_or_assign(value, place);
        gather.sinks = {placement_.sink_of(product.stores[0])};
        result_.config = std::move(apart->config);
        const double seconds = apart->seconds;
        Program program = with_packed_weights(std::move(*apart)), sums = pull(gather);
        for (Launch& launch : sums.launches) program.launches.push_back(std::move(launch));
        program.scratch_bytes = std::max(program.scratch_bytes, sums.scratch_bytes);
        return Product{std::move(program), seconds, true};
    }

    // What follows a product is more than a chain on each pixel (statistics, pools): the product with its taps apart,
    // and the general kernel for the rest, where both are clearly faster than tiles that make all of the pass.
    bool product_pays(const DenseProgram& tiles) {
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
        if (auto product = product_apart(product_of_pass(), tiles.seconds - rest)) {
            why_not_ = "most rows of its products would be empty";
            take_product(std::move(*product));
            return true;
        }
        if (added) placement_.remove_buffer(anchor);
        return false;
    }

    // What follows the product, as a loop that reads it from memory and holds whole rows; nothing where it is no loop.
    std::optional<Launch> loop_behind() {
        Pass rest = pass_;
        rest.kind = PassKind::pointwise;
        std::erase_if(rest.steps, [&](const TileStep& step) {
            return step.scope == Scope::prologue || step.value == pass_.anchor;
        });
        rest.reads = {pass_.anchor};
        for (const TileStep& step : rest.steps)
            for (ValueId a : graph_[step.value].args)
                if (has(pass_.reads, a) && !has(rest.reads, a)) rest.reads.push_back(a);
        Places places = placement_.places_of(rest);
        std::vector<Place> stores;
        for (const Store& store : rest.stores) stores.push_back(placement_.sink_of(store).place);
        return generate_loop(surroundings_of(context_, rest, number_, ""), places, stores, nullptr);
    }

    void take_product_and_loop(Product product, Launch loop) {
        product.program.launches.push_back(std::move(loop));
        take(std::move(product.program),
             product.gathered ? "tensor-core kernel for the products of each tap, added up, then a loop of rows; "
                              : "the product alone, then a loop of rows; ");
        for (const Store& store : pass_.stores) done_.push_back(store.value);
    }

    // Reductions of rows apart from the product. Where tiles could hold them as well, the estimates decide. False:
    // tiles do, or neither can.
    bool rows_apart(const Tiles& tiles) {
        const bool buffer = !placement_.in_memory(pass_.anchor);
        auto product = product_alone();
        if (!product) return false;
        double moved = static_cast<double>(bytes_of(pass_.anchor));
        for (const Store& store : pass_.stores) moved += static_cast<double>(bytes_of(store.value));
        const Machine& machine = context_.plan.machine;
        const double seconds = product->seconds + moved / machine.bandwidth + machine.launch;
        const bool faster = !tiles.dense || (product->seconds > 0 && seconds < tiles.dense->seconds);
        auto loop = faster ? loop_behind() : std::nullopt;
        if (!loop) {
            if (buffer) placement_.remove_buffer(pass_.anchor);
            result_.config.reset(), result_.taken.reset(), result_.packed.reset();
            return false;
        }
        take_product_and_loop(std::move(*product), std::move(*loop));
        return true;
    }

    int64_t bytes_of(ValueId v) const {
        return numel(graph_[v].type.shape) * static_cast<int64_t>(bytes(graph_[v].type.dtype));
    }

    // Weights of parameters alone are packed beside all others; those an earlier pass made, right before they are used.
    Program with_packed_weights(DenseProgram tiles) {
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

    // note: what both say together, where it is known.
    void take(Program program, std::string_view how = "", Words note = {}) {
        result_.program = std::move(program);
        result_.note = note.empty() ? Words(std::string(how) + result_.program.note.str()) : std::move(note);
    }
    void place(Places& left) {
        for (auto& [value, place] : left) places().insert_or_assign(value, std::move(place));
    }
    void tiles_are_done() {
        for (const TileStep& step : pass_.steps)
            if (step.scope == Scope::tile || step.scope == Scope::prologue) done_.push_back(step.value);
    }
    void left_to_the_general_kernel() { result_.note = "general kernel: " + why_not_; }

    const PassContext& context_;
    const Graph& graph_;
    const Pass& pass_;
    Placement& placement_;
    const size_t number_;
    const Surroundings around_;
    std::optional<Tiles> ahead_;
    std::optional<Places> places_;  // once they are asked for: most dense passes leave nothing to the general kernel
    Few<ValueId, 8> done_;          // stored by the main kernel already
    bool apart_ = false;            // the main kernel leaves the products of each tap
    std::string why_not_;
    PassProgram result_;
};

}  // namespace

PassProgram generate_pass(const PassContext& context, size_t number, const std::string& config,
                          std::optional<Tiles> ahead) {
    return PassGenerator(context, number, config, std::move(ahead)).run();
}

bool takes_tiles(const PassContext& context, size_t number, const std::string& config) {
    return context.plan.passes[number].kind == PassKind::dense && !context.target.general_only &&
           config != no_dense_config;
}

std::optional<Tiles> tiles_ahead(const PassContext& context, size_t number, const std::string& config) try {
    const Pass& pass = context.plan.passes[number];
    const Surroundings around = surroundings_of(context, pass, number, config);
    if (!ordinary_arithmetic_may_take(around)) return generate_tiles(context, around, true);
    const Places places = context.placement.places_of(pass);
    if (generate_thin(around, places, context.placement.sinks_of(pass))) return std::nullopt;
    const std::vector<Sink> sinks = context.placement.tile_sinks(pass);
    if (generate_cells(around, places, sinks) || generate_grouped(around, places, sinks)) return std::nullopt;
    return generate_tiles(context, around, true);
} catch (const std::exception&) {
    return std::nullopt;
}

}  // namespace transfuse::cuda
