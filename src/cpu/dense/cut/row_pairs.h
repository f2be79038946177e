// Two neighbouring rows of a convolution at once, from fewer products than one by one (Toom and Cook; Winograd).
//
// With taps g0 g1 g2 at neighbouring inputs x0 x1 x2 x3, the outputs y = Σ_j g_j·x_j and y' = Σ_j g_j·x_{j+1} take four
// products instead of six:
//
//     first    P = (x0 − x2)·g0           both      S = (x1 + x2)·(g0 + g1 + g2)/2
//     second   Q = (x1 − x3)·g2           opposite  D = (x2 − x1)·(g0 − g1 + g2)/2
//
//     y = P + S + D        y' = S − D − Q
//
// Two taps take three (P = (x0 − x1)·g0, S = x1·(g0 + g1), Q = (x1 − x2)·g1), a lone tap two as before. More taps are
// cut into such groups; what plays the same part is one sum, whatever its group. The factors are small integers and
// halves, so the rounding error stays that of the plain sum.
#pragma once

#include <vector>

#include "cpu/kernels/kernels.h"
#include "transfuse/lattice.h"

namespace transfuse::cpu {

enum class PairPart : uint8_t { first, both, opposite, second };
inline constexpr size_t pair_parts = 4;

struct PairTerm {
    PairPart part;
    int64_t row;  // index of its PairRow
    struct Share {
        int64_t tap;
        double factor;
    };
    std::vector<Share> weight;  // Σ factor·w[tap]
};

// The terms of one phase; shifts count from `least`. Rows that are not in `rows` yet are added to it.
std::vector<PairTerm> pair_terms(std::vector<PhaseTap> taps, int64_t least, std::vector<PairRow>& rows);

}  // namespace transfuse::cpu
