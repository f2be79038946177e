// The moments kernel. Memory is seen as [outer …][rows][inner]: the inner axis is the one that is contiguous, rows are
// the other reduced axes. A thread owns one vector of columns and walks over rows, so whether a column lies in an
// interval is decided once, at the end; rows are cut into cells (maximal sets that every interval takes or leaves
// whole) and each is summed by itself. Every element is read once. Sums of eight rows are made in the input's
// precision, all others in double; each block leaves its share in a slot of its own.
#include "cuda/moments.h"

#include <algorithm>
#include <numeric>

#include "cuda/pull.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

constexpr int threads = 256;
constexpr int unroll = 8;
constexpr int64_t chunk_bytes = 256 * 1024;  // measured: 64 KB is 6 % slower on 1 GB, no difference on 64 MB

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Indices that belong to the same intervals: lo, lo + step, … <= hi.
struct Cell {
    int64_t lo, hi, step, mask;
};

std::vector<Cell> cells_of(const std::vector<Interval>& intervals, int64_t extent) {
    std::vector<int64_t> edges = {0, extent};
    int64_t period = 1;
    for (const Interval& interval : intervals) {
        if (interval.empty()) continue;
        edges.push_back(interval.lo);
        edges.push_back(interval.hi + 1);
        period = std::lcm(period, interval.step);
    }
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    std::vector<Cell> cells;
    for (size_t e = 0; e + 1 < edges.size(); ++e)
        for (int64_t r = 0; r < std::min(period, edges[e + 1] - edges[e]); ++r) {
            Cell cell{edges[e] + r, edges[e + 1] - 1, period, 0};
            cell.hi = cell.lo + (cell.hi - cell.lo) / period * period;
            for (size_t i = 0; i < intervals.size(); ++i)
                if (intervals[i].contains(cell.lo)) cell.mask |= int64_t{1} << i;
            if (cell.mask != 0) cells.push_back(cell);  // nobody wants the others: they are not read
        }
    return cells;
}

struct Axis {
    std::vector<size_t> logical;  // tensor axes, outermost first: more than one where they were merged
    int64_t extent = 1, stride = 0;
    bool reduced = false;
    std::vector<Interval> intervals;  // reduced only
    bool whole() const { return reduced && intervals.size() == 1 && intervals[0] == Interval{0, extent - 1, 1}; }
};

// Axes in the order of memory, neighbours merged where nothing tells them apart.
std::vector<Axis> memory_axes(const Node& box, const Type& x, const Sizes& strides, bool merge) {
    const Sizes& dims = box.attributes.integers(Key::dims);
    std::vector<Axis> axes;
    for (size_t a : memory_order(x.shape, strides)) {
        Axis axis{{a}, x.shape[a], strides[a], false, {}};
        size_t at = 0;
        for (size_t j = 0; j < dims.size(); ++j)
            for (int64_t i = 0; i < box.attributes.integers(Key::counts)[j]; ++i, ++at)
                if (static_cast<size_t>(dims[j]) == a) {
                    axis.reduced = true;
                    axis.intervals.push_back({box.attributes.integers(Key::los)[at],
                                              box.attributes.integers(Key::his)[at],
                                              box.attributes.integers(Key::steps)[at]});
                }
        if (!axis.reduced && axis.extent == 1) continue;
        if (merge && !axes.empty()) {
            Axis& last = axes.back();
            const bool adjacent = last.stride == axis.stride * axis.extent;
            const bool alike =
                (last.whole() && axis.whole()) ||
                (!last.reduced && !axis.reduced && last.logical.back() >= 2 && a >= 2 && last.logical.back() < a);
            if (adjacent && alike) {
                last.logical.push_back(a);
                last.extent *= axis.extent, last.stride = axis.stride;
                if (last.reduced) last.intervals = {{0, last.extent - 1, 1}};
                continue;
            }
        }
        axes.push_back(std::move(axis));
    }
    return axes;
}

class MomentsWriter {
public:
    MomentsWriter(const Surroundings& s, const Places& places, ValueId box, int64_t scratch, std::string entry)
        : s_(s),
          graph_(s.plan.graph),
          places_(places),
          box_(box),
          x_(graph_[box].args[0]),
          scratch_(scratch),
          entry_(std::move(entry)) {}

    bool arrange(std::string* why_not) {
        const Type& type = graph_[x_].type;
        if (numel(type.shape) == 0) return refuse(why_not, "there is nothing to sum");
        direct_ = places_.contains(x_) && !places_.at(x_).partials;
        const Sizes strides = direct_ ? places_.at(x_).strides : computed_strides(type.shape);
        for (int64_t stride : strides)
            if (stride < 0) return refuse(why_not, "negative strides");
        axes_ = memory_axes(graph_[box_], type, strides, direct_);
        if (axes_.empty() || axes_.back().stride != 1) return refuse(why_not, "no axis of the input is contiguous");
        inner_ = axes_.back();
        axes_.pop_back();
        for (const Axis& axis : axes_) {
            if (axis.reduced)
                rows_.push_back(axis);
            else
                outer_.push_back(axis);
            if (axis.reduced && axis.intervals.size() > 60) return refuse(why_not, "too many intervals");
        }
        storage_ = direct_ ? places_.at(x_).storage : type.dtype;
        real_ = real_of(type.dtype);
        vector_ = static_cast<int>(s_.target.decide(choose_vector()));
        // A single long row becomes rows of one block's width.
        virtual_rows_ = s_.target.decide(rows_.empty() && inner_.reduced && inner_.whole() &&
                                         inner_.extent > 4 * threads * vector_ && direct_);
        for (const Axis& row : rows_) {
            cells_.push_back(cells_of(row.intervals, row.extent));
            if (cells_.back().empty()) return refuse(why_not, "all intervals are empty");
            cell_count_ *= static_cast<int64_t>(cells_.back().size());
        }
        if (cell_count_ > 128) return refuse(why_not, "too many cells");
        choose_shape();
        int64_t reach = inner_.extent;
        for (const Axis& row : rows_) reach += row.extent * row.stride;
        if (!direct_ && numel(type.shape) >= (int64_t{1} << 31) - 65536)
            return refuse(why_not, "a computed input of more than 2^31 elements");
        if (reach >= (int64_t{1} << 31) - 65536) return refuse(why_not, "more than 2^31 elements are summed into one");
        int64_t summed = inner_.reduced ? inner_.extent : 1;
        for (const Axis& row : rows_) summed *= row.extent;
        if (s_.target.decide(inner_.reduced && summed < 512)) return refuse(why_not, "few elements in each sum");
        return true;
    }

    Launch write() {
        Parameters parameters(false, s_.target.stated());  // offsets within one sum fit 32 bits, the base is a pointer
        Body body;
        std::string tables;
        Emitter emitter(graph_, parameter_values_, places_, parameters, body, tables, false, vector_);
        body_ = &body, emitter_ = &emitter, parameters_ = &parameters;
        write_body();
        std::string text = std::string(device_math()) + index_code(parameters.wide_index()) + Emitter::combine_code() +
                           sequence_code() + warp_sum_code() + tables +
                           "\nextern \"C\" __global__ void __launch_bounds__(" + number(threads) + ") " + entry_ + "(" +
                           parameters.declaration() + ") {\n" + body.text() + "}\n";
        Launch launch;
        launch.source = std::make_shared<const Source>(Source{entry_, std::move(text), {}});
        launch.grid = {static_cast<uint32_t>(outer_count() * column_blocks_ * chunks_), 1, 1};
        launch.block = {threads, 1, 1};
        launch.shared_bytes = 0;
        launch.early = true;
        launch.arguments = parameters.arguments();
        launch.note = "box sums" + to_string(graph_[box_].type.shape) + ", " + number(vector_) + " x " +
                      number(bytes(storage_)) + " B loads, " + number(chunks_) + " chunks, " + number(cell_count_) +
                      " cells";
        return launch;
    }

    // Where the sums will be, in slots.
    Place place() const {
        Place place;
        place.base = destination_ ? destination_->base : Argument::of_scratch(scratch_);
        place.storage = destination_ ? destination_->storage : DType::f64;
        place.strides = destination_ ? destination_->strides : contiguous_strides(graph_[box_].type.shape);
        place.aligned = destination_ ? destination_->aligned : true;
        place.read_only = false;
        if (!destination_ && partial_) place.partials = Partials{slots(), numel(graph_[box_].type.shape), 1};
        return place;
    }
    int64_t slots() const { return chunks_ * (inner_.reduced ? column_blocks_ : 1); }
    int64_t scratch_bytes() const { return destination_ ? 0 : slots() * numel(graph_[box_].type.shape) * 8; }
    // A sum that one block completes may go straight to its memory.
    void store_to(const Place& destination) {
        if (!partial_) destination_ = destination;
    }
    bool stores() const { return destination_.has_value(); }

private:
    static bool refuse(std::string* why_not, const char* why) {
        if (why_not) *why_not = why;
        return false;
    }

    // The order of a value that is computed: that of the first memory it pulls, if the shapes agree.
    Sizes computed_strides(const Sizes& shape) const {
        ValueId v = x_;
        while (!places_.contains(v) && is_pointwise(graph_[v].op)) {
            ValueId next = -1;
            for (ValueId arg : graph_[v].args)
                if (graph_[arg].type.shape == shape) next = arg;
            if (next < 0) break;
            v = next;
        }
        if (places_.contains(v) && graph_[v].type.shape == shape) return places_.at(v).strides;
        return contiguous_strides(shape);
    }

    int choose_vector() const {
        int vector = static_cast<int>(16 / bytes(storage_));
        for (; vector > 1; vector /= 2) {
            bool fits = inner_.extent % vector == 0 && (direct_ ? places_.at(x_).aligned : true);
            for (const auto* list : {&rows_, &outer_})
                for (const Axis& axis : *list) fits = fits && (axis.extent == 1 || axis.stride % vector == 0);
            if (fits) break;
        }
        return vector;
    }

    void choose_shape() {
        const int64_t vectors = ceil_div(inner_.extent, vector_);
        const int64_t row_count = std::accumulate(rows_.begin(), rows_.end(), int64_t{1},
                                                  [](int64_t n, const Axis& a) { return n * a.extent; });
        if (virtual_rows_) {
            columns_ = threads, lines_ = 1, column_blocks_ = 1;
            row_extent_ = ceil_div(vectors, threads);
        } else {
            int64_t widest = threads;
            if (!inner_.reduced) {
                int64_t lines = 1;
                while (lines < 8 && row_count / (2 * lines) >= 16) lines *= 2;
                lines = s_.target.decide(lines);
                widest = threads / lines;
                // Shared memory: a column's sum for each cell, and one of each line.
                while (widest > 8 &&
                       (widest * vector_ * cell_count_ + (lines > 1 ? threads * vector_ : 0)) * 8 > 40 * 1024)
                    widest /= 2;
            }
            column_blocks_ = ceil_div(vectors, widest);
            columns_ = ceil_div(vectors, column_blocks_);
            lines_ = threads / columns_;  // those beyond the rows have nothing to do
            if (!s_.target.stated()) lines_ = std::max<int64_t>(1, std::min(lines_, row_count));
            row_extent_ = rows_.empty() ? 1 : rows_[0].extent;
        }
        // Chunks of the outermost row axis: about 256 KB each, more of them where the device would stand idle.
        const int64_t line_bytes = columns_ * vector_ * bytes(storage_);
        const int64_t total = virtual_rows_ ? row_extent_ * line_bytes : row_count * line_bytes;
        const int64_t others = outer_count() * column_blocks_;
        int64_t chunks = std::max<int64_t>(1, total / chunk_bytes);
        const int64_t wanted = 8 * s_.target.multiprocessors;
        if (others * chunks < wanted)
            chunks = std::max(chunks, std::min(ceil_div(wanted, others), std::max<int64_t>(1, total / (16 * 1024))));
        chunks = std::min(chunks, row_extent_);
        chunk_rows_ = ceil_div(row_extent_, chunks);
        const bool single = s_.target.decide(chunk_rows_ == row_extent_);
        chunk_rows_ = single ? row_extent_ : s_.target.decide(chunk_rows_);
        chunks_ = ceil_div(row_extent_, chunk_rows_);
        partial_ = s_.target.stated() ? inner_.reduced || !single : slots() > 1;
    }

    int64_t outer_count() const {
        int64_t count = 1;
        for (const Axis& axis : outer_) count *= axis.extent;
        return count;
    }

    static std::string warp_sum_code() {
        return R"cuda(
// The sum over a warp in a fixed order: lane 0 has it.
TF_FUNCTION double tf_warp_sum(double v) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    return v;
}
)cuda";
    }

    std::string integer(int64_t value) { return parameters_->integer(value, true); }
    std::string let(const std::string& text, std::string_view prefix) { return emitter_->let("int", text, prefix); }

    void write_body() {
        Body& body = *body_;
        const bool separate = !inner_.reduced || inner_.intervals.size() > 1 || !inner_.whole();
        const auto box_count = static_cast<int64_t>(box_intervals().size());
        const int64_t width = columns_bound();
        if (inner_.reduced) {
            body.line("__shared__ double tf_warps[" + number(threads / 32 * sums_at_once()) + "], tf_sums[" +
                      number(cell_count_ * inner_boxes()) + "];");
        } else {
            body.line("__shared__ double tf_sums[" + number(cell_count_ * width * vector_) + "];");
            if (lines_ > 1) body.line("__shared__ double tf_lines[" + number(threads * vector_) + "];");
        }
        const bool table = cell_count_ > 1;
        int64_t table_size = 0;
        for (const auto& list : cells_) table_size += static_cast<int64_t>(list.size()) * 4;
        if (table) {
            body.line("__shared__ int tf_cells[" + number(table_size) + "];");
            body.open("if (threadIdx.x == 0)");
            int64_t at = 0;
            for (const auto& list : cells_)
                for (const Cell& cell : list)
                    for (int64_t value : {cell.lo, cell.hi, cell.step, cell.mask})
                        body.line("tf_cells[" + number(at++) + "] = " + integer(value) + ";");
            body.close();
            body.line("__syncthreads();");
        }
        body.line("TF_SEQUENCE();");

        // Which sum, which columns, which rows.
        std::string rest = "(int)blockIdx.x";
        auto take = [&](int64_t extent, std::string_view prefix) {
            if (extent == 1 && !s_.target.stated()) return std::string("0");
            const std::string q = let(parameters_->quotient(rest, extent, true), "q");
            const std::string r = let(parameters_->remainder(rest, q, extent, true), prefix);
            rest = q;
            return r;
        };
        const std::string chunk = take(chunks_, "chunk"), column_block = take(column_blocks_, "columns");
        std::vector<std::string> outer(outer_.size());
        for (size_t i = outer_.size(); i-- > 0;) outer[i] = take(outer_[i].extent, "outer");
        const std::string columns = integer(columns_);
        const std::string line =
            let(columns_ == threads ? "0" : parameters_->quotient("(int)threadIdx.x", columns_, true), "line");
        const std::string place =
            let(columns_ == threads ? "(int)threadIdx.x" : minus("(int)threadIdx.x", times(line, columns)), "place");
        const std::string column =
            let("(" + plus(times(column_block, columns), place) + ") * " + number(vector_), "column");
        const std::string inside = emitter_->let(
            "bool",
            line + " < " + integer(lines_) + (virtual_rows_ ? "" : " && " + column + " < " + integer(inner_.extent)),
            "inside");
        const std::string chunk_begin = let(times(chunk, integer(chunk_rows_)), "begin");
        const std::string chunk_end =
            let("min(" + plus(chunk_begin, integer(chunk_rows_)) + ", " + integer(row_extent_) + ")", "end");
        if (direct_) {
            std::string base = "0";
            for (size_t i = 0; i < outer_.size(); ++i)
                base = plus(base, times("(long long)" + outer[i], integer64(outer_[i].stride)));
            pointer_ = body.fresh("from");
            const std::string type = "const " + std::string(storage_name(storage_));
            body.line(type + "* __restrict__ " + pointer_ + " = " +
                      parameters_->pointer(places_.at(x_).base, type, true) + " + " + base + ";");
        }

        const std::string cell = body.fresh("cell");
        emitter_->open("for (int " + cell + " = 0; " + cell + " < " + number(cell_count_) + "; ++" + cell + ")");
        const std::vector<CellText> here = cell_texts(cell, chunk_begin, chunk_end);
        std::string count = "1";
        for (const CellText& c : here) count = times(count, c.count);
        count = let(count, "count");
        // Accumulators: one a lane where columns differ, else one.
        const int lanes = separate ? vector_ : 1;
        std::vector<std::string> sums;
        for (int l = 0; l < lanes; ++l) {
            sums.push_back(body.fresh("sum"));
            body.line("double " + sums.back() + " = 0.0;");
        }
        write_rows(here, count, line, inside, column, outer, sums);
        if (inner_.reduced)
            finish_reduced_inner(cell, count, sums, separate, column, inside);
        else
            finish_kept_inner(cell, sums, place, line, inside, width);
        emitter_->close();
        if (inner_.reduced && sums_at_once() > inner_boxes()) add_warps("0", sums_at_once());
        body.line("__syncthreads();");
        write_boxes(box_count, chunk, column_block, column, place, line, inside, outer, width);
    }

    std::string integer64(int64_t value) {
        if (value < int64_t{1} << 31) return integer(value);
        // A stride beyond 32 bits: as high and low words.
        return "((long long)" + integer(value >> 20) + " * 1048576 + " + integer(value & 1048575) + ")";
    }

    int64_t columns_bound() const {  // a compile-time bound of columns_
        int64_t bound = 8;
        while (bound < columns_) bound *= 2;
        return bound;
    }

    struct CellText {
        std::string first, step, count;
    };

    // The rows of a cell inside this block's chunk, per row axis.
    std::vector<CellText> cell_texts(const std::string& cell, const std::string& begin, const std::string& end) {
        std::vector<CellText> texts;
        if (rows_.empty()) {
            if (virtual_rows_) texts.push_back({begin, "1", let(end + " - " + begin, "rows")});
            return texts;
        }
        std::string rest = cell;
        std::vector<std::string> which(rows_.size());
        for (size_t i = rows_.size(); i-- > 0;) {
            const auto count = static_cast<int64_t>(cells_[i].size());
            const std::string q = parameters_->quotient(rest, count, false);
            which[i] = let(parameters_->remainder(rest, q, count, false), "which");
            rest = q;
        }
        int64_t table_begin = 0;
        for (size_t i = 0; i < rows_.size(); ++i) {
            std::string lo, hi, step;
            if (cell_count_ > 1) {
                const std::string at = let(plus(times(which[i], "4"), number(table_begin)), "at");
                lo = let("tf_cells[" + at + "]", "lo"), hi = let("tf_cells[" + at + " + 1]", "hi"),
                step = let("tf_cells[" + at + " + 2]", "step");
            } else {
                lo = integer(cells_[i][0].lo), hi = integer(cells_[i][0].hi), step = integer(cells_[i][0].step);
            }
            table_begin += static_cast<int64_t>(cells_[i].size()) * 4;
            if (i == 0) {
                const std::string first = let(begin + " <= " + lo + " ? " + lo + " : " + lo + " + (" + begin + " - " +
                                                  lo + " + " + step + " - 1) / " + step + " * " + step,
                                              "first");
                const std::string last = let("min(" + hi + ", " + end + " - 1)", "last");
                texts.push_back(
                    {first, step,
                     let(last + " < " + first + " ? 0 : (" + last + " - " + first + ") / " + step + " + 1", "rows")});
            } else {
                texts.push_back({lo, step, let("(" + hi + " - " + lo + ") / " + step + " + 1", "rows")});
            }
        }
        return texts;
    }

    // Eight rows at a time: their loads are in flight together. Rows beyond the end repeat the last one and count as
    // zero.
    void write_rows(const std::vector<CellText>& cell, const std::string& count, const std::string& line,
                    const std::string& inside, const std::string& column, const std::vector<std::string>& outer,
                    const std::vector<std::string>& sums) {
        Body& body = *body_;
        const bool many = virtual_rows_ || !rows_.empty();
        const int steps = many ? unroll : 1;
        emitter_->open("if (" + inside + " && " + count + " > 0)");
        const std::string t = body.fresh("t");
        emitter_->open("for (int " + t + " = " + line + "; " + t + " < " + count + "; " + t +
                       " += " + times(number(steps), integer(lines_)) + ")");
        std::vector<std::vector<std::string>> values(static_cast<size_t>(vector_));  // [lane][step]
        std::vector<std::string> counted;
        std::vector<Lanes> loaded;
        for (int u = 0; u < steps; ++u) {
            std::string row = u == 0 ? t : let(t + " + " + times(number(u), integer(lines_)), "row");
            counted.push_back(u == 0 ? "true" : row + " < " + count);
            if (u > 0) row = let("min(" + row + ", " + count + " - 1)", "row");
            loaded.push_back(load(cell, row, column, outer, counted[static_cast<size_t>(u)], u));
        }
        const std::string real(real_name(real_)), zero = literal(0, real_);
        for (int l = 0; l < vector_; ++l)
            for (int u = 0; u < steps; ++u) {
                const std::string& value = loaded[static_cast<size_t>(u)][static_cast<size_t>(l)];
                values[static_cast<size_t>(l)].push_back(counted_[static_cast<size_t>(u)] == "true"
                                                             ? "(" + real + ")" + value
                                                             : "(" + counted_[static_cast<size_t>(u)] + " ? (" + real +
                                                                   ")" + value + " : " + zero + ")");
            }
        if (sums.size() == 1) {  // one column, or all alike
            std::vector<std::string> all;
            for (const auto& lane : values) all.insert(all.end(), lane.begin(), lane.end());
            body.line(sums[0] + " += (double)" + tree(all) + ";");
        } else {
            for (size_t l = 0; l < sums.size(); ++l) body.line(sums[l] + " += (double)" + tree(values[l]) + ";");
        }
        emitter_->close();
        emitter_->close();
    }

    static std::string tree(std::vector<std::string> terms) {
        while (terms.size() > 1) {
            std::vector<std::string> pairs;
            for (size_t i = 0; i + 1 < terms.size(); i += 2)
                pairs.push_back("(" + terms[i] + " + " + terms[i + 1] + ")");
            if (terms.size() % 2) pairs.push_back(terms.back());
            terms = std::move(pairs);
        }
        return terms[0].front() == '(' ? terms[0] : "(" + terms[0] + ")";
    }

    Lanes load(const std::vector<CellText>& cell, const std::string& row, const std::string& column,
               const std::vector<std::string>& outer, const std::string& is_counted, int u) {
        counted_.resize(static_cast<size_t>(u) + 1);
        counted_[static_cast<size_t>(u)] = is_counted;
        if (virtual_rows_) {
            // Rows lie one after another; the last may be short.
            const std::string raw =
                let("(" + plus(cell[0].first, row) + ") * " + number(threads * vector_) + " + " + column, "at");
            const std::string limit = integer(inner_.extent);
            const std::string fits =
                emitter_->let("bool", (is_counted == "true" ? "" : is_counted + " && ") + raw + " < " + limit, "fits");
            counted_[static_cast<size_t>(u)] = fits;
            const std::string at = let("min(" + raw + ", " + limit + " - " + number(vector_) + ")", "at");
            return load_direct(at);
        }
        std::vector<std::string> index(rows_.size());
        std::string rest = row;
        for (size_t i = rows_.size(); i-- > 0;) {
            std::string own = rest;
            if (i > 0) {
                const std::string q = let(rest + " / " + cell[i].count, "q");
                own = let(rest + " - " + q + " * " + cell[i].count, "r");
                rest = q;
            }
            index[i] = let(plus(cell[i].first, times(own, cell[i].step)), "i");
        }
        if (direct_) {
            std::string at = column;
            for (size_t i = 0; i < rows_.size(); ++i) at = plus(times(index[i], integer(rows_[i].stride)), at);
            return load_direct(let(at, "at"));
        }
        Index logical(static_cast<size_t>(graph_[x_].type.rank()), Coordinate{"0"});
        for (size_t i = 0; i < rows_.size(); ++i) logical[rows_[i].logical[0]] = {index[i]};
        for (size_t i = 0; i < outer_.size(); ++i) logical[outer_[i].logical[0]] = {outer[i]};
        logical[inner_.logical[0]] = {column, vector_ > 1};
        return emitter_->value(x_, logical);
    }

    Lanes load_direct(const std::string& at) {
        const std::string storage(storage_name(storage_)), real(real_name(real_));
        Lanes lanes;
        lanes.real = real_;
        if (vector_ == 1) {
            lanes.text.push_back(emitter_->let(real, "tf_load<" + real + ">(" + pointer_ + " + " + at + ")", "v"));
            return lanes;
        }
        const std::string type = "tf_vector<" + storage + ", " + number(vector_) + ">";
        const std::string pack = emitter_->let(type, "*(const " + type + "*)(" + pointer_ + " + " + at + ")", "pack");
        for (int l = 0; l < vector_; ++l)
            lanes.text.push_back("tf_to<" + real + ">(" + pack + ".lane[" + number(l) + "])");
        return lanes;
    }

    int64_t inner_boxes() const { return inner_.reduced ? static_cast<int64_t>(inner_.intervals.size()) : 1; }

    // The sums of all cells meet at once where their warps' parts fit shared memory, else cell by cell.
    int64_t sums_at_once() const {
        const int64_t all = cell_count_ * inner_boxes();
        return all <= 512 ? all : inner_boxes();
    }

    void finish_reduced_inner(const std::string& cell, const std::string& count, const std::vector<std::string>& sums,
                              bool separate, const std::string& column, const std::string& inside) {
        Body& body = *body_;
        const bool at_once = sums_at_once() > inner_boxes() || cell_count_ == 1;
        for (int64_t j = 0; j < inner_boxes(); ++j) {
            const Interval& interval = inner_.intervals[static_cast<size_t>(j)];
            std::string mine = "0.0";
            if (!separate) {
                mine = sums[0];
            } else {
                for (size_t l = 0; l < sums.size(); ++l) {
                    const std::string i = "(" + column + " + " + number(static_cast<int64_t>(l)) + ")";
                    std::string test = i + " >= " + integer(interval.lo) + " && " + i + " <= " + integer(interval.hi);
                    if (interval.step > 1)
                        test += " && (" + i + " - " + integer(interval.lo) + ") % " + integer(interval.step) + " == 0";
                    mine += " + (" + test + " ? " + sums[l] + " : 0.0)";
                }
            }
            // Many chunks have no row of a border's cell.
            const std::string total = emitter_->let(
                "double", count + " > 0 ? tf_warp_sum(" + inside + " ? " + mine + " : 0.0) : 0.0", "total");
            body.line("if (threadIdx.x % 32 == 0) tf_warps[threadIdx.x / 32 * " + number(sums_at_once()) + " + " +
                      plus(at_once ? times(cell, number(inner_boxes())) : "0", number(j)) + "] = " + total + ";");
        }
        if (at_once && cell_count_ > 1) return;
        add_warps(times(cell, number(inner_boxes())), inner_boxes());
        body.line("__syncthreads();");
    }

    // tf_sums[first + i] = the sum of all warps' parts i, one thread each.
    void add_warps(const std::string& first, int64_t count) {
        Body& body = *body_;
        body.line("__syncthreads();");
        const std::string i = body.fresh("i"), total = body.fresh("total"), warp = body.fresh("warp");
        body.open("for (int " + i + " = threadIdx.x; " + i + " < " + number(count) + "; " + i + " += " + number(threads) + ")");
        body.line("double " + total + " = 0.0;");
        body.line("for (int " + warp + " = 0; " + warp + " < " + number(threads / 32) + "; ++" + warp + ") " + total +
                  " += tf_warps[" + warp + " * " + number(sums_at_once()) + " + " + i + "];");
        body.line("tf_sums[" + plus(first, i) + "] = " + total + ";");
        body.close();
    }

    void finish_kept_inner(const std::string& cell, const std::vector<std::string>& sums, const std::string& place,
                           const std::string& line, const std::string& inside, int64_t width) {
        Body& body = *body_;
        for (size_t l = 0; l < sums.size(); ++l) {
            const std::string slot = "tf_sums[" +
                                     plus(times(cell, number(width * vector_)),
                                          plus(times(place, number(vector_)), number(static_cast<int64_t>(l)))) +
                                     "]";
            if (lines_ == 1) {
                body.line("if (" + inside + ") " + slot + " = " + sums[l] + ";");
            } else {
                body.line("tf_lines[threadIdx.x * " + number(vector_) + " + " + number(static_cast<int64_t>(l)) +
                          "] = " + inside + " ? " + sums[l] + " : 0.0;");
            }
        }
        if (lines_ == 1) return;
        body.line("__syncthreads();");
        emitter_->open("if (" + line + " == 0)");
        for (size_t l = 0; l < sums.size(); ++l) {
            const std::string total = body.fresh("total"), other = body.fresh("line");
            body.line("double " + total + " = 0.0;");
            body.line("for (int " + other + " = 0; " + other + " < " + integer(lines_) + "; ++" + other + ") " + total +
                      " += tf_lines[(" + other + " * " + integer(columns_) + " + " + place + ") * " + number(vector_) +
                      " + " + number(static_cast<int64_t>(l)) + "];");
            body.line("tf_sums[" +
                      plus(times(cell, number(width * vector_)),
                           plus(times(place, number(vector_)), number(static_cast<int64_t>(l)))) +
                      "] = " + total + ";");
        }
        emitter_->close();
        body.line("__syncthreads();");
    }

    // For each box, which interval of each memory axis: [box][row axes …, inner].
    std::vector<std::vector<int64_t>> box_intervals() const {
        const Node& box = graph_[box_];
        const Sizes &dims = box.attributes.integers(Key::dims), &counts = box.attributes.integers(Key::counts);
        int64_t boxes = 1;
        for (int64_t count : counts) boxes *= count;
        std::vector<std::vector<int64_t>> result;
        for (int64_t b = 0; b < boxes; ++b) {
            std::vector<int64_t> of_dim(dims.size());
            int64_t rest = b;
            for (size_t j = dims.size(); j-- > 0;) of_dim[j] = rest % counts[j], rest /= counts[j];
            std::vector<int64_t> row;
            auto find = [&](const Axis& axis) {
                for (size_t j = 0; j < dims.size(); ++j)
                    if (axis.logical.size() == 1 && static_cast<size_t>(dims[j]) == axis.logical[0]) return of_dim[j];
                return int64_t{0};  // merged axes have one interval
            };
            for (const Axis& axis : rows_) row.push_back(find(axis));
            row.push_back(inner_.reduced ? find(inner_) : 0);
            result.push_back(std::move(row));
        }
        return result;
    }

    void write_boxes(int64_t boxes, const std::string& chunk, const std::string& column_block,
                     const std::string& column, const std::string& place, const std::string& line,
                     const std::string& inside, const std::vector<std::string>& outer, int64_t width) {
        Body& body = *body_;
        const Place to = this->place();
        const std::string pointer = parameters_->pointer(to.base, std::string(storage_name(to.storage)), false);
        const auto intervals = box_intervals();
        // The element of the result, without box and lane.
        std::string offset = "0";
        const Type& type = graph_[x_].type;
        const auto channel_stride = to.strides[1];
        auto logical_stride = [&](size_t axis) { return axis == 1 ? channel_stride * boxes : to.strides[axis]; };
        auto add = [&](const Axis& axis, const std::string& text) {
            std::string rest = text;
            for (size_t k = axis.logical.size(); k-- > 0;) {
                const size_t a = axis.logical[k];
                std::string own = rest;
                if (k > 0) {
                    const std::string q = let(parameters_->quotient(rest, type.shape[a], true), "q");
                    own = let(parameters_->remainder(rest, q, type.shape[a], true), "r");
                    rest = q;
                }
                offset = plus(offset, times("(long long)" + own, integer64(logical_stride(a))));
            }
        };
        for (size_t i = 0; i < outer_.size(); ++i) add(outer_[i], outer[i]);
        const std::string slot = inner_.reduced ? plus(times(chunk, integer(column_blocks_)), column_block) : chunk;
        if (!destination_ && partial_)
            offset = plus(offset, times("(long long)" + slot, integer64(numel(graph_[box_].type.shape))));
        offset = emitter_->let("long long", offset, "to");
        if (inner_.reduced) {
            // One thread a box; for each axis, the box's interval and the masks of its cells.
            const std::string b = body.fresh("box");
            body.open("for (int " + b + " = threadIdx.x; " + b + " < " + number(boxes) + "; " + b + " += " +
                      number(threads) + ")");
            const std::string sum = body.fresh("sum");
            body.line("double " + sum + " = 0.0;");
            const auto axes = static_cast<int64_t>(rows_.size()) + 1;
            std::string list;
            for (const auto& of_box : intervals)
                for (int64_t interval : of_box) list += (list.empty() ? "" : ", ") + number(interval);
            body.line("static const unsigned char tf_intervals[] = {" + list + "};");
            const std::string of = body.fresh("of");
            body.line("const unsigned char* " + of + " = tf_intervals + " + times(b, number(axes)) + ";");
            for (int64_t c = 0; c < cell_count_; ++c) {
                int64_t rest = c;
                std::string in;
                for (size_t i = rows_.size(); i-- > 0;) {
                    const auto count = static_cast<int64_t>(cells_[i].size());
                    const Cell& cell = cells_[i][static_cast<size_t>(rest % count)];
                    const auto all = (int64_t{1} << rows_[i].intervals.size()) - 1;
                    if ((cell.mask & all) != all)
                        in += (in.empty() ? "if (" : " && ") + number(cell.mask) + "ll >> " + of + "[" + number(static_cast<int64_t>(i)) + "] & 1";
                    rest /= count;
                }
                body.line((in.empty() ? "" : in + ") ") + sum + " += tf_sums[" + number(c * inner_boxes()) + " + " + of + "[" +
                          number(axes - 1) + "]];");
            }
            body.line("tf_store(" + pointer + " + (" + plus(offset, times(b, integer(channel_stride))) + "), " + sum + ");");
            body.close();
            return;
        }
        emitter_->open("if (" + inside + " && " + line + " == 0)");
        for (int64_t b = 0; b < boxes; ++b)
            for (int l = 0; l < vector_; ++l) {
                const std::string at = plus(times(place, number(vector_)), number(l));
                const std::string sum = box_sum(intervals[static_cast<size_t>(b)], [&](int64_t cell) {
                    return "tf_sums[" + plus(number(cell * width * vector_), at) + "]";
                });
                const std::string saved = offset;
                add(inner_, let(plus(column, number(l)), "column"));
                body.line("tf_store(" + pointer + " + " + plus(offset, times(number(b), integer(channel_stride))) +
                          ", " + sum + ");");
                offset = saved;
            }
        emitter_->close();
    }

    // The sum of the cells that lie in a box. Which they are depends on the sizes only through their number: the masks
    // are known when the text is written, and part of it.
    std::string box_sum(const std::vector<int64_t>& interval,
                        const std::function<std::string(int64_t)>& cell_text) const {
        std::string sum;
        for (int64_t c = 0; c < cell_count_; ++c) {
            int64_t rest = c;
            bool in = true;
            for (size_t i = rows_.size(); i-- > 0;) {
                const auto count = static_cast<int64_t>(cells_[i].size());
                const Cell& cell = cells_[i][static_cast<size_t>(rest % count)];
                if (!(cell.mask >> interval[i] & 1)) in = false;
                rest /= count;
            }
            if (in) sum += (sum.empty() ? "" : " + ") + cell_text(c);
        }
        return sum.empty() ? "0.0" : "(" + sum + ")";
    }

    const Surroundings& s_;
    const Graph& graph_;
    const Places& places_;
    const ValueId box_, x_;
    const int64_t scratch_;
    const std::string entry_;
    const std::vector<bool> parameter_values_ = transfuse::parameter_values(s_.plan.graph);
    bool direct_ = false, virtual_rows_ = false;
    bool partial_ = false;  // several blocks share a sum: slots are left
    std::vector<Axis> axes_, rows_, outer_;
    Axis inner_;
    std::vector<std::vector<Cell>> cells_;
    int64_t cell_count_ = 1;
    DType storage_ = DType::f32;
    Real real_ = Real::f32;
    int vector_ = 1;
    int64_t columns_ = 1, lines_ = 1, column_blocks_ = 1, row_extent_ = 1, chunk_rows_ = 1, chunks_ = 1;
    std::optional<Place> destination_;
    std::vector<std::string> counted_;
    std::string pointer_;
    Body* body_ = nullptr;
    Emitter* emitter_ = nullptr;
    Parameters* parameters_ = nullptr;
};

}  // namespace

std::optional<GridProgram> generate_moments(const Surroundings& surroundings, const Places& places,
                                            const std::vector<std::pair<ValueId, Place>>& stores,
                                            std::string* why_not) {
    GridProgram result;
    int64_t scratch = 0;
    for (const TileStep& step : surroundings.pass.steps) {
        if (surroundings.plan.graph[step.value].op != Op::box_sums || step.scope == Scope::tail) continue;
        MomentsWriter writer(surroundings, places, step.value, scratch,
                             "tf_moments" + std::to_string(result.program.launches.size()));
        if (!writer.arrange(why_not)) return std::nullopt;
        for (const auto& [value, place] : stores)
            if (value == step.value) writer.store_to(place);
        if (writer.stores()) result.stored.push_back(step.value);
        result.program.launches.push_back(writer.write());
        result.grid.emplace(step.value, writer.place());
        scratch = (scratch + writer.scratch_bytes() + 255) / 256 * 256;
    }
    result.program.scratch_bytes = static_cast<size_t>(scratch);
    for (Launch& launch : result.program.launches)
        result.program.note += (result.program.note.empty() ? "" : "; ") + launch.note;
    if (!result.program.launches.empty()) result.program.launches[0].early = false;
    return result;
}

}  // namespace transfuse::cuda
