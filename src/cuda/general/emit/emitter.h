// Turns values of a graph into device code that evaluates them at one index by pulling their operands: producers are
// inlined, shape ops become index arithmetic, everything that sums or compares over many operand elements becomes a
// fold.
#pragma once

#include <functional>
#include <optional>
#include <unordered_map>

#include "cuda/kernel/expression.h"
#include "cuda/kernel/text.h"
#include "transfuse/lattice.h"

namespace transfuse::cuda {

// A grid value as a kernel leaves it: fixed slots, added up in order by whoever reads it. What lies in a slot follows
// from the op: sum, mean, box_sums, correlate: the sum; amax, amin: the extremum; logsumexp: (pivot, Σ exp(x - pivot));
// var: (Σ (x - p), Σ (x - p)²) for one p, or as `moments` says.
struct Partials {
    int64_t slots = 1, slot_stride = 0;  // in elements
    int64_t component_stride = 1;
    bool shifted = false;  // sum, mean: the slots are a var's, Σ (x - p) with p the first element of each sum
    bool moments = false;  // var: a slot is the number of its elements, their mean, and their squares about it
};

// Where a value can be loaded from.
struct Place {
    Argument base;
    DType storage = DType::f32;
    Sizes strides;          // in elements, per axis
    bool read_only = true;  // false: written earlier by the same kernel
    bool aligned = false;   // the address is a multiple of 16 bytes
    std::optional<Partials> partials;
    // A convolution in parts: by what its taps make of its inputs, [N, Cout·taps, in…], channel by channel, and by
    // slices of its input channels, [N, groups, slices, …]; whoever reads an output adds up the products that meet in
    // it. Empty: the value itself.
    Lattices col2im = {};
    int64_t slices = 1;
    bool in_parts() const { return !col2im.empty(); }
};
using Places = std::unordered_map<ValueId, Place>;

// A coordinate: a text, or with `vector` the texts text + 0 … text + V-1, one a lane; text is then a multiple of V.
struct Coordinate {
    std::string text;
    bool vector = false;
};
using Index = std::vector<Coordinate>;

// Texts of one value (uniform over the lanes) or of one for each lane, and the type they have.
struct Lanes {
    std::vector<std::string> text;
    std::vector<std::string> second;  // the second component of what is already folded (logsumexp, var)
    Real real = Real::f32;
    std::vector<std::string> pivot = {},
                             inverse = {};  // of a logsumexp: exp(x - text) is exp(x - pivot)·inverse (shares.h)
    // Of moments: `text` their number, `second` a pivot; here Σ (x - pivot), which may be "0", and Σ (x - pivot)².
    std::vector<std::string> further = {};
    const std::string& operator[](size_t lane) const { return text.size() == 1 ? text[0] : text[lane]; }
};

// How a value is folded from many terms.
struct Fold {
    enum class Combine : uint8_t { sum, max, min, logsumexp, var, moments } combine = Combine::sum;
    struct Loop {
        int64_t count;
        bool dynamic;
        bool always = false;  // a loop even where it runs once
        bool once() const { return count == 1 && !always; }
    };
    std::vector<Loop> loops;
    bool innermost_is_vector = false;  // the last loop runs over a contiguous axis of the operand: may step by V
    // Emits the code of one term, inside whatever conditions it needs, and hands it to `take`.
    std::function<void(const std::vector<Coordinate>& loop, const std::function<void(const Lanes&)>& take)> term;
    // The result, from the combined accumulator.
    std::function<Lanes(const Lanes& folded)> finish;
    int64_t trips() const;
};
Fold::Combine combine_of(Op reduction);

class Emitter {
public:
    Emitter(const Graph& graph, const std::vector<bool>& parameter_values, const Places& places, Parameters& parameters,
            Body& body, std::string& tables, bool wide_real, int vector);

    Lanes value(ValueId id, const Index& index);
    // From here on what is loaded is widened to double, and so is all that is made of it.
    void widen() { widens_ = true; }
    // What value(id, index) shall answer in this scope.
    void remember(ValueId id, const Index& index, const Lanes& lanes);
    // The index at which evaluating `from` pulls `to`, through pointwise and shape ops; nullopt where it does not.
    std::optional<Index> walk(ValueId from, const Index& index, ValueId to);
    // How far apart neighbours along each axis of a value lie in the tensor that it is, element by element.
    std::optional<Sizes> strides_in_memory(ValueId id) const;
    // The value as a fold; nullopt where it is none (pointwise, shape).
    std::optional<Fold> fold(ValueId id, const Index& index);

    // Accumulators of a fold, as generated variables.
    struct Accumulator {
        Fold::Combine combine;
        Real real;
        std::vector<std::vector<std::string>> names;  // [lane][component]
    };
    Accumulator declare(Fold::Combine combine, bool wide, size_t lanes);
    void accumulate(const Accumulator& accumulator, const Lanes& term);
    void accumulate_across(const Accumulator& accumulator, const Lanes& term);  // all lanes of the term into one
    Lanes folded(const Accumulator& accumulator);
    static int components(Fold::Combine combine);
    static std::string_view combine_code();  // device functions the accumulators call

    void open(std::string_view head) { open({head}); }
    void open(Body::Pieces head);
    void close();
    bool dynamic(ValueId id, size_t axis) const;
    std::string extent(ValueId id, size_t axis);
    Parameters& parameters() { return parameters_; }
    Body& body() { return body_; }
    std::string table(const std::vector<double>& values, Real real);
    std::string integer_table(const std::vector<int64_t>& values);
    // Names a value.
    std::string let(std::string_view type, std::string_view text, std::string_view prefix) {
        return let(type, {text}, prefix);
    }
    std::string let(std::string_view type, Body::Pieces text, std::string_view prefix);
    Coordinate let_index(const std::string& text);

private:
    std::string memo_key(ValueId id, const Index& index) const;
    Lanes compute(ValueId id, const Index& index);
    std::string constant(double value, Real real) {
        return parameters_.any_size() ? parameters_.real(value, real == Real::f64) : literal(value, real);
    }
    Lanes load(ValueId id, const Place& place, const Index& index);
    Lanes pointwise(const Node& node, const Index& index);
    std::optional<Lanes> share(const Node& node, const Index& index);
    Lanes serial(const Fold& fold, bool wide, size_t lanes);
    Lanes per_lane(ValueId id, const Index& index);
    Index broadcast(ValueId operand, const Index& index, size_t rank) const;
    std::optional<std::pair<ValueId, Index>> remap(ValueId id,
                                                   const Index& index);  // views: where the element comes from
    std::optional<Index> reshaped(const Sizes& from, const Sizes& to, ValueId id, const Index& index);
    Lanes choose(size_t lanes, Real real, const std::string& otherwise,
                 const std::vector<std::pair<std::string, std::function<Lanes()>>>& cases);
    Lanes concat(ValueId id, const Index& index);
    Lanes pad(ValueId id, const Index& index);
    Lanes taps(ValueId id, const Index& index);
    Lanes unrolled_taps(ValueId id, const Index& index);

    std::optional<Fold> fold_of(ValueId id, const Index& index);  // by the op alone, wherever the value lies
    std::optional<Fold> partial_fold(ValueId id, const Place& place, const Index& index);
    Fold fold_of_parts(ValueId id, const Place& place, const Index& index);
    Fold reduction_fold(ValueId id, const Index& index);
    Coordinate met(const Lattice& axis, const Coordinate& o, const Coordinate& k, const std::string& extent,
                   std::string& inside);
    void take_product(ValueId x, const Index& at_x, ValueId y, const Index& at_y, const std::string& inside,
                      const std::function<void(const Lanes&)>& take);
    Fold lattice_fold(ValueId id, const Index& index);
    Fold correlate_fold(ValueId id, const Index& index);
    Fold pool_fold(ValueId id, const Index& index);
    Fold adaptive_fold(ValueId id, const Index& index);
    Fold pool_grad_fold(ValueId id, const Index& index);
    Fold interpolation_fold(ValueId id, const Index& index);
    Fold interpolation_grad_fold(ValueId id, const Index& index);
    Fold box_sums_fold(ValueId id, const Index& index);
    Fold box_spread_fold(ValueId id, const Index& index);
    Fold taps_fold(ValueId id, const Index& index);
    Lanes in_type_of(ValueId id, const Lanes& folded);
    Lanes finish_reduction(ValueId id, const Lanes& folded, int64_t count, bool dynamic_count);
    Lanes first_element(ValueId id, const Index& index);  // of those a reduction sums
    bool has_vector(const Index& index) const;
    bool transparent(ValueId id, const Index& index) const;

    const Graph& graph_;
    const std::vector<bool>& parameter_values_;
    const Places& places_;
    Parameters& parameters_;
    Body& body_;
    std::string& tables_;
    bool wide_, widens_ = false;
    int vector_;
    std::vector<std::unordered_map<std::string, Lanes>> memo_{1};
};

}  // namespace transfuse::cuda
