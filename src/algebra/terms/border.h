// What outputs of a lattice meet of an input that is the same everywhere: borders and phases.
#pragma once

#include <optional>

#include "algebra/rewriter/rewriter.h"

namespace transfuse {

// The outputs of one axis, in classes that meet the same taps: `head` outputs and `tail` outputs of their own, and
// between them classes that return every `period`.
struct TapClasses {
    int64_t head = 0, period = 1, tail = 0, out = 1;
    std::vector<double> matrix;  // classes × taps: 1 where outputs of a class meet an input inside
    int64_t count() const { return head + period + tail; }
    bool single() const { return count() == 1; }
};
// None where there are many.
std::optional<TapClasses> tap_classes(const Lattice& axis);
std::optional<std::vector<TapClasses>> tap_classes(const Lattices& axes);

// Σ over the taps that the outputs of each class meet: v [N, C, K…] becomes [N, C, classes…].
ValueId by_class(Rewriter& r, ValueId v, const std::vector<TapClasses>& classes);
// What that is on every output: [N, C, O…], with extent 1 along axes of a single class. Of parameters alone.
ValueId on_outputs(Rewriter& r, ValueId u, const std::vector<TapClasses>& classes);
// The same for values that depend on inputs: element by element, u where its class lies.
ValueId chosen_on_outputs(Rewriter& r, ValueId u, const std::vector<TapClasses>& classes);
// lattice(x, w, bias) + u, u [1, C, classes…] of parameters: a bias where there is one class (w's lattice may be
// another than the one that u's classes are of). Of 16 bits what most outputs share is a bias, too, which is added
// before the one rounding; −1 where they share nothing.
ValueId biased_lattice(Rewriter& r, ValueId x, ValueId w, ValueId bias, const Lattices& axes, ValueId u,
                       const std::vector<TapClasses>& classes);

}  // namespace transfuse
