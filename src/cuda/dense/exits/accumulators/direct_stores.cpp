#include "cuda/dense/exits/accumulators/direct_stores.h"

#include <algorithm>

#include "cuda/dense/exits/accumulators/fragment_chain.h"
#include "cuda/dense/exits/accumulators/fragments.h"
#include "cuda/kernel/expression.h"
#include "cuda/kernel/hooks.h"

namespace transfuse::cuda {

namespace {

constexpr std::string_view direct_stores =
#include "cuda/device/exits/direct_stores.cuh"
    ;

// Residues along w whose outputs, of two neighbouring pixels, lie side by side: a vector, where rows allow it.
int together(const Epilogue& epilogue, const Operand& store, const Schedule& s) {
    const int all = 2 * s.phases_w;
    if (store.strides[4] != 1 || s.phases_w != s.period[3] || (all & (all - 1)) != 0) return 1;
    int vector = std::min(all, 16 / static_cast<int>(bytes(store.dtype)));
    for (const int64_t stride : {store.offset, store.strides[0], store.strides[1], store.strides[2], store.strides[3],
                                 epilogue.problem().axes[3].out})
        while (stride % vector != 0) vector /= 2;
    return vector;
}

}  // namespace

std::string direct_program(const Epilogue& epilogue, const Schedule& schedule) {
    const Operand& store = epilogue.stores()[0];
    std::vector<int> codes;
    for (const auto& sets : schedule.phase_table)
        for (const auto& list : sets) codes.push_back(list[0].code());
    Lines t, chain;
    t.line("typedef " + std::string(storage_name(store.dtype)) + " OUT;");
    t.constants({{"PHASES_W", schedule.phases_w}, {"NEIGHBOURS", together(epilogue, store, schedule)}});
    t.line("__constant__ int direct_codes[] = {" + listed(codes) +
           "};   // [variant][warpgroup][set]: residues, −1: none");
    FragmentChain(epilogue, chain).results("b", store.value);
    return t.str() + hooked(direct_stores, {{"chain", chain.str()}});
}

}  // namespace transfuse::cuda
