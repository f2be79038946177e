// The product of a dense pass, as integers.
#include <algorithm>

#include "cuda/dense/read/refusal.h"
#include "cuda/dense/read/tile_program.h"
#include "cuda/dense/schedule/figures.h"

namespace transfuse::cuda {

int64_t unaligned_rows_extent(const Problem& problem, const TileProgram& program) {
    const auto& s = program.input.strides;
    int64_t extent = (problem.lanes() - 1) * s[1] + 1;
    for (size_t a = 1; a < 4; ++a) extent += (problem.axes[a].in - 1) * s[a + 1];
    return extent;
}

std::optional<Problem> read_problem(const Surroundings& around, const TileProgram& program, Family family,
                                    std::string* why_not) {
    const Refusal no{why_not};
    const Graph& graph = around.plan.graph;
    const Node& anchor = graph[around.pass.anchor];
    const Lattices axes = lattices(graph, around.pass.anchor);
    Problem problem;
    problem.family = family;
    const int64_t batch = anchor.type.shape[0];
    for (Lattice& a : problem.axes) a = Lattice{};
    problem.axes[0].in = problem.axes[0].out = batch;
    for (size_t k = 0; k < axes.size(); ++k) problem.axes[4 - axes.size() + k] = axes[k];
    // An axis of one input: every tap meets it in an output of its own, whatever `up` is. As many phases as outputs,
    // and no product meets padding.
    for (size_t a = 1; a < 4; ++a)
        if (Lattice& axis = problem.axes[a];
            axis.in == 1 && axis.down == 1 && axis.out > 1 && axis.out <= 8 && !program.pool)
            axis.up = axis.out;
    const Type& w = graph[anchor.args[1]].type;
    problem.groups = w.shape[0], problem.cin = w.shape[1], problem.cout = w.shape[2];
    const DType dtype = graph[anchor.args[0]].type.dtype;
    if (dtype == DType::f64 && family == Family::wgmma) return no("wgmma has no fp64");
    if (w.dtype != dtype) return no("x and w of different dtypes");
    problem.arithmetic = dtype == DType::f64                 ? Arithmetic::f64
                         : dtype == DType::f16               ? Arithmetic::f16
                         : dtype == DType::bf16              ? Arithmetic::bf16
                         : tf32_pays(around, problem, false) ? Arithmetic::tf32
                                                             : Arithmetic::strict;
    const auto& s = program.input.strides;
    auto multiples_of = [&](int lanes) {  // steps along an axis of one pixel do not matter
        for (size_t a = 0; a < 4; ++a)
            if (problem.axes[a].in > 1 && s[a == 0 ? 0 : a + 1] % lanes != 0) return false;
        return true;
    };
    const bool vectors = s[1] == 1 && problem.cin % problem.lanes() == 0 && around.aligned &&
                         program.input.offset % problem.lanes() == 0 && multiples_of(problem.lanes());
    // Boxes and rows begin on 16 bytes; a prologue sees two 16-bit pixels both inside or both outside; else two 16-bit
    // pixels at once, or one by one.
    const Sizes& input = graph[anchor.args[0]].type.shape;
    bool steps = true;  // every axis really is stepped along
    for (size_t k = 0; k < input.size(); ++k)
        steps = steps && (input[k] == 1 || s[k < 2 ? k : k + 3 - static_cast<size_t>(program.spatial)] > 0);
    auto multiple = [&](int64_t of) {
        return s[4] == 1 && steps && around.aligned && program.input.offset % of == 0 && s[0] % of == 0 &&
               s[1] % of == 0 && s[2] % of == 0 && s[3] % of == 0;
    };
    const bool boxes = family == Family::wgmma && steps;
    bool unit = true;  // neighbours of the patch are neighbours in memory
    for (const Lattice& axis : problem.axes) unit = unit && axis.advance() == 1;
    const bool narrow = problem.lanes() == 8;
    if (vectors && boxes && unit && program.prologue.empty() && problem.terms() == 1)
        problem.load = LoadMode::operand;
    else if (vectors && boxes && (!narrow || !program.prologue.empty()))
        problem.load = LoadMode::vector_boxes;
    else if (vectors && (!narrow || program.prologue.empty()))
        problem.load = narrow ? LoadMode::direct : LoadMode::vectors;
    else if (boxes && multiple(problem.lanes()) && (!narrow || program.prologue.empty() || problem.axes[3].in % 2 == 0))
        problem.load = LoadMode::boxes;
    else if (boxes && s[4] == 1 && around.aligned && program.input.offset % problem.lanes() == 0 &&
             problem.cin % problem.lanes() == 0 && (batch == 1 || s[0] % problem.lanes() == 0) &&
             problem.axes[3].in >= figures::shortest_line && problem.axes[1].in == 1 && problem.axes[2].in > 1 &&
             unaligned_rows_extent(problem, program) < int64_t{1} << 31)
        problem.load = LoadMode::unaligned_rows;
    else if (multiple(problem.lanes()) && problem.axes[3].in % problem.lanes() == 0 && problem.axes[3].advance() == 1)
        problem.load = LoadMode::rows;
    else
        problem.load = !narrow ? LoadMode::planar
                       : multiple(2) && problem.axes[3].in % 2 == 0 && problem.axes[3].advance() == 1
                           ? LoadMode::pairs
                           : LoadMode::singles;
    int64_t reach = 0;
    const Sizes& shape = graph[anchor.args[0]].type.shape;
    for (size_t k = 0; k < shape.size(); ++k)
        if (k != 1) reach += (shape[k] - 1) * std::abs(s[k < 2 ? k : k + 3 - static_cast<size_t>(program.spatial)]);
    // As one row: pays where rows are short, or where a prologue would be evaluated beside the image.
    problem.rows_adjoin = problem.load == LoadMode::boxes && unit && problem.axes[3].in % problem.lanes() == 0 &&
                          s[3] == problem.axes[3].in && (problem.axes[3].in <= 16 || !program.prologue.empty());
    problem.wide_offsets = reach >= (int64_t(1) << 31);
    if (numel(anchor.type.shape) == 0 || numel(graph[anchor.args[0]].type.shape) == 0) return no("an empty tensor");
    for (const Lattice& axis : problem.axes)
        if (axis.in >= (1 << 24) * 8 || axis.out >= (1 << 24) * 8 || axis.advance() > 4)
            return no("an axis beyond this family");
    if (program.pool) {
        const Needs needs = program.needs(1);
        for (size_t a = 1; a < 4; ++a)
            if (needs.pool[a] % problem.axes[a].period() != 0) return no("a pool whose windows cut a period of phases");
    }
    // One channel in, one out, many groups: no matrix in it.
    if (problem.groups > 1 && problem.cin * problem.cout < 16)
        return no("too few channels a group for a matrix product");
    return problem;
}

}  // namespace transfuse::cuda
