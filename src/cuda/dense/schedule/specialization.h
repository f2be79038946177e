// What a kernel's text asks of sizes beside its configuration. A text that asks little serves many sizes.
#pragma once

#include <optional>
#include <string>

#include "cuda/dense/schedule/schedule.h"
#include "transfuse/engine.h"

namespace transfuse::cuda {

struct Specialization {
    LoadMode load = LoadMode::planar;  // boxes and rows want rows of whole 16 bytes
    int vector = 1;                    // outputs along w a store thread takes at once: divides every row
    Arithmetic arithmetic = Arithmetic::tf32;
    bool any_size = false;  // tiles do not rely on the width
    bool operator==(const Specialization&) const = default;
};
std::string to_string(const Specialization& specialization);
std::optional<Specialization> specialization_named(const std::string& text);  // the inverse; nullopt for anything else

// Whether a text of this specialization is right for a size that would itself be given `own`.
bool serves(const Specialization& specialization, const Specialization& own, const Lattice& along_w,
            Fp32Precision precision);
// The least demanding specialization for the sizes that a lattice along w may have.
Specialization loosest(Specialization own, const Lattice& along_w);

}  // namespace transfuse::cuda
