#include "cuda/memory/placement.h"

#include <algorithm>

#include "algebra/lattice/integer.h"
#include "cuda/memory/buffer_layout.h"
#include "graph/layout.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

// The strides of `from`, whose elements lie as those of `to` do; nullopt where more than axes of extent 1 differ.
std::optional<Sizes> strides_without_ones(const Sizes& from, const Sizes& to, const Sizes& to_strides) {
    Sizes strides(from.size(), 0);
    size_t at = 0;
    for (size_t a = 0; a < from.size(); ++a) {
        if (from[a] == 1) continue;
        while (at < to.size() && to[at] == 1) ++at;
        if (at == to.size() || to[at] != from[a]) break;
        strides[a] = to_strides[at++];
    }
    if (std::count(strides.begin(), strides.end(), 0) != std::count(from.begin(), from.end(), 1)) return std::nullopt;
    return strides;
}

}  // namespace

Placement::Placement(const Plan& plan, const CompileOptions& options, bool aligned, bool last)
    : plan_(plan),
      graph_(plan.graph),
      options_(options),
      aligned_(aligned),
      last_(last ? channels_last_buffers(plan) : std::vector<bool>(static_cast<size_t>(graph_.size()))),
      strides_(static_cast<size_t>(graph_.size())),
      slots_(static_cast<size_t>(graph_.size())) {
    place_outputs();
    place_leaves();
    find_buffers();
}

void Placement::hold(ValueId v, const Held& what, Sizes strides) {
    if (Held* const known = held(v)) {
        *known = what;
    } else {
        held_.push_back(what);
        slots_[static_cast<size_t>(v)] = static_cast<int32_t>(held_.size());
    }
    strides_.set(static_cast<size_t>(v), std::move(strides));
}

void Placement::place_outputs() {
    const auto& outputs = graph_.outputs();
    require(options_.output_strides.empty() || options_.output_strides.size() == outputs.size(),
            "compile_cuda: output_strides has ", options_.output_strides.size(), " entries for ", outputs.size(),
            " outputs");
    for (size_t j = outputs.size(); j-- > 0;) {  // of a value that stands twice, the first place counts
        hold(outputs[j], {{Address::Kind::output, static_cast<int>(j), 0}, {}}, output_strides(j));
    }
}

void Placement::place_leaves() {
    const auto& leaves = graph_.leaves();
    require(options_.leaf_strides.empty() || options_.leaf_strides.size() == leaves.size(),
            "compile_cuda: leaf_strides has ", options_.leaf_strides.size(), " entries for ", leaves.size(), " leaves");
    for (size_t i = 0; i < leaves.size(); ++i)
        hold(leaves[i], {{Address::Kind::leaf, static_cast<int>(i), 0}, {}},
             options_.leaf_strides.empty() ? contiguous_strides(graph_[leaves[i]].type.shape)
                                           : options_.leaf_strides[i]);
}

// The values that need buffers; where these lie is decided when it is known which are met.
void Placement::find_buffers() {
    for (size_t p = 0; p < plan_.passes.size(); ++p) {
        const Pass& pass = plan_.passes[p];
        for (ValueId read : pass.reads)
            if (const ValueId root = view_root(plan_, read); !is_literal(graph_, root)) touch(root, p, false);
        for (const Store& store : pass.stores) touch(store.target, p, pass.kind == PassKind::prepare);
    }
}

void Placement::touch(ValueId v, size_t pass, bool prepares) {
    if (Held* const known = held(v)) {
        if (known->life) known->life->last = pass;
        return;
    }
    const Sizes& shape = graph_[v].type.shape;
    const bool kept = options_.freeze && prepares, last = last_[static_cast<size_t>(v)];
    hold(v, {{kept ? Address::Kind::kept : Address::Kind::workspace, 0, 0}, Life{pass, pass, prepares}},
         last ? channels_last_strides(shape) : contiguous_strides(shape));
}

bool Placement::add_buffer(ValueId v, size_t pass) {
    if (in_memory(v)) return false;
    touch(v, pass, false);
    return true;
}

void Placement::remove_buffer(ValueId v) {
    slots_[static_cast<size_t>(v)] = 0;
    strides_.set(static_cast<size_t>(v), {});
}

Placement::Room Placement::place_buffers(const std::vector<bool>& met) {
    struct Region {
        int64_t begin, end;
        Life life;
    };
    std::vector<Region> taken;
    std::vector<std::pair<int64_t, int64_t>> busy;
    Room room;
    for (ValueId value = 0; value < graph_.size(); ++value) {
        Held* const buffer = held(value);
        if (!buffer || !buffer->life || !met[static_cast<size_t>(value)]) continue;
        const Life& life = *buffer->life;
        const Type& type = graph_[value].type;
        const int64_t size = round_up(std::max<int64_t>(numel(type.shape), 1) * bytes(type.dtype), line_bytes);
        Address& address = buffer->address;
        if (address.kind == Address::Kind::kept) {
            address.offset = room.kept;
            room.kept += size;
            continue;
        }
        // First fit among the regions alive at the same time.
        busy.clear();
        for (const Region& region : taken)
            if (region.life.first <= life.last && life.first <= region.life.last)
                busy.emplace_back(region.begin, region.end);
        std::sort(busy.begin(), busy.end());
        int64_t at = 0;
        for (const auto& [begin, end] : busy) {
            if (at + size <= begin) break;
            at = std::max(at, end);
        }
        taken.push_back({at, at + size, life});
        address.offset = at;
        room.workspace = std::max(room.workspace, at + size);
    }
    return room;
}

Sizes Placement::output_strides(size_t position) const {
    return options_.output_strides.empty() ? contiguous_strides(graph_[graph_.outputs()[position]].type.shape)
                                           : options_.output_strides[position];
}

const Address& Placement::address(ValueId v) const {
    if (!in_memory(v)) fail("CUDA: value %", v, " (", name(graph_[v].op), ") is not in memory");
    return held_[static_cast<size_t>(slots_[static_cast<size_t>(v)]) - 1].address;
}

Place Placement::place_of(ValueId v) const {
    using enum Address::Kind;
    const Address::Kind kind = address(v).kind;
    Place place;
    place.base = Argument::of_value(v);
    place.storage = graph_[v].type.dtype;
    place.strides = strides_[static_cast<size_t>(v)];
    // What an earlier launch wrote may only be read after waiting for it: no read-only loads, which could move up.
    place.read_only = kind == leaf;
    place.aligned = aligned_ || kind == workspace || kind == kept;
    return place;
}

Place Placement::output_place(size_t position) const {
    Place place = place_of(graph_.outputs()[position]);
    place.base = Argument::of_output(static_cast<int>(position));
    place.strides = output_strides(position);
    return place;
}

// Where a store goes. A reshape as target is pulled through: the sink is then the target itself.
Sink Placement::sink_of(const Store& store) const {
    const ValueId target = store.target;
    Place place = place_of(target);
    if (address(target).kind == Address::Kind::leaf) {  // an output that is a leaf
        const auto& outputs = graph_.outputs();
        place = output_place(static_cast<size_t>(std::find(outputs.begin(), outputs.end(), target) - outputs.begin()));
    }
    if (store.value == target || graph_[target].op == Op::reshape) return {target, place};
    if (!store.start.empty()) {
        int64_t offset = 0;
        for (size_t a = 0; a < store.start.size(); ++a) offset += store.start[a] * place.strides[a];
        place.base.offset += offset * bytes(place.storage);
        if (place.base.offset % 16 != 0) place.aligned = false;
    }
    return {store.value, place};
}

std::vector<Sink> Placement::sinks_of(const Pass& pass) const {
    std::vector<Sink> sinks;
    for (const Store& store : pass.stores) sinks.push_back(sink_of(store));
    return sinks;
}

std::vector<Sink> Placement::tile_sinks(const Pass& pass) const {
    std::vector<Sink> sinks;
    for (const Store& store : pass.stores) {
        const bool tile = std::any_of(pass.steps.begin(), pass.steps.end(), [&](const TileStep& step) {
            return step.value == store.value && step.scope == Scope::tile;
        });
        if (!tile) continue;
        Sink sink = sink_of(store);
        if (sink.value != store.value)
            if (const auto strides = strides_without_ones(graph_[store.value].type.shape, graph_[sink.value].type.shape,
                                                          sink.place.strides))
                sink.value = store.value, sink.place.strides = *strides;
        sinks.push_back(std::move(sink));
    }
    return sinks;
}

Places Placement::places_of(const Pass& pass) const {
    Places places;
    for (ValueId read : pass.reads) {
        const ValueId root = view_root(plan_, read);
        if (graph_[root].op == Op::constant ? in_memory(root) : !is_literal(graph_, root))
            places.emplace(root, place_of(root));
    }
    for (const TileStep& step : pass.steps)
        if (!is_leaf(graph_[step.value].op)) places.erase(step.value);
    return places;
}

}  // namespace transfuse::cuda
