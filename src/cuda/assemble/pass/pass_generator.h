// Makes the launches of one pass: each family of kernels is asked whether it takes the pass, the general kernel makes
// what none does.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cuda/assemble/pass/pass_program.h"
#include "cuda/general/pull.h"
#include "cuda/sums/moments/moments.h"

namespace transfuse::cuda {

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

    PassProgram run();

private:
    // By kinds (pass_program.cpp).
    void dense() {
        if (ahead_ || !ordinary_arithmetic()) tensor_cores();
    }
    // Families that tiles_ahead has asked already. False where none takes the pass.
    bool ordinary_arithmetic();
    std::optional<GridProgram> ordinary_product();
    void tensor_cores();
    void take_tiles(Tiles tiles);
    void moments();
    void correlate();
    void pointwise();
    // What the pass stores beside, by the general kernel; behind the main one it is the pass's tail.
    void pull_rest();

    // A dense pass that no family takes whole, or none so fast: the product into memory, and what follows it behind
    // (pass_product.cpp).
    struct Product {
        Program program;
        double seconds = 0;      // an estimate; 0: there is none
        std::string parts = {};  // that are added up, in words
    };
    std::optional<Product> product_alone();
    std::optional<Product> product_by_a_family(const Pass& product);
    bool is_a_part(ValueId v) const;  // of a larger tensor, as it is stored
    Pass product_of_pass() const;
    // Parts of its sums (apart.h), and a launch that adds them up into memory, where that is estimated clearly
    // faster.
    std::optional<Product> product_in_parts(const Pass& product, double than);
    // What follows a product is more than a chain on each pixel (statistics, pools): parts of its sums,
    // and the general kernel for the rest, where both are clearly faster than tiles that make all of the pass.
    bool product_pays(double than);
    // What follows the product, as a loop that reads it from memory and holds whole rows; nothing where it is no loop.
    std::optional<Launch> loop_behind();
    void take_product(Product product);
    void take_product_and_loop(Product product, Launch loop);
    // Reductions of rows apart from the product. Where tiles could hold them as well, the estimates decide. False:
    // tiles do, or neither can.
    bool rows_apart(const Tiles& tiles);
    int64_t bytes_of(ValueId v) const {
        return numel(graph_[v].type.shape) * static_cast<int64_t>(bytes(graph_[v].type.dtype));
    }

    // What the general kernel may read.
    Places& places();
    PullRequest pull_request(std::string name) const;
    // Weights of parameters alone are packed beside all others; those an earlier pass made, right before they are used.
    Program with_packed_weights(DenseProgram tiles);
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
    bool in_parts_ = false;         // the main kernel leaves its sums so
    std::string why_not_;
    PassProgram result_;
};

}  // namespace transfuse::cuda
