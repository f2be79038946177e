// The arguments of a launch: what is kept of them for a size, and what a kernel is given.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "cuda/runtime/launch.h"

namespace transfuse::cuda {
namespace {

struct Numbers {
    int of[13];
};

BoundLaunch bound_to(std::vector<Argument> arguments) {
    BoundLaunch bound;
    for (const Argument& argument : arguments)
        if (argument.kind != Argument::Kind::bytes)
            bound.addresses.push_back({Address::Kind::leaf, static_cast<int>(bound.addresses.size()), argument.offset});
    bound.launch.arguments = Arguments(arguments);
    return bound;
}

TEST(CudaLaunch, EveryParameterIsFoundInTheBlock) {
    Numbers numbers{};
    std::iota(std::begin(numbers.of), std::end(numbers.of), 7);
    const Ready ready = laid_out(bound_to({Argument::of(3), Argument::of_value(0, 40), Argument::of(numbers),
                                           Argument::of(2.5F), Argument::of_output(0, 8), Argument::of(int64_t{-5})}));
    char memory[2][64];
    std::vector<std::byte> block(ready.block_bytes);
    fill(block.data(), ready, [&](const Address& address) { return memory[address.position]; });
    const auto is = [&](size_t parameter, const auto& value) {
        return std::memcmp(block.data() + ready.parameters[parameter], &value, sizeof value) == 0;
    };
    EXPECT_TRUE(is(0, 3) && is(1, memory[0] + 40) && is(2, numbers));
    EXPECT_TRUE(is(3, 2.5F) && is(4, memory[1] + 8) && is(5, int64_t{-5}));
}

TEST(CudaLaunch, MapsAndAddressesHavePlacesOfTheirOwn) {
    const TmaTensor tensor{.extent = {1, 2, 3, 4, 5}};
    const std::vector<Argument> arguments{Argument::of_boxes(0, 0, tensor), Argument::of(1), Argument::of_value(1),
                                          Argument::of_boxes(2, 0, tensor), Argument::of(2)};
    const Ready ready = laid_out(bound_to(arguments));
    std::vector<std::pair<uint32_t, uint32_t>> places;
    for (size_t i = 0; i < arguments.size(); ++i) {
        const bool map = arguments[i].kind == Argument::Kind::boxes;
        const auto bytes = map ? 128 : static_cast<uint32_t>(arguments[i].size), begin = ready.parameters[i];
        EXPECT_EQ(begin % (map ? 64 : std::min(bytes, 16U)), 0U);
        places.emplace_back(begin, begin + bytes);
    }
    std::ranges::sort(places);
    for (size_t i = 1; i < places.size(); ++i) EXPECT_LE(places[i - 1].second, places[i].first);
    EXPECT_LE(places.back().second, ready.block_bytes);
    ASSERT_EQ(ready.maps.size(), 2U);
    EXPECT_EQ(ready.maps[1].extent, tensor.extent);
}

// Programs keep the launches of every size they meet, and new memory takes as long to get as to fill.
TEST(CudaLaunch, WhatIsWrittenWhenItIsLaunchedIsNotKept) {
    const Ready ready = laid_out(bound_to({Argument::of_value(0), Argument::of(1), Argument::of_boxes(1, 0, {}),
                                           Argument::of_value(2), Argument::of(2)}));
    EXPECT_EQ(ready.plain.size(), 2 * sizeof(int));
    EXPECT_LE(sizeof(Ready), 144U);
}

}  // namespace
}  // namespace transfuse::cuda
