#include "cuda/memory/buffer_layout.h"

#include <algorithm>
#include <utility>

#include "graph/has.h"

namespace transfuse::cuda {

namespace {

// Channels fill vectors of 16 bytes and rows of pixels do not: these would come and go element by element.
bool fits(const Type& type) {
    const int64_t vector = 16 / bytes(type.dtype);
    return type.shape.size() >= 3 && vector >= 4 && type.shape[1] >= fewest_boxed_channels &&
           type.shape[1] % vector == 0 && type.shape.back() > 1 && type.shape.back() % vector != 0;
}

class Reader {
public:
    explicit Reader(const Plan& plan) : plan_(plan), graph_(plan.graph), last_(static_cast<size_t>(graph_.size())) {
        for (const Pass& pass : plan.passes)
            for (const Store& store : pass.stores)
                last_[static_cast<size_t>(store.target)] = fits(graph_[store.target].type);
        for (const Pass& pass : plan.passes) {
            for (const Store& store : pass.stores)
                if (!leaves_in_boxes(pass, store)) last_[static_cast<size_t>(store.target)] = false;
            for (ValueId read : pass.reads)
                if (!is_convolved(pass, read)) last_[static_cast<size_t>(view_root(plan, read))] = false;
        }
        for (ValueId v : graph_.outputs()) last_[static_cast<size_t>(v)] = false;
    }
    std::vector<bool> found() && { return std::move(last_); }

private:
    bool is_tensor(ValueId v) const {  // varies along an image
        const Sizes& shape = graph_[v].type.shape;
        return std::any_of(shape.begin() + std::min<ptrdiff_t>(2, std::ssize(shape)), shape.end(),
                           [](int64_t extent) { return extent > 1; });
    }

    // Nothing but the tile itself, and no sums over it: what else varies along the image lies otherwise.
    bool leaves_in_boxes(const Pass& pass, const Store& store) const {
        if (pass.kind != PassKind::dense || pass.stores.size() != 1 || store.value != store.target) return false;
        if (graph_[pass.anchor].type.shape != graph_[store.target].type.shape) return false;
        for (const TileStep& step : pass.steps) {
            if (step.scope == Scope::grid || step.scope == Scope::tail) return false;
            if (step.scope != Scope::tile || step.value == pass.anchor) continue;
            for (ValueId a : graph_[step.value].args)
                if (has(pass.reads, a) && is_tensor(a)) return false;
        }
        return graph_[graph_[pass.anchor].args[1]].type.shape[0] == 1;  // groups
    }

    // The input of a dense pass, and nothing besides.
    bool is_convolved(const Pass& pass, ValueId read) const {
        if (pass.kind != PassKind::dense || view_root(plan_, read) != read) return false;
        const Node& anchor = graph_[pass.anchor];
        if (graph_[anchor.args[1]].type.shape[0] != 1) return false;
        for (size_t k = 1; k < anchor.args.size(); ++k)
            if (anchor.args[k] == read) return false;
        bool prologue = false;
        for (const TileStep& step : pass.steps) {
            if (step.value == pass.anchor || !has(graph_[step.value].args, read)) continue;
            if (step.scope != Scope::prologue) return false;
            prologue = true;
        }
        return anchor.args[0] == read || (prologue && bytes(graph_[read].type.dtype) == 4 &&
                                          graph_[read].type.shape == graph_[anchor.args[0]].type.shape);
    }

    const Plan& plan_;
    const Graph& graph_;
    std::vector<bool> last_;
};

}  // namespace

std::vector<bool> channels_last_buffers(const Plan& plan) { return Reader(plan).found(); }

}  // namespace transfuse::cuda
