#include "cuda/plain/thin_bias.h"

#include "cuda/general/emit/text_cache.h"
#include "cuda/general/kernel_text.h"
#include "cuda/kernel/key_text.h"

namespace transfuse::cuda {

namespace {

constexpr int64_t threads = 256;

void write(Emitter& emitter, const std::string& block, ValueId bias, int64_t channels, const Argument& to) {
    Body& body = emitter.body();
    const std::string parts = emitter.parameters().pointer(to, "float", false);
    const std::string at =
        emitter.let("tf_index", "(tf_index)" + block + " * " + number(threads) + " + threadIdx.x", "t");
    emitter.open("if (" + at + " < " + number(channels) + ")");
    emitter.widen();
    const std::string whole = emitter.value(bias, {{at}})[0];
    const std::string high = parts + "[" + at + "]", low = parts + "[" + plus(number(channels), at) + "]";
    // What overflows a float has no rest.
    body.line(high + " = (float)" + whole + ", " + low + " = fabsf(" + high + ") <= 3.402823466e38f ? (float)(" +
              whole + " - (double)" + high + ") : 0.0f;");
    emitter.close();
}

ExtraJob job_of(ValueId bias, int64_t channels, const Argument& to) {
    ExtraJob job;
    job.root = bias;
    job.elements = static_cast<double>(channels);
    job.blocks = (channels + threads - 1) / threads;
    job.note = "bias in two parts";
    job.write = [=](Emitter& emitter, const std::string& block) { write(emitter, block, bias, channels, to); };
    return job;
}

}  // namespace

bool loses_as_float(const Surroundings& around, ValueId bias) {
    const Graph& graph = around.plan.graph;
    return around.parameters && (*around.parameters)[static_cast<size_t>(bias)] &&
           graph[bias].type.dtype == DType::f32 && !is_literal(graph, bias) &&
           !is_leaf(graph[view_root(around.plan, bias)].op);
}

std::shared_ptr<const ExtraJob> pack_bias(const Surroundings& around, ValueId bias) {
    const int64_t channels = numel(around.plan.graph[bias].type.shape);
    const auto make = [&] {
        return std::make_shared<const ExtraJob>(job_of(bias, channels, Argument::of_packed(around.number)));
    };
    if (!around.text_cache) return make();
    KeyText key;
    key.add(bias, channels, around.number);
    return around.text_cache->packs.get("bias in two parts " + key.take(), make);
}

int64_t packed_bias_bytes(int64_t channels) { return 2 * channels * 4; }

}  // namespace transfuse::cuda
