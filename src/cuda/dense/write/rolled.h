// Which products of a dense kernel's text are written once for several slabs of weights, or several variants: beyond a
// hundred or so what is written out takes its time to compile, and the compiler leaves it in a function of its own,
// where products wait for one another.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "cuda/dense/schedule/schedule.h"

namespace transfuse::cuda {

// So many products that slabs alike share their text, the places of their windows in a table.
bool rolls_slabs(const Config& config, const Schedule& s, int terms);

// What a slab's products are, but for the places of their windows. [begin, end): its tiles.
std::vector<std::array<int, 3>> shape_of(const std::vector<WindowStep>& steps, int begin, int end);

// For each variant the first one like it, whose text it takes, with places from the table: itself, where products are
// not so many. A phase of a large stride differs from the next in little but its windows.
std::vector<int> rolled_variants(const Config& config, const Schedule& s, int terms);
// How far a variant's windows lie from those of the one before, where variants differ in nothing else.
std::optional<int64_t> shift_of_variants(const Schedule& s);
bool none_rolled(const std::vector<int>& rolled_as);  // each is itself

}  // namespace transfuse::cuda
