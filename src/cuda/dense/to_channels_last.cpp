#include "cuda/dense/to_channels_last.h"

#include <algorithm>
#include <memory>
#include <string>

#include "cuda/dense/choose/request.h"
#include "cuda/dense/schedule/figures.h"
#include "cuda/kernel/expression.h"
#include "cuda/memory/buffer_layout.h"

namespace transfuse::cuda {

namespace {

constexpr int tile = 32;  // pixels and channels of a block

int64_t blocks_of(const Type& type, int64_t pixels) {
    return type.shape[0] * ((pixels + tile - 1) / tile) * ((type.shape[1] + tile - 1) / tile);
}

// Channels last, the input comes in boxes, and as the products read it: elsewhere it is no faster (a prologue 0.135 ->
// 0.130 ms, strict products 0.173 -> 0.178 and 0.599 -> 0.568).
bool may_be_operand(const Request& request) {
    const Problem& problem = request.problem;
    return request.program.prologue.empty() && problem.terms() == 1 && problem.cin % problem.lanes() == 0 &&
           std::all_of(problem.axes.begin(), problem.axes.end(), [](const Lattice& a) { return a.advance() == 1; });
}

int64_t pixels_of(const Type& type) {
    int64_t pixels = 1;
    for (size_t a = 2; a < type.shape.size(); ++a) pixels *= type.shape[a];
    return pixels;
}

std::string to_channels_last_source(int64_t element_bytes) {
    static constexpr std::string_view kernel =
#include "cuda/device/values/to_channels_last.cuh"
        ;
    return std::string(sequence_code()) + "typedef " + (element_bytes == 2 ? "unsigned short" : "unsigned") +
           " ELEMENT;" + std::string(kernel);
}

}  // namespace

std::optional<ValueId> input_to_channels_last(const Surroundings& around) {
    if (!around.aligned || !around.target.has_wgmma()) return std::nullopt;
    const auto request = read_request(around, Family::wgmma, nullptr);
    if (!request || !comes_in_elements(request->problem.load) || !may_be_operand(*request)) return std::nullopt;
    const ValueId v = request->program.input.value;
    const Type& type = around.plan.graph[v].type;
    if (view_root(around.plan, v) != v || type.shape[1] < fewest_boxed_channels || type.shape.back() == 1 ||
        around.strides[static_cast<size_t>(v)] != contiguous_strides(type.shape))
        return std::nullopt;
    constexpr int64_t most = int64_t{1} << 31;
    const int64_t pixels = pixels_of(type);
    return pixels < most - tile && blocks_of(type, pixels) < most ? std::optional(v) : std::nullopt;
}

int64_t channels_last_bytes(const Type& type) { return numel(type.shape) * bytes(type.dtype); }

double to_channels_last_seconds(const Surroundings& around, const Type& type) {
    const Machine& machine = around.plan.machine;
    return machine.launch +
           2 * static_cast<double>(channels_last_bytes(type)) / (figures::copy_share * machine.bandwidth);
}

Launch to_channels_last(const Type& type, ValueId from, int64_t to) {
    const int64_t pixels = pixels_of(type);
    Launch launch;
    launch.source =
        std::make_shared<Source>(Source{"transfuse_to_channels_last", to_channels_last_source(bytes(type.dtype)), {}});
    launch.grid = {static_cast<uint32_t>(blocks_of(type, pixels)), 1, 1}, launch.block = {256, 1, 1};
    launch.early = true;
    launch.arguments = {Argument::of_value(from), Argument::of_scratch(to),
                        Argument::of(static_cast<int>(type.shape[1])), Argument::of(static_cast<int>(pixels))};
    launch.note = "the input channels last";
    return launch;
}

void read_channels_last(Launch& launch, ValueId value, int64_t at) {
    std::vector<Argument> arguments(launch.arguments.begin(), launch.arguments.end());
    for (Argument& argument : arguments) {
        if (argument.value != value) continue;
        if (argument.kind == Argument::Kind::value)
            argument = Argument::of_scratch(at + argument.offset);
        else if (argument.kind == Argument::Kind::boxes)
            argument.value = Argument::in_scratch, argument.offset += at;
    }
    launch.arguments = std::move(arguments);
}

}  // namespace transfuse::cuda
