#include <algorithm>

#include "cuda/general/pull/pull.h"
#include "cuda/kernel/key_text.h"

namespace transfuse::cuda {

namespace {

class RequestKey {
public:
    RequestKey(const PullRequest& request, std::string room)
        : request_(request), seen_(static_cast<size_t>(request.graph.size()), false), key_(std::move(room)) {}

    std::string text() {
        const Target& target = request_.target;
        key_.add(target.arch, target.multiprocessors, target.shared_bytes, target.general_only, target.portable_only,
                 target.any_size, request_.scratch_begin, request_.early, request_.exact, request_.beside,
                 request_.name);
        std::vector<ValueId> places;
        for (const auto& [value, place] : request_.places) places.push_back(value);
        std::sort(places.begin(), places.end());
        for (const ValueId value : places) add(value), add(request_.places.at(value));
        key_.add(request_.sinks.size());
        for (const Sink& sink : request_.sinks) add(sink.value), add(sink.place);
        for (const auto& extra : request_.extras) add(extra->root), key_.add(reinterpret_cast<uintptr_t>(extra.get()));
        return key_.take();
    }

private:
    void add(const Place& place) {
        const auto& [base, storage, strides, read_only, aligned, partials, col2im, slices] = place;
        key_.add(base.kind, base.value, base.offset, base.size, storage, strides, read_only, aligned,
                 partials.has_value(), col2im.size(), slices);
        if (base.kind == Argument::Kind::bytes || base.kind == Argument::Kind::boxes) key_.add(base.data);
        if (partials)
            key_.add(partials->slots, partials->slot_stride, partials->component_stride, partials->shifted,
                     partials->moments);
        for (const auto& [up, down, dil, offset, in, out, taps] : col2im)
            key_.add(up, down, dil, offset, in, out, taps);
    }

    // A value and all it is made of.
    void add(ValueId value) {
        key_.add(value);
        if (value < 0 || seen_[static_cast<size_t>(value)]) return;
        seen_[static_cast<size_t>(value)] = true;
        const Node& node = request_.graph[value];
        key_.add(node.op, node.type.dtype, node.type.shape, node.attributes,
                 bool{request_.parameter_values[static_cast<size_t>(value)]}, node.args.size());
        for (const ValueId arg : node.args) add(arg);
    }

    const PullRequest& request_;
    std::vector<bool> seen_;
    KeyText key_;
};

}  // namespace

std::string pull_key(const PullRequest& request, std::string room) {
    return RequestKey(request, std::move(room)).text();
}

}  // namespace transfuse::cuda
