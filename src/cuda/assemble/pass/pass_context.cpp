#include "cuda/assemble/pass/pass_context.h"

#include "cuda/assemble/products.h"

namespace transfuse::cuda {

Surroundings surroundings_of(const PassContext& context, const Pass& pass, size_t number, const std::string& config) {
    return {context.plan,
            pass,
            context.placement.strides(),
            precision_of(context.plan.graph, pass.anchor, context.options),
            context.target,
            context.aligned,
            config,
            static_cast<int>(number),
            context.known ? context.known->text_cache() : nullptr,
            &context.parameters};
}

bool may_take_memory(const PassContext& context, const Surroundings& around) {
    const Target& target = context.target;
    return !context.options.lean && !target.any_size && around.config.empty();
}

}  // namespace transfuse::cuda
