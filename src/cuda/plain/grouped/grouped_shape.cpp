#include "cuda/plain/grouped/grouped_shape.h"

#include <algorithm>

#include "algebra/lattice/integer.h"
#include "cuda/plain/figures.h"

namespace transfuse::cuda {

using namespace figures::grouped;

namespace {

class Chooser {
public:
    Chooser(const Surroundings& s, const std::vector<Sink>& sinks, std::string* why_not)
        : s_(s), graph_(s.plan.graph), sinks_(sinks), why_not_(why_not), out_(graph_[s.pass.anchor].type) {}

    std::optional<GroupedShape> run() {
        if (!read_product() || !read_steps() || !read_sinks() || !choose_tile()) return std::nullopt;
        divide();
        return shape_;
    }

private:
    bool refuse(const char* why) {
        if (why_not_) *why_not_ = why;
        return false;
    }

    bool read_product() {
        const Node& node = graph_[s_.pass.anchor];
        shape_.x = node.args[0], shape_.w = node.args[1];
        if (node.args.size() > 2) shape_.bias = node.args[2];
        const Type &x = graph_[shape_.x].type, &w = graph_[shape_.w].type;
        shape_.groups = w.shape[0], shape_.cin = w.shape[1], shape_.cout = w.shape[2];
        if (shape_.groups == 1) return refuse("one group");
        shape_.axes = lattices(graph_, s_.pass.anchor);
        int64_t products = shape_.cin;  // of an output
        for (const Lattice& axis : shape_.axes) products *= ceil_div(axis.taps, axis.period());
        const int64_t widest = std::max(shape_.cin, shape_.cout);
        const bool small = x.dtype != DType::f64 && (widest <= narrow || (widest <= wide && products <= of_wide));
        if (shape_.cin * shape_.cout >= small_products && !small) return refuse("many channels a group");
        if (shape_.cout > most_sums / 2) return refuse("many channels a group");
        if (numel(x.shape) >= int64_t{1} << 31 || numel(out_.shape) >= int64_t{1} << 31)
            return refuse("more than 2^31 elements");
        if (numel(x.shape) == 0 || numel(out_.shape) == 0) return refuse("an empty tensor");
        return true;
    }

    bool read_steps() {
        for (const TileStep& step : s_.pass.steps) {
            const Node& node = graph_[step.value];
            if (step.scope == Scope::grid) {
                const Sizes& dims = node.attributes.integers(Key::dims);
                const bool known = node.op == Op::sum || node.op == Op::mean || node.op == Op::var ||
                                   node.op == Op::amax || node.op == Op::amin;
                if (!known || graph_[node.args[0]].type.shape != out_.shape)
                    return refuse("a reduction of its own kind");
                for (int64_t axis = 1; axis < out_.rank(); ++axis)
                    if ((std::find(dims.begin(), dims.end(), axis) == dims.end()) != (axis == 1))
                        return refuse("reductions over channels, or a part of space");
                shape_.grid.push_back(step.value);
            } else if (step.scope == Scope::tile && step.value != s_.pass.anchor) {
                if (is_pointwise(node.op)) continue;
                const bool known = node.op == Op::sum || node.op == Op::mean || node.op == Op::amax ||
                                   node.op == Op::amin || node.op == Op::logsumexp;
                if (!known) return refuse("more than a pointwise chain and reductions over channels");
                shape_.reductions.push_back(step.value);
            }
        }
        shape_.all_channels = !shape_.reductions.empty();
        if (shape_.all_channels && shape_.cin * shape_.cout >= 16) return refuse("many channels a group, and reduced");
        return !(shape_.all_channels && !shape_.grid.empty()) || refuse("reductions over channels and over space");
    }

    bool read_sinks() {
        for (const Sink& sink : sinks_) {
            const Sizes& shape = graph_[sink.value].type.shape;
            if (std::none_of(s_.pass.steps.begin(), s_.pass.steps.end(),
                             [&](const TileStep& step) { return step.value == sink.value; }))
                return refuse("a store of another shape");
            for (size_t a = 0; a < out_.shape.size(); ++a)
                if (shape.size() != out_.shape.size() ||
                    (shape[a] != out_.shape[a] && !(a == 1 && shape_.all_channels && shape[a] == 1)))
                    return refuse("a store of another shape");
        }
        return true;
    }

    // Where outputs lie: channels together, or rows.
    bool channels_together() const {
        for (const Sink& sink : sinks_)
            if (graph_[sink.value].type.shape[1] > 1)
                return sink.place.strides[1] == 1 && out_.shape[1] > 1 && sink.place.strides.back() != 1;
        const Sizes& strides = s_.strides[static_cast<size_t>(view_root(s_.plan, shape_.x))];
        return strides.size() == out_.shape.size() && strides[1] == 1 && strides.back() != 1;
    }

    bool stores_take(int64_t vector) const {
        return std::all_of(sinks_.begin(), sinks_.end(), [&](const Sink& sink) {
            const Sizes& shape = graph_[sink.value].type.shape;
            const size_t axis = shape_.by_channel ? 1 : shape.size() - 1;
            return shape[axis] == 1 || takes_vectors(sink.place, shape, axis, vector);
        });
    }

    bool choose_tile() {
        shape_.by_channel = channels_together();
        // Threads of one channel each would load the inputs of a group once for every channel of it.
        if (shape_.by_channel && shape_.cin * shape_.cout >= 16) return refuse("many channels a group, channels last");
        const size_t rank = shape_.axes.size();
        const bool depthwise = shape_.cin == 1 && shape_.cout == 1;
        const int64_t extent = shape_.by_channel ? (depthwise ? shape_.channels() : 1) : out_.shape.back();
        int64_t least_bytes = bytes(out_.dtype);
        for (const Sink& sink : sinks_) least_bytes = std::max(least_bytes, bytes(sink.place.storage));
        int64_t lanes = 16 / least_bytes;
        while (lanes > 1 && (extent % lanes != 0 || !stores_take(lanes))) lanes /= 2;
        const int64_t channels = shape_.channels(), widest = lanes;
        if (shape_.all_channels && !shape_.by_channel) {
            while (lanes > 2 && channels * lanes > most_sums) lanes /= 2;
            shape_.held = channels * lanes <= most_sums;
            if (!shape_.held) lanes = widest;
        }
        shape_.lanes = lanes;
        shape_.unit_channels = shape_.all_channels ? channels : shape_.by_channel ? lanes : shape_.cout;
        shape_.unit_count = channels / shape_.unit_channels;
        if (shape_.all_channels && shape_.by_channel)
            for (int64_t team = 2, vectors = channels / lanes; team <= 32; team *= 2)
                if (10 * ceil_div(vectors, team) * team <= 13 * vectors) shape_.team = team;
        const int64_t sums = (shape_.held ? shape_.columns() : shape_.cout) * lanes;
        if (sums > most_sums) return refuse("more channels than a thread holds");
        // Along the rows' neighbours whole periods where they are short; else every output is of a class of its own.
        std::vector<int64_t> run(rank, 1);
        int64_t held = sums;
        auto lengthen = [&](size_t axis, int64_t wanted) {
            const int64_t period = shape_.axes[axis].period();
            int64_t length = period > rows ? 1 : period * std::max<int64_t>(1, wanted / period);
            while (length > 1 && (held * length > most_sums || (length > period && length / 2 >= out_.shape[axis + 2])))
                length /= 2;
            run[axis] = length;
            held *= run[axis];
        };
        if (shape_.by_channel)
            lengthen(rank - 1, 2);
        else
            run[rank - 1] = lanes;
        if (rank > 1 && shape_.held) lengthen(rank - 2, shape_.by_channel ? 2 : rows);
        for (size_t a = 0; a < rank; ++a) shape_.windows.emplace_back(shape_.axes[a], run[a]);
        const Type& x = graph_[shape_.x].type;
        shape_.vector_inputs = !shape_.by_channel && lanes > 1 && x.shape.back() % lanes == 0;
        if (products() > most_products) return refuse("more products than a thread can have written out");
        return staged_bytes(1) <= most_shared || refuse("more weights than shared memory holds");
    }

    int64_t products() const {
        int64_t count =
            (shape_.held ? shape_.columns() : shape_.cout) * shape_.cin * (shape_.by_channel ? shape_.lanes : 1);
        for (const RunWindow& window : shape_.windows) {
            int64_t met = 0;
            for (int64_t s = 0; s < window.inputs(); ++s)
                for (int64_t v = 0; v < window.run(); ++v) met += window.meets(s, v);
            count *= met;
        }
        return count;
    }

    int64_t staged_bytes(int64_t units) const {
        return units * shape_.unit_channels * shape_.cin * shape_.entries() * (out_.dtype == DType::f64 ? 8 : 4);
    }

    // Threads of a block: as many of one unit as there are tiles, or of neighbouring units, so that neighbours move
    // neighbours.
    void divide() {
        shape_.tiles = 1;
        for (size_t a = 0; a < shape_.axes.size(); ++a) {
            const int64_t runs = ceil_div(out_.shape[a + 2], shape_.windows[a].run());
            shape_.tiles *= a + 1 < shape_.axes.size() ? ceil_div(runs, shape_.windows[a].classes()) : runs;
        }
        const int64_t most = shape_.held && shape_.lanes * shape_.columns() > 48 ? most_threads / 2 : most_threads;
        int64_t units = 1;
        if (shape_.team > 1) {
            shape_.unit_threads = most;
        } else if (shape_.by_channel) {
            units = std::min(shape_.unit_count, most);
            while (units > 1 && staged_bytes(units) > most_shared) units = (units + 1) / 2;
            shape_.unit_threads = std::max<int64_t>(1, most / units);
        } else {
            shape_.unit_threads = most;
            while (shape_.unit_threads > 32 && shape_.unit_threads / 2 >= shape_.tiles) shape_.unit_threads /= 2;
            units = most / shape_.unit_threads;
            while (units > 1 && (units / 2 >= shape_.unit_count || staged_bytes(units) > most_shared)) units /= 2;
        }
        shape_.units = units;
        // Sums over space stay in a thread as long as blocks fill the device; else a block stages its weights for a few
        // rounds.
        const int64_t rounds = ceil_div(shape_.tiles, shape_.unit_threads / shape_.team),
                      planes = out_.shape[0] * shape_.unit_blocks() * shape_.block_classes();
        const int64_t full = ceil_div(8 * s_.target.multiprocessors, planes);
        const int64_t weights = shape_.block_channels() * shape_.cin * shape_.entries(),
                      outputs = shape_.threads() * shape_.columns() * shape_.positions() * shape_.lanes;
        const int64_t most_rounds = std::max<int64_t>(2, ceil_div(16 * weights, outputs));
        const int64_t slices = shape_.grid.empty() ? std::max(full, ceil_div(rounds, most_rounds)) : full;
        shape_.slices = std::clamp<int64_t>(slices, 1, rounds);
    }

    const Surroundings& s_;
    const Graph& graph_;
    const std::vector<Sink>& sinks_;
    std::string* const why_not_;
    const Type& out_;
    GroupedShape shape_;
};

}  // namespace

int64_t GroupedShape::positions() const {
    int64_t count = 1;
    for (size_t a = 0; a < windows.size(); ++a)
        if (by_channel || a + 1 < windows.size()) count *= windows[a].run();
    return count;
}

int64_t GroupedShape::block_classes() const {
    int64_t count = 1;
    for (size_t a = 0; a + 1 < windows.size(); ++a) count *= windows[a].classes();
    return count;
}

int64_t GroupedShape::staged(size_t axis) const {
    const RunWindow& window = windows[axis];
    return !window.fixed() && axis + 1 < windows.size() ? window.class_entries()
                                                        : static_cast<int64_t>(window.staged().size());
}

int64_t GroupedShape::entries() const {
    int64_t count = 1;
    for (size_t a = 0; a < windows.size(); ++a) count *= staged(a);
    return count;
}

bool takes_vectors(const Place& place, const Sizes& shape, size_t axis, int64_t vector) {
    if (!place.aligned || place.strides[axis] != 1 || vector * bytes(place.storage) > 16) return false;
    for (size_t a = 0; a < shape.size(); ++a)
        if (a != axis && shape[a] > 1 && place.strides[a] % vector != 0) return false;
    return true;
}

std::optional<GroupedShape> grouped_shape(const Surroundings& surroundings, const std::vector<Sink>& sinks,
                                          std::string* why_not) {
    return Chooser(surroundings, sinks, why_not).run();
}

}  // namespace transfuse::cuda
