// The product of a dense pass, as integers.
#include <algorithm>

#include "cuda/dense/read/refusal.h"
#include "cuda/dense/read/tile_program.h"
#include "cuda/dense/schedule/figures.h"

namespace transfuse::cuda {

int64_t unaligned_rows_extent(const Problem& problem, const Operand& input) {
    const auto& s = input.strides;
    int64_t extent = (problem.lanes() - 1) * s[1] + 1;
    for (size_t a = 1; a < 4; ++a) extent += (problem.axes[a].in - 1) * s[a + 1];
    return extent;
}

namespace {

// An axis of one input: every tap meets it in an output of its own, whatever `up` is. As many phases as outputs, and no
// product meets padding.
void give_each_output_a_phase(Lattice& axis) {
    if (axis.in == 1 && axis.down == 1 && axis.out > 1 && axis.out <= 8) axis.up = axis.out;
}

Arithmetic arithmetic_of(DType dtype, const Surroundings& around, const Problem& problem) {
    switch (dtype) {
        case DType::f64:
            return Arithmetic::f64;
        case DType::f16:
            return Arithmetic::f16;
        case DType::bf16:
            return Arithmetic::bf16;
        default:
            return tf32_pays(around, problem, false) ? Arithmetic::tf32 : Arithmetic::strict;
    }
}

// How the input lies, and which ways of loading that allows.
class InputLayout {
public:
    InputLayout(const Surroundings& around, const TileProgram& program, const Problem& problem, const Sizes& shape)
        : problem_(problem),
          input_(program.input),
          s_(program.input.strides),
          aligned_(around.aligned),
          plain_(program.prologue.empty()) {
        for (size_t k = 0; k < shape.size(); ++k) {
            const int64_t step = s_[k < 2 ? k : k + 3 - static_cast<size_t>(program.spatial)];
            steps_ = steps_ && (shape[k] == 1 || step > 0);
            if (k != 1) reach_ += (shape[k] - 1) * std::abs(step);
        }
        for (const Lattice& axis : problem.axes) unit_ = unit_ && axis.advance() == 1;
    }

    // Boxes and rows begin on 16 bytes; a prologue sees two 16-bit pixels both inside or both outside; else two 16-bit
    // pixels at once, or one by one.
    LoadMode load() const {
        const bool narrow = problem_.lanes() == 8, boxes = problem_.family == Family::wgmma && steps_;
        const int64_t width = problem_.axes[3].in;
        if (has_vectors()) {
            if (boxes && unit_ && plain_ && problem_.terms() == 1) return LoadMode::operand;
            if (boxes && (!narrow || !plain_)) return LoadMode::vector_boxes;
            if (!narrow || plain_) return narrow ? LoadMode::direct : LoadMode::vectors;
        }
        if (boxes && in_multiples(problem_.lanes()) && (!narrow || plain_ || width % 2 == 0)) return LoadMode::boxes;
        if (boxes && has_long_rows()) return LoadMode::unaligned_rows;
        const bool neighbours = problem_.axes[3].advance() == 1;
        if (neighbours && in_multiples(problem_.lanes()) && width % problem_.lanes() == 0) return LoadMode::rows;
        if (!narrow) return LoadMode::planar;
        return neighbours && in_multiples(2) && width % 2 == 0 ? LoadMode::pairs : LoadMode::singles;
    }

    // As one row: pays where rows are short, or where a prologue would be evaluated beside the image.
    bool rows_adjoin(LoadMode load) const {
        const int64_t width = problem_.axes[3].in;
        return load == LoadMode::boxes && unit_ && width % problem_.lanes() == 0 && s_[3] == width &&
               (width <= 16 || !plain_);
    }
    bool wide_offsets() const { return reach_ >= int64_t{1} << 31; }

private:
    // Each pixel has its channels in whole vectors. Steps along an axis of one pixel do not matter.
    bool has_vectors() const {
        if (s_[1] != 1 || problem_.cin % problem_.lanes() != 0 || !begins_on(problem_.lanes())) return false;
        for (size_t a = 0; a < 4; ++a)
            if (problem_.axes[a].in > 1 && s_[a == 0 ? 0 : a + 1] % problem_.lanes() != 0) return false;
        return true;
    }
    // Each row begins on so many elements.
    bool in_multiples(int64_t of) const {
        return s_[4] == 1 && steps_ && begins_on(of) && s_[0] % of == 0 && s_[1] % of == 0 && s_[2] % of == 0 &&
               s_[3] % of == 0;
    }
    bool has_long_rows() const {
        const int lanes = problem_.lanes();
        return s_[4] == 1 && begins_on(lanes) && problem_.cin % lanes == 0 &&
               (problem_.axes[0].in == 1 || s_[0] % lanes == 0) && problem_.axes[3].in >= figures::shortest_line &&
               problem_.axes[1].in == 1 && problem_.axes[2].in > 1 &&
               unaligned_rows_extent(problem_, input_) < int64_t{1} << 31;
    }
    bool begins_on(int64_t elements) const { return aligned_ && input_.offset % elements == 0; }

    const Problem& problem_;
    const Operand& input_;
    const std::array<int64_t, 5>& s_;
    const bool aligned_, plain_;  // no prologue
    bool steps_ = true;           // every axis really is stepped along
    bool unit_ = true;            // neighbours of the patch are neighbours in memory
    int64_t reach_ = 0;           // of a channel, in elements
};

}  // namespace

std::optional<Problem> read_problem(const Surroundings& around, const TileProgram& program, Family family,
                                    std::string* why_not) {
    const Refusal no{why_not};
    const Graph& graph = around.plan.graph;
    const Node& anchor = graph[around.pass.anchor];
    const Type &x = graph[anchor.args[0]].type, &w = graph[anchor.args[1]].type;
    if (x.dtype == DType::f64 && family == Family::wgmma) return no("wgmma has no fp64");
    if (w.dtype != x.dtype) return no("x and w of different dtypes");
    if (numel(anchor.type.shape) == 0 || numel(x.shape) == 0) return no("an empty tensor");
    Problem problem;
    problem.family = family;
    for (Lattice& axis : problem.axes) axis = Lattice{};
    problem.axes[0].in = problem.axes[0].out = anchor.type.shape[0];
    const Lattices axes = lattices(graph, around.pass.anchor);
    for (size_t k = 0; k < axes.size(); ++k) problem.axes[4 - axes.size() + k] = axes[k];
    for (size_t a = 1; a < 4 && !program.pool; ++a) give_each_output_a_phase(problem.axes[a]);
    problem.groups = w.shape[0], problem.cin = w.shape[1], problem.cout = w.shape[2];
    problem.arithmetic = arithmetic_of(x.dtype, around, problem);
    const InputLayout layout(around, program, problem, x.shape);
    problem.load = layout.load();
    problem.rows_adjoin = layout.rows_adjoin(problem.load), problem.wide_offsets = layout.wide_offsets();
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
