// Dense passes whose product is thin: few input channels and taps, few output channels. Ordinary arithmetic makes a
// pixel in less time than tensor cores take to be fed and emptied, and without rounding its factors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda/general/offer.h"

namespace transfuse::cuda {

// nullopt with a sentence in `why_not` where another family must do it. sinks: what the pass stores.
// A bias that is made of parameters comes packed, in two parts (thin_bias.h).
std::optional<Offer> offer_thin(const Surroundings& surroundings, const Places& places, const std::vector<Sink>& sinks,
                                std::string* why_not = nullptr);

// Weights of a block of channels in shared memory, `tf_weights` as float4: [input channel][tap][channel], zeros for
// channels there are not. `count` of them; of input channels from first_input on.
struct WeightBlock {
    int64_t channels = 4, all_channels = 4, threads = 128;
    std::string first = "0", first_input = "";
};
void stage_weights(Emitter& emitter, ValueId w, const Lattices& axes, const WeightBlock& block,
                   const std::string& count);

}  // namespace transfuse::cuda
