#include "cuda/dense/schedule/specialization.h"

#include <cstdio>
#include <numeric>

namespace transfuse::cuda {

namespace {

constexpr const char* loads[] = {"planar", "vectors", "direct",  "pairs",          "singles",
                                 "rows",   "boxes",   "operand", "unaligned_rows", "vector_boxes"};
constexpr const char* arithmetics[] = {"tf32", "strict", "f16", "bf16", "f64"};

template <class Names>
int position(const Names& names, const std::string& word) {
    int at = 0;
    for (const char* name : names) {
        if (word == name) return at;
        ++at;
    }
    return -1;
}

// Pixels one by one: any row will do.
bool one_by_one(LoadMode load) { return load == LoadMode::planar || load == LoadMode::singles; }
// Neighbours along w lie side by side, however they come.
bool along_rows(LoadMode load) {
    return comes_in_elements(load) || load == LoadMode::rows || load == LoadMode::boxes ||
           load == LoadMode::unaligned_rows;
}

}  // namespace

std::string to_string(const Specialization& m) {
    return std::string("loads ") + loads[static_cast<int>(m.load)] + " vector " + std::to_string(m.vector) + " in " +
           arithmetics[static_cast<int>(m.arithmetic)] + (m.any_size ? " any size" : "");
}

std::optional<Specialization> specialization_named(const std::string& text) {
    char load[16] = "", arithmetic[16] = "";
    Specialization m;
    if (std::sscanf(text.c_str(), "loads %15s vector %d in %15s", load, &m.vector, arithmetic) != 3)
        return std::nullopt;
    const int l = position(loads, load), a = position(arithmetics, arithmetic);
    if (l < 0 || a < 0) return std::nullopt;
    m.load = static_cast<LoadMode>(l), m.arithmetic = static_cast<Arithmetic>(a);
    m.any_size = text.find(" any size") != std::string::npos;
    return to_string(m) == text ? std::optional<Specialization>(m) : std::nullopt;
}

bool serves(const Specialization& specialization, const Specialization& own, const Lattice& along_w,
            Fp32Precision precision) {
    // Where TF32 is allowed, a size may do without it because it gains nothing: then either is right.
    const bool fp32 = own.arithmetic == Arithmetic::tf32 || own.arithmetic == Arithmetic::strict;
    if (specialization.arithmetic != own.arithmetic && !(fp32 && specialization.arithmetic == Arithmetic::strict) &&
        !(fp32 && specialization.arithmetic == Arithmetic::tf32 && precision == Fp32Precision::tf32))
        return false;
    const bool pairs = specialization.load == LoadMode::pairs && own.load != LoadMode::singles && along_w.in % 2 == 0;
    if (specialization.load != own.load && !(along_rows(own.load) && (pairs || one_by_one(specialization.load))))
        return false;
    return specialization.vector >= 1 && own.vector % specialization.vector == 0;
}

Specialization loosest(Specialization own, const Lattice& along_w) {
    if (along_rows(own.load))
        own.load = own.arithmetic == Arithmetic::f16 || own.arithmetic == Arithmetic::bf16 ? LoadMode::singles
                                                                                           : LoadMode::planar;
    // Rows of up·in + c outputs.
    const int64_t divides = along_w.down == 1 ? std::gcd(along_w.up, along_w.out - along_w.up * along_w.in) : 1;
    while (own.vector > 1 && (divides % own.vector != 0 || own.vector % along_w.period() != 0)) own.vector /= 2;
    own.any_size = true;
    return own;
}

}  // namespace transfuse::cuda
