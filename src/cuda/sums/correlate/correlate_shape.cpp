#include "cuda/sums/correlate/correlate_shape.h"

#include <algorithm>
#include <utility>

#include "algebra/lattice/integer.h"
#include "cuda/sums/correlate/figures.h"

namespace transfuse::cuda {

using namespace figures::correlate;

namespace {

constexpr int64_t widest_span =
    2 * CorrelateShape::depth;  // this step's positions, those of the turns, and the next step's

TapRange range_of(const Lattice& axis, int64_t k) {
    TapRange range;
    int64_t first = 0, last = axis.out - 1;
    while (first < axis.out && !axis.input(first, k)) ++first;
    while (last >= first && !axis.input(last, k)) --last;
    if (first > last) return range;
    range.first_o = first, range.first_i = *axis.input(first, k);
    range.count = (last - first) / axis.period() + 1;
    return range;
}

}  // namespace

CorrelateShape::CorrelateShape(const Surroundings& s, ValueId id)
    : x(s.plan.graph[id].args[0]),
      g(s.plan.graph[id].args[1]),
      sizes(s.plan.graph[id].type.shape),
      s_(s),
      graph_(s.plan.graph),
      id_(id),
      strict_(s.precision == Fp32Precision::strict && graph_[id].type.dtype == DType::f32) {
    read_axes();
}

void CorrelateShape::read_axes() {
    const Sizes &in = graph_[x].type.shape, &out = graph_[g].type.shape;
    const auto& a = graph_[id_].attributes;
    batch = in[0];
    for (size_t i = 0; i + 2 < in.size(); ++i) {
        Lattice axis;
        axis.up = a.integers(Key::up)[i], axis.down = a.integers(Key::down)[i], axis.dil = a.integers(Key::dil)[i];
        axis.offset = a.integers(Key::offset)[i], axis.taps = a.integers(Key::taps)[i];
        axis.in = in[i + 2], axis.out = out[i + 2];
        if (i + 3 == in.size()) {
            row = axis;
            break;
        }
        outer.push_back(axis);
        outer_taps *= axis.taps;
        ranges.emplace_back();
        int64_t most = 0;
        for (int64_t k = 0; k < axis.taps; ++k) {
            ranges.back().push_back(range_of(axis, k));
            most = std::max(most, ranges.back().back().count);
        }
        rows_of_image_ *= most;
    }
}

bool CorrelateShape::arrange(std::string* why_not) {
    auto refuse = [&](const char* why) {
        if (why_not) *why_not = why;
        return false;
    };
    if (graph_[id_].type.dtype == DType::f64) return refuse("float64 products");
    if (numel(graph_[x].type.shape) >= int64_t{1} << 31 || numel(graph_[g].type.shape) >= int64_t{1} << 31)
        return refuse("more than 2^31 elements");
    if (!arrange_columns() && !arrange_groups() && !arrange_warps(why_not)) return false;
    if (!by_columns) {
        row_pitch = pitch_of_rows();
        row_tiles = ceil_div(sizes[1], rows), column_tiles = ceil_div(sizes[2], columns);
    }
    const int64_t all = positions();
    if (all < few_positions && all * numel(sizes) < few_products) return refuse("few pixels");
    if (all >= int64_t{1} << 30) return refuse("more than 2^30 pixels");
    if (blocks() >= 1 << 24) return refuse("too many tiles");
    lay_slots();
    choose_slices();
    return true;
}

int64_t CorrelateShape::positions() const {
    if (!by_columns) return batch * rows_of_image_ * row_pitch;
    const auto many = [&](const Lattice& axis) { return gathers_x ? axis.out : axis.in; };
    int64_t all = batch * many(row);
    for (const Lattice& axis : outer) all *= many(axis);
    return all;
}

int64_t CorrelateShape::padded_products() const {
    if (by_columns) return row_tiles * rows * column_tiles * columns;
    return ceil_div(sizes[1], rows) * rows * ceil_div(sizes[2], columns) * columns * outer_taps *
           static_cast<int64_t>(taps.bundles.size() * taps.turns());
}

// One operand's channels and taps as columns: where that multiplies fewer zeros than tiles of channels would.
bool CorrelateShape::arrange_columns() {
    if (!arrange_groups() && !arrange_warps(nullptr)) return false;
    const double tiles = static_cast<double>(padded_products()) / (by_groups ? faster_by_groups : 1);
    const bool groups = std::exchange(by_groups, false);
    bool x_is_met = row.up == 1, g_is_met = row.down == 1;  // at every tap, by a position of the other
    for (const Lattice& axis : outer) x_is_met &= axis.up == 1, g_is_met &= axis.down == 1;
    if (!x_is_met && !g_is_met) return by_groups = groups, false;
    gathers_x = x_is_met && (!g_is_met || sizes[1] < sizes[2]);
    const int64_t many = sizes[gathers_x ? 2 : 1], few = sizes[gathers_x ? 1 : 2] * all_taps();
    rows = many > 32 ? 64 : 32;
    const int64_t warp_columns = 8 * (8 / (rows / 32));
    columns = round_up(ceil_div(few, ceil_div(few, 128)), warp_columns);
    row_tiles = ceil_div(many, rows), column_tiles = ceil_div(few, columns);
    by_columns = true;
    if (static_cast<double>(padded_products()) < tiles && shared_bytes() <= s_.target.shared_bytes / 2) return true;
    return by_columns = false;
}

// A warp's stores are neighbours: columns, or channels of the operand that lies along the fragments.
void CorrelateShape::lay_slots() {
    slot_strides = contiguous_strides(sizes);
    if (by_columns) {
        if (gathers_x) slot_strides[1] = all_taps(), slot_strides[2] = sizes[1] * all_taps();
        return;
    }
    for (size_t axis = 3; axis < sizes.size(); ++axis) slot_strides[axis] *= sizes[1] * sizes[2];
    const bool along_x = by_groups && !taps.turns_x;
    slot_strides[1] = along_x ? 1 : sizes[2], slot_strides[2] = along_x ? sizes[1] : 1;
}

// Tiles for warpgroups: their products have 64 rows, so fewer channels than half of them would be mostly zeros.
bool CorrelateShape::arrange_groups() {
    const bool turns_x = tap_bundles(row, 1, 1, widest_span).turns_x;
    const int64_t of_turned = turns_x ? sizes[1] : sizes[2], of_still = turns_x ? sizes[2] : sizes[1];
    by_groups = s_.target.has_wgmma() && !strict() && of_turned > 32 && of_still >= 8;
    if (!by_groups) return false;
    const int64_t tile = round_up(ceil_div(of_still, ceil_div(of_still, 128)), of_still > 64 ? 16 : 8);
    rows = turns_x ? 64 : tile, columns = turns_x ? tile : 64;
    if (bundle())
        for (slots = 4; slots > 1; --slots)
            if (shared_bytes() <= s_.target.shared_bytes) return true;
    by_groups = false;
    return false;
}

bool CorrelateShape::arrange_warps(std::string* why_not) {
    auto refuse = [&](const char* why) {
        if (why_not) *why_not = why;
        return false;
    };
    rows = sizes[1] > 32 ? 64 : 32;
    columns = sizes[2] > 64 ? 128 : sizes[2] > 32 || rows == 32 ? 64 : 32;
    if (!bundle()) return refuse("a tap that meets nothing");
    while (shared_bytes() > s_.target.shared_bytes && columns > 32) columns /= 2, bundle();
    if (shared_bytes() > s_.target.shared_bytes) return refuse("little shared memory");
    return true;
}

int64_t CorrelateShape::shared_bytes() const {
    if (by_columns) return 4 * (2 * (rows + columns) * pitch + columns * (static_cast<int64_t>(outer.size()) + 2));
    if (!by_groups) return 4 * (turned_tile() * ring_pitch + 2 * still_floats());
    // At the end one warpgroup hands its sums to the other there.
    const int64_t sums = static_cast<int64_t>(taps.turns()) * group_columns() / 2 * 128 * 4;
    return std::max(barriers_at() + 16 * slots, halves_columns() ? 0 : sums);
}

// The taps of a row in bundles that registers hold; false where a tap is in none.
bool CorrelateShape::bundle() {
    const int64_t planes = row.advance() == 1 || row.period() != 1 ? columns : rows;
    const int64_t a_turn = by_groups ? (planes > 64 ? planes / 2 : planes) / 2 : 8 * fragments();
    const int64_t most = (strict() ? accumulators_strict : accumulators) / a_turn;
    const int64_t staged = by_groups ? (held_by_loaders - 16) / (planes / 4)
                                     : (held - 8 * fragments() * std::min<int64_t>(most, 4)) / (planes / 8);
    taps = tap_bundles(row, static_cast<size_t>(std::clamp<int64_t>(most, 1, 8)),
                       static_cast<size_t>(std::clamp<int64_t>(staged, 1, 4)), widest_span);
    int64_t taken = 0;
    for (const Bundle& bundle : taps.bundles)
        for (const Plane& plane : bundle.planes)
            for (const Turn& turn : plane.turns) taken += turn.tap >= 0;
    return taken == row.taps;
}

int64_t CorrelateShape::pitch_of_rows() const {
    const int64_t of_g = ceil_div(row.out, row.period()), of_x = ceil_div(row.in, row.advance());
    return taps.turns_x ? std::max(of_g + taps.most_turn, of_x - taps.least_turn)
                        : std::max(of_x + taps.most_turn, of_g - taps.least_turn);
}

int64_t CorrelateShape::blocks() const {
    const int64_t tiles = sizes[0] * row_tiles * column_tiles;
    return by_columns ? tiles : tiles * outer_taps * static_cast<int64_t>(taps.bundles.size());
}

// Blocks that fill the device a whole number of times, and chains short enough for the tensor cores. A block begins and
// ends in the time of so many steps; each slice's sums are stored and read again.
void CorrelateShape::choose_slices() {
    const int64_t all = positions(), steps = ceil_div(all, depth);
    const int64_t at_once = s_.target.multiprocessors * (by_groups ? 1 : 2);
    const double stored = 8.0 * static_cast<double>(numel(sizes)) / s_.plan.machine.bandwidth / step_seconds;
    const int64_t least = std::max<int64_t>(1, ceil_div(all, longest_chain));
    const int64_t most = std::max(least, std::min(steps / 4, 4 * at_once / blocks() + 1));
    double best = 0;
    slices = 0;
    for (int64_t count = least; count <= most; ++count) {
        const double rounds = static_cast<double>(ceil_div(blocks() * count, at_once));
        const double taken =
            rounds * (static_cast<double>(ceil_div(steps, count)) + begins) + static_cast<double>(count) * stored;
        if (slices == 0 || taken < best) best = taken, slices = count;
    }
    slice = round_up(ceil_div(all, slices), depth);
    slices = ceil_div(all, slice);
}

}  // namespace transfuse::cuda
