#include "cuda/loop/loop.h"

#include <algorithm>

#include "cuda/general/pull/pull.h"
#include "plan/fusion.h"

namespace transfuse::cuda {

namespace {

// Strides of a value of shape `shape` along the axes of the domain, 0 where it is broadcast; nullopt where it does not
// broadcast to it.
std::optional<Sizes> spread(const Sizes& shape, const Sizes& strides, const Sizes& domain) {
    if (shape.size() > domain.size()) return std::nullopt;
    Sizes result(domain.size(), 0);
    const size_t skip = domain.size() - shape.size();
    for (size_t a = 0; a < shape.size(); ++a) {
        if (shape[a] == 1) continue;
        if (shape[a] != domain[a + skip]) return std::nullopt;
        result[a + skip] = strides[a];
    }
    return result;
}

class Reader {
public:
    Reader(const Surroundings& around, const Places& places, const std::vector<Place>& stores, std::string* why_not)
        : around_(around),
          graph_(around.plan.graph),
          pass_(around.pass),
          places_(places),
          store_places_(stores),
          why_not_(why_not) {}

    std::optional<Loop> run() {
        if (pass_.kind != PassKind::pointwise || pass_.anchor < 0) return no("not a loop");
        domain_ = graph_[pass_.anchor].type.shape;
        if (numel(domain_) == 0) return no("an empty tensor");
        in_row_.assign(domain_.size(), false);
        return read_steps() && read_operands() && read_stores() && walk() ? std::optional(std::move(loop_))
                                                                          : std::nullopt;
    }

private:
    std::nullopt_t no(std::string sentence) const {
        if (why_not_) *why_not_ = std::move(sentence);
        return std::nullopt;
    }
    bool refuse(std::string sentence) const { return no(std::move(sentence)), false; }

    bool read_steps() {
        for (const TileStep& step : pass_.steps) {
            const Node& node = graph_[step.value];
            if (step.scope != Scope::tile) return refuse("a reduction across rows, or a tail");
            if (is_reduction(node.op)) {
                const Sizes& dims = node.attributes.integers(Key::dims);
                if (!node.attributes.flag(Key::keepdim) || graph_[node.args[0]].type.shape.size() != domain_.size())
                    return refuse("a row reduction that drops axes");
                std::vector<bool> row(domain_.size(), false);
                for (int64_t axis : dims) {
                    row[static_cast<size_t>(axis)] = true;
                    if (graph_[node.args[0]].type.shape[static_cast<size_t>(axis)] !=
                        domain_[static_cast<size_t>(axis)])
                        return refuse("a row reduction of what is broadcast along the row");
                }
                if (loop_.reduces && row != in_row_) return refuse("reductions of unlike rows");
                loop_.reduces = true;
                in_row_ = row;
            } else if (!is_pointwise(node.op)) {
                return refuse(std::string(name(node.op)) + " in a loop");
            }
            loop_.steps.push_back(step.value);
        }
        return true;
    }

    bool read_operands() {
        for (ValueId read : pass_.reads) {
            const ValueId root = view_root(around_.plan, read);
            const auto at = places_.find(root);
            if (at == places_.end() || at->second.partials) return refuse("an operand that does not lie in memory");
            LoopTensor tensor;
            tensor.value = read;
            tensor.place = at->second;
            const StridedView view = view_strides(around_.plan, read, at->second.strides);
            const auto strides = spread(graph_[read].type.shape, view.strides, domain_);
            if (!strides) return refuse("an operand that does not broadcast to the loop");
            tensor.place.base.offset += view.offset * bytes(at->second.storage);
            if (tensor.place.base.offset % 16 != 0) tensor.place.aligned = false;
            tensor.strides = *strides;
            loop_.reads.push_back(std::move(tensor));
        }
        return true;
    }

    // A store is of the whole domain, or of one value a row.
    bool read_stores() {
        for (size_t i = 0; i < pass_.stores.size(); ++i) {
            const Store& store = pass_.stores[i];
            const Sizes& shape = graph_[store.value].type.shape;
            LoopTensor tensor;
            tensor.value = store.value;
            tensor.place = store_places_[i];
            Sizes strides = tensor.place.strides;
            const Sizes& target = graph_[store.target].type.shape;
            if (store.start.empty() && target != shape) {
                if (strides != contiguous_strides(target)) return refuse("a store reshaped into strided memory");
                strides = contiguous_strides(shape);
            }
            if (shape.size() != domain_.size()) return refuse("a store of another rank than the loop");
            bool whole = true, row = loop_.reduces;
            for (size_t a = 0; a < shape.size(); ++a) {
                whole = whole && shape[a] == domain_[a];
                row = row && shape[a] == (in_row_[a] ? 1 : domain_[a]);
            }
            if (!whole && !row) return refuse("a store of neither the domain nor a value a row");
            tensor.strides = *spread(shape, strides, domain_);
            loop_.stores.push_back(std::move(tensor));
        }
        return !loop_.stores.empty() || refuse("nothing is stored");
    }

    // Axes in the order of memory of the first whole tensor; the row last; neighbours that are one in every tensor
    // merged.
    bool walk() {
        const LoopTensor* guide = &loop_.stores[0];
        auto touched = [](const LoopTensor& t) {
            return t.strides.size() - static_cast<size_t>(std::count(t.strides.begin(), t.strides.end(), 0));
        };
        for (const auto* list : {&loop_.stores, &loop_.reads})
            for (const LoopTensor& t : *list)
                if (touched(t) > touched(*guide)) guide = &t;
        std::vector<size_t> axes;
        for (const bool row : {false, true})
            for (size_t a : memory_order(domain_, guide->strides))
                if (domain_[a] > 1 && in_row_[a] == row) axes.push_back(a);
        std::vector<LoopTensor*> tensors;
        for (auto* list : {&loop_.reads, &loop_.stores})
            for (LoopTensor& t : *list) tensors.push_back(&t);
        Sizes extents;
        std::vector<bool> row;
        std::vector<Sizes> strides(tensors.size());
        for (size_t a : axes) {
            bool merges = !extents.empty() && row.back() == in_row_[a];
            for (size_t i = 0; i < tensors.size() && merges; ++i)
                merges = strides[i].back() == tensors[i]->strides[a] * domain_[a];
            if (merges) {
                extents.back() *= domain_[a];
                for (size_t i = 0; i < tensors.size(); ++i) strides[i].back() = tensors[i]->strides[a];
                continue;
            }
            extents.push_back(domain_[a]);
            row.push_back(in_row_[a]);
            for (size_t i = 0; i < tensors.size(); ++i) strides[i].push_back(tensors[i]->strides[a]);
        }
        if (std::count(row.begin(), row.end(), true) > 1) return refuse("rows that are not one run of memory");
        // A row of one element, or a domain of one.
        if (extents.empty() || (loop_.reduces && !row.back())) {
            extents.push_back(1);
            for (Sizes& s : strides) s.push_back(0);
        }
        for (size_t i = 0; i < tensors.size(); ++i) tensors[i]->strides = strides[i];
        loop_.row = extents.back();
        extents.pop_back();
        loop_.outer = extents;
        return true;
    }

    const Surroundings& around_;
    const Graph& graph_;
    const Pass& pass_;
    const Places& places_;
    const std::vector<Place>& store_places_;
    std::string* why_not_;
    Sizes domain_;
    std::vector<bool> in_row_;
    Loop loop_;
};

}  // namespace

std::optional<Loop> read_loop(const Surroundings& around, const Places& places, const std::vector<Place>& stores,
                              std::string* why_not) {
    return Reader(around, places, stores, why_not).run();
}

}  // namespace transfuse::cuda
