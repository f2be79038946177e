// Integer arithmetic that rounds toward minus infinity, as the lattice relation needs it.
#pragma once

#include <cstdint>
#include <numeric>

namespace transfuse {

// ⌊a/b⌋ for b > 0.
constexpr int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
// ⌈a/b⌉ for b > 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }
// The least multiple of b that is at least a, for b > 0.
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
// a mod b in [0, b) for b > 0.
constexpr int64_t floor_mod(int64_t a, int64_t b) { return a % b < 0 ? a % b + b : a % b; }

// The residues t mod m/g that solve a·t ≡ c (mod m), g = gcd(a, m): one class t ≡ first (mod step), or none.
struct Congruence {
    bool solvable = false;
    int64_t first = 0;  // in [0, step)
    int64_t step = 1;
};

constexpr Congruence solve_congruence(int64_t a, int64_t c, int64_t m) {
    const int64_t g = std::gcd(a, m);
    if (floor_mod(c, g) != 0) return {};
    const int64_t step = m / g;
    if (step == 1) return {true, 0, 1};
    // Extended Euclid: the inverse of a/g modulo m/g.
    int64_t r0 = step, r1 = floor_mod(a / g, step), t0 = 0, t1 = 1;
    while (r1 != 0) {
        const int64_t q = r0 / r1;
        const int64_t r2 = r0 - q * r1, t2 = t0 - q * t1;
        r0 = r1, r1 = r2, t0 = t1, t1 = t2;
    }
    const int64_t inverse = floor_mod(t0, step);
    const auto product = static_cast<__int128>(inverse) * floor_mod(c / g, step);
    return {true, static_cast<int64_t>(product % step), step};
}

}  // namespace transfuse
