// The moments pass: reads a tensor once, row by row, and sums it over boxes in fp64.
//
// The intervals of all boxes cut each reduced axis into cells; a row adds to the cells it meets, and a box is the sum
// of its cells. Box edges cut only a few border samples, so almost all of a row falls into one cell.
#include <algorithm>
#include <sstream>

#include "algebra/lattice/integer.h"
#include "cpu/pass/pass.h"
#include "cpu/primitive/tail.h"
#include "cpu/tensors/plane.h"
#include "cpu/threads/thread_pool.h"
#include "cpu/tiles/tile_program.h"
#include "transfuse/error.h"
#include "transfuse/lattice.h"

namespace transfuse::cpu {
namespace {

// One box_sums node, its cells per axis of five.
struct BoxSums {
    ValueId value;
    std::array<bool, 3> reduced{};
    std::array<std::vector<int64_t>, 3> edges;                 // cells: [edges[i], edges[i + 1])
    std::array<std::vector<std::vector<int64_t>>, 3> members;  // per interval: its cells
    Sizes counts;                                              // intervals per reduced axis
    std::vector<size_t>
        widest;  // cells of the last axis, the widest first: it brings the narrow ones' cache lines along
    std::array<int64_t, 3> cells{1, 1, 1};
    int64_t boxes = 1;

    // False where an interval skips samples: those go step by step.
    bool read(const Node& node, const Type& x) {
        const Attributes& a = node.attributes;
        counts = a.integers(Key::counts);
        boxes = numel(counts);
        size_t next = 0;
        const size_t shift = 5 - x.shape.size();
        for (size_t j = 0; j < counts.size(); ++j) {
            const auto dim = static_cast<size_t>(a.integers(Key::dims)[j]);
            const size_t s = dim + shift - 2;
            reduced[s] = true;
            std::vector<Interval> intervals;
            for (int64_t i = 0; i < counts[j]; ++i, ++next) {
                intervals.push_back(
                    {a.integers(Key::los)[next], a.integers(Key::his)[next], a.integers(Key::steps)[next]});
                if (intervals.back().step != 1 && intervals.back().size() > 1) return false;
                intervals.back().step = 1;
            }
            std::vector<int64_t> cuts{0, x.shape[dim]};
            for (const Interval& i : intervals)
                if (!i.empty()) cuts.insert(cuts.end(), {i.lo, i.hi + 1});
            std::sort(cuts.begin(), cuts.end());
            cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
            edges[s] = cuts;
            cells[s] = static_cast<int64_t>(cuts.size()) - 1;
            for (const Interval& i : intervals) {
                std::vector<int64_t> inside;
                for (size_t c = 0; c + 1 < cuts.size(); ++c)
                    if (!i.empty() && cuts[c] >= i.lo && cuts[c + 1] - 1 <= i.hi)
                        inside.push_back(static_cast<int64_t>(c));
                members[s].push_back(std::move(inside));
            }
        }
        const auto width = [&](size_t cell) { return edges[2][cell + 1] - edges[2][cell]; };
        for (size_t cell = 0; cell + 1 < edges[2].size(); ++cell) widest.push_back(cell);
        std::stable_sort(widest.begin(), widest.end(), [&](size_t a, size_t b) { return width(a) > width(b); });
        return true;
    }
    int64_t cell(size_t axis, int64_t i) const {
        if (!reduced[axis] || cells[axis] == 1) return 0;
        const auto at = std::upper_bound(edges[axis].begin(), edges[axis].end(), i);
        return static_cast<int64_t>(at - edges[axis].begin()) - 1;
    }
};

template <class T>
class MomentsPass final : public CompiledPass {
public:
    MomentsPass(const Plan& plan, const Pass& pass, std::vector<BoxSums> sums, std::unique_ptr<TileProgram> prologue,
                ValueId source, ValueId reduced)
        : sums_(std::move(sums)),
          prologue_(std::move(prologue)),
          source_(source),
          shape_(plan.graph[source].type.shape),
          grid_(to_five(shape_, 1)),
          tail_(plan, pass, true, layout_) {
        if (prologue_) prologue_slot_ = prologue_->slot_of(reduced);
        // A job is one (n, c) and, on axes that some node keeps, one slice of the first of them.
        for (const BoxSums& s : sums_)
            for (size_t a = 0; a < 3; ++a) kept_[a] = kept_[a] || !s.reduced[a];
    }

    size_t workspace_bytes() const override { return layout_.total(); }

    void run(const Run& run) const override {
        const TensorView view = run.memory->source(source_);
        const Placed x = Placed::under(view, shape_);
        std::unique_ptr<BoundProgram> bound;
        if (prologue_) bound = std::make_unique<BoundProgram>(*prologue_, *run.memory);
        std::vector<Placed> results;
        for (const BoxSums& s : sums_) {
            const TensorView out = tail_.place(run, s.value);
            results.push_back({static_cast<char*>(out.data), static_cast<Storage>(out.dtype), bytes(out.dtype),
                               to_five(out.strides, 0)});
        }
        const Job job{run, x, bound.get(), results};
        if (x.channels_innermost() && !prologue_ && !kept_[0] && !kept_[1] && !kept_[2])
            run_channels_last(job);
        else
            run_rows(job);
        tail_.run(run);
    }

    std::string describe() const override {
        std::ostringstream text;
        text << "moments " << level().name << ": " << sums_.size() << " sets of boxes";
        for (const BoxSums& s : sums_) text << ", cells " << s.cells[0] << "x" << s.cells[1] << "x" << s.cells[2];
        if (prologue_) text << ", prologue";
        return text.str();
    }

private:
    struct Job {
        const Run& run;
        const Placed& x;
        const BoundProgram* bound;
        const std::vector<Placed>& results;
    };

    // Writes all boxes of one (n, c) from its cells; kept axes at `at`, `count` neighbours along a kept last axis.
    void write(const BoxSums& s, const Placed& out, const double* cells, int64_t n, int64_t c,
               const std::array<int64_t, 3>& at, int64_t count) const {
        Sizes counts(3, 1);
        for (size_t a = 0, j = 0; a < 3; ++a)
            if (s.reduced[a]) counts[a] = s.counts[j++];
        std::vector<double> row(static_cast<size_t>(count));
        for (int64_t b = 0; b < s.boxes; ++b) {
            const Odometer box(counts, b);
            std::fill(row.begin(), row.end(), 0.0);
            static const std::vector<int64_t> only{0};
            const auto cells_of = [&](size_t a) -> const std::vector<int64_t>& {
                return s.reduced[a] ? s.members[a][static_cast<size_t>(box[a])] : only;
            };
            for (int64_t i : cells_of(0))
                for (int64_t j : cells_of(1))
                    for (int64_t l : cells_of(2)) {
                        const double* from = cells + ((i * s.cells[1] + j) * s.cells[2] + l) * count;
                        for (int64_t e = 0; e < count; ++e) row[static_cast<size_t>(e)] += from[e];
                    }
            const auto place = [&](size_t a) { return s.reduced[a] ? 0 : at[a]; };
            kernels<double>().store(out.at(n, c * s.boxes + b, place(0), place(1), place(2)), out.storage,
                                    out.strides[4], row.data(), count);
        }
    }

    void run_rows(const Job& job) const {
        // Slices of a kept outer axis are independent; more jobs than (n, c) alone.
        const int64_t slices0 = kept_[0] ? grid_[2] : 1, slices1 = kept_[1] ? grid_[3] : 1;
        const int64_t group = std::max<int64_t>(1, std::min(slices1, 16384 / std::max<int64_t>(1, grid_[4])));
        const int64_t groups1 = ceil_div(slices1, group);
        parallel_for(job.run.threads, grid_[0] * grid_[1] * slices0 * groups1, [&](int64_t index) {
            const int64_t g = index % groups1, s0 = index / groups1 % slices0, nc = index / groups1 / slices0;
            const int64_t n = nc / grid_[1], c = nc % grid_[1];
            Scratch scratch;
            const int64_t width = grid_[4];
            T* row = scratch.acquire<T>(padded(width));
            std::unique_ptr<TileRun<T>> program;
            if (job.bound) {
                const Box box = Box::of(0, {0, 0, 0}, {1, 1, width});
                program = std::make_unique<TileRun<T>>(*prologue_, *job.bound, scratch, box, box, 0, 1);
            }
            std::vector<double*> cells;
            std::vector<int64_t> length;
            for (const BoxSums& s : sums_) {
                // A reduced row adds to lanes, which meet only when all rows are in.
                length.push_back(s.cells[0] * s.cells[1] * s.cells[2] * (s.reduced[2] ? sum_lanes : width));
                cells.push_back(scratch.acquire<double>(length.back()));
            }
            for (int64_t s1 = g * group; s1 < std::min(slices1, (g + 1) * group); ++s1) {
                for (size_t i = 0; i < sums_.size(); ++i) std::fill_n(cells[i], length[i], 0.0);
                const int64_t first = kept_[1] ? s1 : 0, last = kept_[1] ? s1 + 1 : grid_[3];
                for (int64_t a = kept_[0] ? s0 : 0; a < (kept_[0] ? s0 + 1 : grid_[2]); ++a) {
                    if (as_they_lie(job)) {
                        add_rows(job.x, n, c, a, first, last, cells);
                        continue;
                    }
                    for (int64_t b = first; b < last; ++b) add_row(job, program.get(), row, n, c, a, b, cells);
                }
                for (size_t i = 0; i < sums_.size(); ++i) {
                    if (sums_[i].reduced[2])
                        for (int64_t e = 0; e < length[i] / sum_lanes; ++e)
                            cells[i][e] =
                                kernels<double>().sum_memory(cells[i] + e * sum_lanes, Storage::f64, sum_lanes);
                    write(sums_[i], job.results[i], cells[i], n, c, {s0, s1, 0}, sums_[i].reduced[2] ? 1 : width);
                }
            }
        });
    }

    // Rows are summed where they lie: nothing is computed from them first, and all of each goes into lanes.
    bool as_they_lie(const Job& job) const {
        return !job.bound && job.x.strides[4] == 1 &&
               std::all_of(sums_.begin(), sums_.end(), [](const BoxSums& s) { return s.reduced[2]; });
    }

    // Rows first … last, those of one cell in one call, a first-level cache at a time: edges are read once more.
    void add_rows(const Placed& x, int64_t n, int64_t c, int64_t a, int64_t first, int64_t last,
                  const std::vector<double*>& cells) const {
        const int64_t together = std::max<int64_t>(4, 8192 / grid_[4] / 4 * 4);
        for (int64_t block = first; block < last; block += together)
            for (size_t i = 0; i < sums_.size(); ++i) {
                const BoxSums& s = sums_[i];
                const int64_t block_end = std::min(last, block + together);
                for (int64_t b = block, end; b < block_end; b = end) {
                    const int64_t cell = s.cell(1, b);
                    end = s.reduced[1] ? std::min(block_end, s.edges[1][static_cast<size_t>(cell) + 1]) : b + 1;
                    const int64_t at = (s.cell(0, a) * s.cells[1] + cell) * s.cells[2];
                    for (size_t l : s.widest) {
                        const int64_t from = s.edges[2][l];
                        kernels<T>().add_lanes(cells[i] + (at + static_cast<int64_t>(l)) * sum_lanes,
                                               x.at(n, c, a, b, from), x.storage, s.edges[2][l + 1] - from, end - b,
                                               x.strides[3]);
                    }
                }
            }
    }

    void add_row(const Job& job, TileRun<T>* program, T* row, int64_t n, int64_t c, int64_t a, int64_t b,
                 const std::vector<double*>& cells) const {
        const Placed& x = job.x;
        const int64_t width = grid_[4];
        const T* values = nullptr;
        if (program || x.strides[4] != 1) {
            kernels<T>().load(row, x.at(n, c, a, b, 0), x.storage, x.strides[4], width);
            clear_padding(row, width);
            values = program ? program->row(Box::of(n, {a, b, 0}, {1, 1, width}), c, row, prologue_slot_) : row;
        }
        for (size_t i = 0; i < sums_.size(); ++i) {
            const BoxSums& s = sums_[i];
            const int64_t first = (s.cell(0, a) * s.cells[1] + s.cell(1, b)) * s.cells[2];
            if (s.reduced[2]) {
                for (int64_t l = 0; l < s.cells[2]; ++l) {
                    const int64_t begin = s.edges[2][static_cast<size_t>(l)],
                                  end = s.edges[2][static_cast<size_t>(l) + 1];
                    const void* from = values ? static_cast<const void*>(values + begin) : x.at(n, c, a, b, begin);
                    double* lanes = cells[i] + (first + l) * sum_lanes;
                    kernels<T>().add_lanes(lanes, from, values ? own_storage : x.storage, end - begin, 1, 0);
                }
            } else {
                if (!values) {
                    kernels<T>().load(row, x.at(n, c, a, b, 0), x.storage, 1, width);
                    values = row;
                }
                kernels<T>().add_to(cells[i] + first * width, values, width);
            }
        }
    }

    // Channels lie side by side: a block of them is summed pixel after pixel, one block of rows per job, in fixed
    // order.
    void run_channels_last(const Job& job) const {
        const int64_t channels = grid_[1];
        const int64_t parts = std::clamp<int64_t>(grid_[2] * grid_[3] * grid_[4] * channels / 65536, 1,
                                                  std::min<int64_t>(grid_[2] * grid_[3], 64));
        const int64_t rows = grid_[2] * grid_[3];
        std::vector<int64_t> length;
        int64_t total = 0;
        for (const BoxSums& s : sums_) {
            length.push_back(s.cells[0] * s.cells[1] * s.cells[2] * channels);
            total += length.back();
        }
        std::vector<double> partial(static_cast<size_t>(grid_[0] * parts * total), 0.0);
        parallel_for(job.run.threads, grid_[0] * parts, [&](int64_t index) {
            const int64_t n = index / parts, part = index % parts;
            Scratch scratch;
            T* pixel = scratch.acquire<T>(padded(channels));
            for (int64_t r = rows * part / parts; r < rows * (part + 1) / parts; ++r) {
                const int64_t a = r / grid_[3], b = r % grid_[3];
                double* into = partial.data() + index * total;
                for (int64_t w = 0; w < grid_[4]; ++w) {
                    kernels<T>().load(pixel, job.x.at(n, 0, a, b, w), job.x.storage, 1, channels);
                    int64_t start = 0;
                    for (size_t i = 0; i < sums_.size(); ++i) {
                        const BoxSums& s = sums_[i];
                        const int64_t cell = (s.cell(0, a) * s.cells[1] + s.cell(1, b)) * s.cells[2] + s.cell(2, w);
                        kernels<T>().add_to(into + start + cell * channels, pixel, channels);
                        start += length[i];
                    }
                }
            }
        });
        parallel_for(job.run.threads, grid_[0], [&](int64_t n) {
            double* sum = partial.data() + n * parts * total;
            for (int64_t part = 1; part < parts; ++part)
                for (int64_t e = 0; e < total; ++e)
                    sum[e] += partial[static_cast<size_t>((n * parts + part) * total + e)];
            int64_t start = 0;
            for (size_t i = 0; i < sums_.size(); ++i) {
                const int64_t count = length[i] / channels;
                std::vector<double> cells(static_cast<size_t>(count));
                for (int64_t c = 0; c < channels; ++c) {
                    for (int64_t e = 0; e < count; ++e) cells[static_cast<size_t>(e)] = sum[start + e * channels + c];
                    write(sums_[i], job.results[i], cells.data(), n, c, {0, 0, 0}, 1);
                }
                start += length[i];
            }
        });
    }

    static constexpr Storage own_storage = sizeof(T) == 8 ? Storage::f64 : Storage::f32;

    std::vector<BoxSums> sums_;
    std::unique_ptr<TileProgram> prologue_;
    ValueId source_;
    Sizes shape_;
    Five grid_;
    std::array<bool, 3> kept_{};
    int prologue_slot_ = -1;
    WorkspaceLayout layout_;
    Tail tail_;
};

}  // namespace

std::unique_ptr<CompiledPass> compile_moments(const Plan& plan, const Pass& pass) {
    const Graph& graph = plan.graph;
    std::vector<BoxSums> sums;
    std::vector<ValueId> prologue;
    ValueId reduced = -1;
    for (const TileStep& step : pass.steps) {
        if (step.scope == Scope::prologue) prologue.push_back(step.value);
        if (step.scope != Scope::grid) continue;
        const Node& node = graph[step.value];
        if (node.op != Op::box_sums || (reduced >= 0 && reduced != node.args[0])) return nullptr;
        reduced = node.args[0];
        BoxSums s;
        s.value = step.value;
        if (graph[reduced].type.rank() > 5 || !s.read(node, graph[reduced].type)) return nullptr;
        sums.push_back(std::move(s));
    }
    if (reduced < 0 || is_literal(graph, reduced) || numel(graph[reduced].type.shape) == 0) return nullptr;
    // Nodes that keep different axes are summed in separate loops elsewhere.
    for (const BoxSums& s : sums)
        if (s.reduced != sums.front().reduced) return nullptr;
    const Type& type = graph[reduced].type;
    std::unique_ptr<TileProgram> before;
    ValueId source = reduced;
    if (!prologue.empty()) {
        source = -1;
        for (ValueId v : prologue)
            for (ValueId a : graph[v].args) {
                if (!is_literal(graph, a) && (graph[a].type.dtype == DType::f64) != (type.dtype == DType::f64))
                    return nullptr;
                if (source < 0 && !is_literal(graph, a) &&
                    std::find(prologue.begin(), prologue.end(), a) == prologue.end() &&
                    graph[a].type.shape == type.shape)
                    source = a;
            }
        if (source < 0) return nullptr;
        const Pass alone{PassKind::pointwise, source, {}, {}, {}, {}, 0, {}};
        before = TileProgram::compile(plan, alone, prologue, source, type.shape);
        if (!before || before->stages() > 1) return nullptr;
    }
    if (type.dtype == DType::f64)
        return std::make_unique<MomentsPass<double>>(plan, pass, std::move(sums), std::move(before), source, reduced);
    return std::make_unique<MomentsPass<float>>(plan, pass, std::move(sums), std::move(before), source, reduced);
}

}  // namespace transfuse::cpu
