#include "cuda/dense/exits/accumulators/fold.h"

#include "cuda/dense/exits/accumulators/fragment_chain.h"
#include "cuda/kernel/expression.h"
#include "cuda/kernel/hooks.h"

namespace transfuse::cuda {

namespace {

constexpr std::string_view channel_fold =
#include "cuda/device/exits/channel_fold.cuh"
    ;

}  // namespace

std::string fold_program(const Epilogue& epilogue) {
    const Node& fold = epilogue.graph()[epilogue.leaving().handed];
    Lines t, chain;
    t.line("constexpr bool MASSES = " + std::string(fold.op == Op::logsumexp ? "true" : "false") + ";");
    t.line("#define JOINED(a, b) (" + combined(fold.op, "a", "b") + ")");
    t.line("#define NOTHING " + identity(fold.op));
    FragmentChain(epilogue, chain).results("set * PLANES + p", fold.args[0]);
    return t.str() + hooked(channel_fold, {{"chain", chain.str()}});
}

}  // namespace transfuse::cuda
