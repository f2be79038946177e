// Elements: a thread takes vectors in the order of the walk. Where vectors do not divide a row they cross into the
// next. Where a tensor is read across the rows, a block takes a piece of several rows: what it reads of that tensor are
// whole sectors of memory.
#include <algorithm>

#include "algebra/lattice/integer.h"
#include "cuda/loop/loop_writer.h"

namespace transfuse::cuda {

namespace {

class ElementWriter : public LoopWriter {
public:
    using LoopWriter::LoopWriter;

private:
    int64_t total() const { return loop_.rows() * loop_.row; }
    bool ragged() const { return total() % shape_.vector != 0 || any_size(); }  // the last vector may be cut
    int64_t vectors() const { return ceil_div(total(), shape_.vector); }
    int64_t row_vectors() const { return loop_.row / shape_.vector; }
    int64_t block_vectors() const { return int64_t{shape_.threads} * shape_.vectors; }
    int64_t blocks() const override {
        if (piece_ == 0) return ceil_div(vectors(), block_vectors());
        return ceil_div(loop_.rows(), block_vectors() / piece_) * (row_vectors() / piece_);
    }
    std::string note() const override { return "elements, " + number(shape_.vector) + " at once"; }

    bool shape() override {
        shape_.vector = widest();
        shape_.crosses = loop_.row % shape_.vector != 0;
        if (shape_.crosses && loop_.row < shape_.vector) shape_.vector = 1, shape_.crosses = false;
        shape_.vectors = total() >= 1 << 22 ? 2 : 1;
        if (!any_size() && !shape_.crosses && reads_across())
            for (const int64_t vectors : {4, 8, 16})
                if (row_vectors() % vectors == 0) piece_ = vectors;
        return true;
    }
    // A tensor whose neighbours are those of the next row.
    bool reads_across() const {
        return std::any_of(loop_.reads.begin(), loop_.reads.end(), [](const LoopTensor& t) {
            return t.row() > 1 && t.strides.size() > 1 && t.strides[t.strides.size() - 2] == 1;
        });
    }

    // A tensor that is read, and its numbers: one of each vector, or one for each lane.
    struct Read {
        const LoopTensor* tensor;
        std::string name;
        bool lanes;
    };

    // A thread takes vectors of the walk's order, `vectors` of them a block's width apart: all loads first.
    void body() override {
        const std::string count = parameters_.count(vectors());
        const std::vector<Read> reads = declare_reads();
        body_.line({"const tf_index first = ", first(), ";"});
        open_vectors();
        place_elements(count);
        for (const Read& read : reads) load(read);
        body_.close();
        open_vectors();
        body_.line({"if (first + u * ", number(step()), " >= ", count, ") break;"});
        place_elements(count);
        std::map<ValueId, LoopValue> values;
        for (const Read& r : reads)
            values[r.tensor->value] = {r.name + "[u]", real_of_read(*r.tensor), r.lanes ? "[e]" : ""};
        for (ValueId step : loop_.steps)
            pointwise(step, values, "[" + lanes() + "]", {"for (int e = 0; e < " + lanes() + "; e++)"}, "[e]");
        for (const LoopTensor& t : loop_.stores) store(t, values.at(t.value));
        body_.close();
    }

    // A thread's first vector, and how far its next is from it.
    std::string first() const {
        if (piece_ == 0) return "(tf_index)blockIdx.x * " + number(block_vectors()) + " + threadIdx.x";
        const std::string pieces = number(row_vectors() / piece_), piece = number(piece_);
        return "(blockIdx.x / " + pieces + " * (tf_index)" + number(block_vectors() / piece_) + " + threadIdx.x / " +
               piece + ") * " + number(row_vectors()) + " + blockIdx.x % " + pieces + " * " + piece +
               " + threadIdx.x % " + piece;
    }
    int64_t step() const { return piece_ == 0 ? shape_.threads : shape_.threads / piece_ * row_vectors(); }

    std::string lanes() const { return number(shape_.vector); }
    std::string each_lane() const { return "_Pragma(\"unroll\") for (int e = 0; e < " + lanes() + "; e++) "; }
    void open_vectors() {
        body_.line("#pragma unroll");
        body_.open({"for (int u = 0; u < ", number(shape_.vectors), "; u++)"});
    }

    std::vector<Read> declare_reads() {
        std::vector<Read> reads;
        for (const LoopTensor& t : loop_.reads) {
            const bool constant = std::all_of(t.strides.begin(), t.strides.end(), [](int64_t s) { return s == 0; });
            const bool by_lane = !constant && (shape_.crosses || t.row() != 0);
            reads.push_back({&t, "r" + number(t.value), by_lane});
            body_.line({std::string(real_name(real_of_read(t))), " ", reads.back().name, "[", number(shape_.vectors),
                        "]", (by_lane ? "[" + lanes() + "]" : ""), ";"});
        }
        return reads;
    }

    // Where lane e of a vector lies that crosses into the next row.
    std::string crossing(const LoopTensor& t) {
        return "(e < cut ? " + offset(t, "a", "(off + e)") + " : " + offset(t, "b", "(off + e - line_length)") + ")";
    }

    void load(const Read& read) {
        const LoopTensor& t = *read.tensor;
        const std::string real(real_name(real_of_read(t))), to = read.name + "[u]";
        if (!read.lanes) {
            body_.line({to, " = tf_load<", real, ">(", pointer(t, false), " + ", offset(t, "a", "off"), ");"});
        } else if (!shape_.crosses) {
            load_vector(to, t, offset(t, "a", "off"), chunk(t, false));
        } else if (flat(t)) {
            const int width = chunk(t, true);
            if (ragged()) {
                body_.open({"if (at + ", lanes(), " > ", total_name(), ")"});
                body_.line({"for (int e = 0; e < ", lanes(), "; e++) ", to, "[e] = tf_load<", real, ">(",
                            pointer(t, false), " + (at + e < ", total_name(), " ? at + e : at));"});
                body_.close();
                body_.open("else");
                load_vector(to, t, "at", width);
                body_.close();
            } else {
                load_vector(to, t, "at", width);
            }
        } else if (t.row() == 0) {  // one number of each row
            const std::string one = "tf_load<" + real + ">(" + pointer(t, false) + " + ";
            body_.line({"const ", real, " ", read.name, "_a = ", one, offset(t, "a", "0"), "), ", read.name,
                        "_b = ", one, offset(t, "b", "0"), ");"});
            body_.line({each_lane(), to, "[e] = e < cut ? ", read.name, "_a : ", read.name, "_b;"});
        } else {
            body_.line({each_lane(), to, "[e] = tf_load<", real, ">(", pointer(t, false), " + ", crossing(t), ");"});
        }
    }

    void store(const LoopTensor& t, const LoopValue& value) {
        if (!shape_.crosses) return store_vector(t, offset(t, "a", "off"), chunk(t, false), value, "");
        const bool together = flat(t);
        const std::string one_by_one = each_lane() + (ragged() ? "if (at + e < " + total_name() + ") " : "") +
                                       "tf_store(" + pointer(t, true) + " + " + (together ? "(at + e)" : crossing(t)) +
                                       ", " + value.name + (value.index.empty() ? "" : "[e]") + ");";
        if (!together) {
            body_.line(one_by_one);
        } else if (ragged()) {
            body_.open({"if (at + ", lanes(), " > ", total_name(), ")"});
            body_.line(one_by_one);
            body_.close();
            body_.open("else");
            store_vector(t, "at", chunk(t, true), value, "");
            body_.close();
        } else {
            store_vector(t, "at", chunk(t, true), value, "");
        }
    }

    std::string total_name() {
        if (total_.empty()) total_ = parameters_.count(total());
        return total_;
    }

    // Where vector u lies: a0, a1, … and off along the row; where vectors cross, b0, b1, … of the next row, from lane
    // `cut` on.
    void place_elements(const std::string& count) {
        body_.line({"const tf_index vector = min(first + u * ", number(step()), ", (tf_index)(", count,
                    " - 1)), at = vector * ", number(shape_.vector), ";"});
        body_.line("const tf_index line_length = " + parameters_.integer(loop_.row, true) +
                   ", line = " + parameters_.quotient("at", loop_.row, true) + ", off = at - line * line_length;");
        coordinates_of("line", "a");
        if (shape_.crosses) {
            body_.line({"const tf_index cut = line_length - off, next_line = min(line + 1, (tf_index)(",
                        parameters_.integer(loop_.rows(), true), " - 1));"});
            coordinates_of("next_line", "b");
        }
        body_.line("(void)off, (void)line, (void)at;");
    }

    std::string total_;
    int64_t piece_ = 0;  // vectors of a row that a block takes, of several rows; 0: as the walk goes
};

}  // namespace

std::unique_ptr<LoopWriter> element_writer(const Loop& loop, const Graph& graph, bool wide_index, bool any_size) {
    return std::make_unique<ElementWriter>(loop, graph, wide_index, any_size);
}

}  // namespace transfuse::cuda
