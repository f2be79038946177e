// The general kernel generator: any set of primitive values, each output element (or reduction) evaluated by pulling
// what it needs. The fallback for everything, and the fast path of prepare passes, pointwise passes and tails.
#pragma once

#include "cuda/general/emit/emitter.h"

namespace transfuse::cuda {

// A value to be written, and where.
struct Sink {
    ValueId value;
    Place place;  // strides per axis of the value
};

// A job beside those of the sinks, which writes its own text: `elements` elements of a value, laid out in a way of its
// own (packed weights), by blocks of 256 threads.
struct ExtraJob {
    ValueId root = -1;
    double elements = 0;
    int64_t blocks = 1;
    std::string code;  // functions the text calls
    std::string note;
    std::function<void(Emitter& emitter, const std::string& block)> write;
};

struct PullRequest {
    const Graph& graph;
    const std::vector<bool>& parameter_values;
    Places places;  // what may be read
    std::vector<Sink> sinks;
    Target target;
    int64_t scratch_begin = 0;  // bytes of scratch that are taken
    std::string name = "pull";  // entry names begin with it
    bool early = false;         // the first launch may start while its predecessor ends
    bool exact = false;         // small jobs compute in double: weights, tails
    bool beside = false;        // nothing here depends on the predecessor: only the end waits for it
    std::vector<std::shared_ptr<const ExtraJob>> extras = {};
    TextCache* text_cache = nullptr;  // texts that the program has; may be null
};

// Launches that evaluate every sink and run every extra job, in as few stages as recomputation allows. scratch_bytes
// includes scratch_begin.
Program pull(const PullRequest& request);

// All that the launches of a request depend on. Extra jobs are told apart by their addresses. room: a text whose memory
// may be used.
std::string pull_key(const PullRequest& request, std::string room = {});

// Reads `dtype` storage in the order of memory: axes sorted by stride, largest first.
std::vector<size_t> memory_order(const Sizes& shape, const Sizes& strides);

}  // namespace transfuse::cuda
