// Makes the launches of one pass. Families of kernels are asked for offers, one of which is chosen; then it is written,
// once. The general kernel makes what no family takes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cuda/assemble/pass/pass_program.h"
#include "cuda/assemble/pass/pass_tiles.h"
#include "cuda/general/offer.h"

namespace transfuse::cuda {

class PassGenerator {
public:
    // config: the dense configuration to take instead of the heuristic's; empty: none.
    PassGenerator(const PassContext& context, size_t number, const std::string& config)
        : context_(context),
          graph_(context.plan.graph),
          pass_(context.plan.passes[number]),
          placement_(context.placement),
          number_(number),
          around_(surroundings_of(context, pass_, number, config)) {}
    PassGenerator(const PassGenerator&) = delete;  // offers refer to it

    // Called once each, in this order. Passes depend on one another in `settle` alone, which may want a buffer more:
    // it is called pass by pass, the others by several threads where they take long.
    void ask();
    void settle();
    PassProgram write();

private:
    // By kinds (pass_generator.cpp).
    bool ordinary_arithmetic();  // false where none of its families takes the pass
    void moments();
    void correlate();
    void pointwise();
    void settle_tiles();

    // Which of the pass's values the main kernels store.
    enum class Does : uint8_t { stored, tiles, all };
    void take(Offer offer, std::string how, Does does);
    void take_tiles();
    // What the pass stores beside, by the general kernel; behind the main one it is the pass's tail.
    void pull_rest();

    // A dense pass that no family takes whole, or none so fast: the product into memory, and what follows it behind
    // (pass_product.cpp).
    struct Part;  // a pass of some of the steps
    struct Product {
        double seconds = 0;  // an estimate; 0: there is none
        std::string how;
        std::string parts;               // that are added up, in words
        std::function<Program()> write;  // also what it takes goes to the result
    };
    std::optional<Product> product_alone();
    std::optional<Product> product_by_a_family(const std::shared_ptr<const Part>& product);
    bool is_a_part(ValueId v) const;  // of a larger tensor, as it is stored
    std::shared_ptr<const Part> product_of_pass() const;
    // Parts of its sums (parts.h), and a launch that adds them up into memory, where that is estimated clearly faster.
    std::optional<Product> product_in_parts(const std::shared_ptr<const Part>& product, double than);
    // What follows a product is more than a chain on each pixel (statistics, pools): parts of its sums,
    // and the general kernel for the rest, where both are clearly faster than tiles that make all of the pass.
    bool product_pays();
    // What follows the product, as a loop that reads it from memory and holds whole rows; nothing where it is no loop.
    std::optional<Offer> loop_behind();
    void take_product(Product product);
    void take_product_and_loop(Product product, Offer loop);
    // Reductions of rows apart from the product. Where tiles could hold them as well, the estimates decide. False:
    // tiles do, or neither can.
    bool rows_behind();
    int64_t bytes_of(ValueId v) const {
        return numel(graph_[v].type.shape) * static_cast<int64_t>(bytes(graph_[v].type.dtype));
    }

    // What the general kernel may read.
    Places& places();
    PullRequest pull_request(std::string name) const;
    // What weights of parameters alone are packed with goes beside all others; those an earlier pass made are packed
    // right before they are used. taken: what the offer told, where known kernels were asked.
    Program with_packed(FamilyProgram made, const std::shared_ptr<Taken>& taken = nullptr);
    void say(std::string_view how) { result_.note = Words(std::string(how) + result_.program.note.str()); }
    void left_to_the_general_kernel() { result_.note = "general kernel: " + why_not_; }

    const PassContext& context_;
    const Graph& graph_;
    const Pass& pass_;
    Placement& placement_;
    const size_t number_;
    const Surroundings around_;
    std::optional<Tiles> tiles_;    // once they were asked
    std::optional<Places> places_;  // once they are asked for: most dense passes leave nothing to the general kernel
    std::function<void()> main_;    // writes what was chosen; none: the general kernel takes the pass
    Few<ValueId, 8> done_;          // stored by the main kernels already
    bool in_parts_ = false;         // they leave sums so
    std::string why_not_;
    PassProgram result_;
};

}  // namespace transfuse::cuda
