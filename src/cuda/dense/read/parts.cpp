#include "cuda/dense/read/parts.h"

#include <algorithm>

#include "algebra/lattice/integer.h"
#include "cuda/dense/schedule/figures.h"

namespace transfuse::cuda {

namespace {

bool is_in_rows(Col2imAxes axes, size_t axis) { return axes >> (axis - 1) & 1; }

// None where channels fill the rows.
Col2imAxes col2im_axes(const Problem& problem, const Machine& machine) {
    const double terms = problem.terms() == 2 ? 3 : 1;  // products of each pair
    Col2imAxes best = 0;
    double least = 0;
    for (Col2imAxes some = 0; some < 8; ++some) {
        int64_t rows = problem.cout, places = problem.groups * problem.axes[0].in;
        double pairs = static_cast<double>(places * problem.cin);  // of outputs and what they are made of
        bool able = true;
        for (size_t a = 1; a < 4; ++a) {
            const Lattice& axis = problem.axes[a];
            if (is_in_rows(some, a)) {
                able = able && axis.down == 1 && axis.in > 1 && axis.taps > 1;
                rows *= axis.taps, places *= axis.in, pairs *= static_cast<double>(axis.in);
            } else {
                places *= axis.out;
                pairs *= static_cast<double>(axis.out * axis.taps) / static_cast<double>(axis.up);
            }
        }
        if (!able || (some && (rows > figures::most_tap_rows || places * rows >= int64_t{1} << 31))) continue;
        const double moved = some ? 8 * static_cast<double>(places * rows) : 0;
        const double seconds =
            2 * terms * pairs * static_cast<double>(round_up(rows, 64)) / machine.flops + moved / machine.bandwidth;
        if (some == 0 || seconds < least) least = seconds, best = some;
    }
    return best;
}

// Numbers of slices, each of whole K steps: as many as leave each multiprocessor half a tile of the largest kind, and
// half of them. More slices make tiles larger and the sums to be added up more: estimates of deep layers are least
// there.
Few<int64_t, 2> slices_worth_it(const Problem& problem, const Target& target) {
    double outputs = static_cast<double>(problem.groups * round_up(problem.cout, 64));
    for (const Lattice& axis : problem.axes) outputs *= static_cast<double>(axis.out);
    const double tiles = outputs / (2 * 128 * problem.accumulator_registers(1));
    const double room = std::min(figures::most_slices, target.multiprocessors / std::max(2 * tiles, 1.0));
    Few<int64_t, 2> worth;
    for (auto slices = static_cast<int64_t>(room); slices > 1 && worth.size() < 2; --slices)
        if (problem.cin % (slices * 2 * problem.lanes()) == 0 && (worth.empty() || 2 * slices <= worth[0]))
            worth.push_back(slices);
    return worth;
}

}  // namespace

Few<SumParts, 4> parts_worth_trying(const Problem& problem, const Surroundings& around, double seconds) {
    Few<SumParts, 4> worth;
    if (problem.real_bytes() != 4 || seconds * figures::parts_clearly_faster <= around.plan.machine.launch)
        return worth;
    // Products of 16 bits leave nothing to gain by col2im.
    const Graph& graph = around.plan.graph;
    const bool words = graph[graph[around.pass.anchor].args[0]].type.dtype == DType::f32;
    if (const Col2imAxes axes = words ? col2im_axes(problem, around.plan.machine) : 0) worth.push_back({.taps = axes});
    if (seconds > figures::worth_slicing)
        for (const int64_t slices : slices_worth_it(problem, around.target)) worth.push_back({.slices = slices});
    return worth;
}

bool chain_can_gather(const Surroundings& around) {
    const Graph& graph = around.plan.graph;
    if (reduces_rows(graph, around.pass)) return false;
    for (const TileStep& step : around.pass.steps)
        if (step.scope != Scope::prologue &&
            (step.scope != Scope::tile || !(step.value == around.pass.anchor || is_pointwise(graph[step.value].op) ||
                                            is_reduction(graph[step.value].op))))
            return false;
    return true;
}

void make_in_parts(TileProgram& program, Problem& problem, const SumParts& parts) {
    const Graph& graph = program.around->plan.graph;
    for (size_t a = 1; a < 4; ++a) {
        if (!is_in_rows(parts.taps, a)) continue;
        Lattice& axis = problem.axes[a];
        problem.tap_rows[a - 1] = axis.taps, problem.cout *= axis.taps;
        axis = Lattice{.in = axis.in, .out = axis.in};
        program.grid_shape[a + 1] = axis.out;
    }
    problem.slices = parts.slices, problem.groups *= parts.slices, problem.cin /= parts.slices;
    program.grid_shape[1] = problem.groups * problem.cout;
    // Of the tile program only the prologue is left.
    auto before = [&](const Operand& o) {
        return std::any_of(program.prologue.begin(), program.prologue.end(), [&](ValueId v) {
            return std::count(graph[v].args.begin(), graph[v].args.end(), o.value) > 0;
        });
    };
    const auto behind =
        std::remove_if(program.reads.begin(), program.reads.end(), [&](const Operand& o) { return !before(o); });
    program.reads.erase(behind, program.reads.end());
    program.steps.clear(), program.bias = -1, program.chain_instructions = 1, program.pixel_major = false;
    Operand products;
    products.value = program.around->pass.anchor;
    int64_t stride = 1;
    for (size_t a = 5; a-- > 0; stride *= program.grid_shape[a])
        products.strides[a] = stride, products.depends[a] = program.grid_shape[a] > 1;
    program.stores = {products};
}

int64_t parts_stored(const Problem& problem) {
    int64_t count = problem.groups * problem.cout;
    for (const Lattice& axis : problem.axes) count *= axis.out;
    return count;
}

Place place_of_parts(const Surroundings& around, const Problem& problem, int64_t at) {
    Place place;
    place.base = Argument::of_scratch(at);
    place.read_only = false, place.aligned = true;
    place.slices = problem.slices, place.col2im = lattices(around.plan.graph, around.pass.anchor);
    place.strides.assign(place.col2im.size() + 2, 1);
    const size_t first = 4 - place.col2im.size();
    for (size_t a = place.col2im.size(); a-- > 0;) {
        const int64_t extent = problem.axes[first + a].out;
        if (problem.tap_rows[first + a - 1] == 1) place.col2im[a] = Lattice{.in = extent, .out = extent};
        place.strides[a + 1] = place.strides[a + 2] * extent;
    }
    place.strides[0] = place.strides[1] * problem.groups * problem.cout;
    return place;
}

double seconds_to_add_up(const Surroundings& around, const Problem& problem) {
    const Machine& machine = around.plan.machine;
    const Graph& graph = around.plan.graph;
    const Type& y = graph[around.pass.anchor].type;
    const auto parts = static_cast<double>(parts_stored(problem)), outputs = static_cast<double>(numel(y.shape));
    // What channels are reduced to is found first, by a launch of its own.
    const bool twice = std::any_of(around.pass.steps.begin(), around.pass.steps.end(),
                                   [&](const TileStep& step) { return is_reduction(graph[step.value].op); });
    const double once =
        machine.launch + std::max((4 * parts + static_cast<double>(bytes(y.dtype)) * outputs) / machine.bandwidth,
                                  (parts + outputs) / (figures::gather_rate * around.target.multiprocessors));
    return twice ? 2 * once : once;
}

std::string name_of_parts(const SumParts& parts) {
    return parts.slices > 1 ? "the sums of " + std::to_string(parts.slices) + " slices of its channels"
                            : "the products of each tap";
}

}  // namespace transfuse::cuda
