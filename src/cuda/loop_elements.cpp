// Elements: a thread takes vectors in the order of the walk. Where vectors do not divide a row they cross into the
// next.
#include <algorithm>

#include "cuda/loop_writer.h"

#include "algebra/integer.h"

namespace transfuse::cuda {

namespace {

class ElementWriter : public LoopWriter {
public:
    using LoopWriter::LoopWriter;

private:
    int64_t total() const { return loop_.rows() * loop_.row; }
    bool ragged() const { return total() % shape_.vector != 0 || any_size(); }  // the last vector may be cut
    int64_t vectors() const { return ceil_div(total(), shape_.vector); }
    int64_t blocks() const override { return ceil_div(vectors(), int64_t{shape_.threads} * shape_.vectors); }
    std::string note() const override { return "elements, " + number(shape_.vector) + " at once"; }

    bool shape() override {
        shape_.vector = widest();
        shape_.crosses = loop_.row % shape_.vector != 0;
        if (shape_.crosses && loop_.row < shape_.vector) shape_.vector = 1, shape_.crosses = false;
        shape_.vectors = total() >= 1 << 22 ? 2 : 1;
        return true;
    }

    // Elements: a thread takes vectors of the walk's order, `vectors` of them a block's width apart: all loads first.
    void body() override {
        const std::string times_ = number(shape_.vectors), lanes = number(shape_.vector),
                          count = parameters_.count(vectors());
        struct Read {
            const LoopTensor* tensor;
            std::string name;
            bool lanes;
        };
        std::vector<Read> reads;
        for (const LoopTensor& t : loop_.reads) {
            const bool constant = std::all_of(t.strides.begin(), t.strides.end(), [](int64_t s) { return s == 0; });
            const bool by_lane = !constant && (shape_.crosses || t.row() != 0);
            reads.push_back({&t, "r" + number(t.value), by_lane});
            body_.line(std::string(real_name(real_of_read(t))) + " " + reads.back().name + "[" + times_ + "]" +
                       (by_lane ? "[" + lanes + "]" : "") + ";");
        }
        const std::string first =
            "(tf_index)blockIdx.x * " + number(int64_t{shape_.threads} * shape_.vectors) + " + threadIdx.x";
        body_.line("const tf_index first = " + first + ";");
        body_.line("#pragma unroll");
        body_.open("for (int u = 0; u < " + times_ + "; u++)");
        place_elements(count);
        for (const Read& r : reads) {
            const LoopTensor& t = *r.tensor;
            const std::string real(real_name(real_of_read(t)));
            if (!r.lanes)
                body_.line(r.name + "[u] = tf_load<" + real + ">(" + pointer(t, false) + " + " + offset(t, "a", "off") +
                           ");");
            else if (!shape_.crosses)
                load_vector(r.name + "[u]", t, offset(t, "a", "off"), chunk(t, false));
            else if (flat(t)) {
                const int width = chunk(t, true);
                if (ragged()) {
                    body_.open("if (at + " + lanes + " > " + total_name() + ")");
                    body_.line("for (int e = 0; e < " + lanes + "; e++) " + r.name + "[u][e] = tf_load<" + real + ">(" +
                               pointer(t, false) + " + (at + e < " + total_name() + " ? at + e : at));");
                    body_.close();
                    body_.open("else");
                    load_vector(r.name + "[u]", t, "at", width);
                    body_.close();
                } else
                    load_vector(r.name + "[u]", t, "at", width);
            } else if (t.row() == 0) {
                body_.line("const " + real + " " + r.name + "_a = tf_load<" + real + ">(" + pointer(t, false) + " + " +
                           offset(t, "a", "0") + "), " + r.name + "_b = tf_load<" + real + ">(" + pointer(t, false) +
                           " + " + offset(t, "b", "0") + ");");
                body_.line("_Pragma(\"unroll\") for (int e = 0; e < " + lanes + "; e++) " + r.name +
                           "[u][e] = e < cut ? " + r.name + "_a : " + r.name + "_b;");
            } else {
                body_.line("_Pragma(\"unroll\") for (int e = 0; e < " + lanes + "; e++) " + r.name +
                           "[u][e] = tf_load<" + real + ">(" + pointer(t, false) + " + (e < cut ? " +
                           offset(t, "a", "(off + e)") + " : " + offset(t, "b", "(off + e - line_length)") + "));");
            }
        }
        body_.close();
        body_.line("#pragma unroll");
        body_.open("for (int u = 0; u < " + times_ + "; u++)");
        body_.line("if (first + u * " + number(shape_.threads) + " >= " + count + ") break;");
        place_elements(count);
        std::map<ValueId, LoopValue> values;
        for (const Read& r : reads)
            values[r.tensor->value] = {r.name + "[u]", real_of_read(*r.tensor), r.lanes ? "[e]" : ""};
        for (ValueId step : loop_.steps)
            pointwise(step, values, "[" + lanes + "]", {"for (int e = 0; e < " + lanes + "; e++)"}, "[e]");
        for (const LoopTensor& t : loop_.stores) {
            const LoopValue& v = values.at(t.value);
            if (!shape_.crosses) {
                store_vector(t, offset(t, "a", "off"), chunk(t, false), v, "");
                continue;
            }
            const std::string lane = v.index.empty() ? v.name : v.name + "[e]";
            const bool is_flat = flat(t);
            const std::string to = is_flat ? "(at + e)"
                                           : "(e < cut ? " + offset(t, "a", "(off + e)") + " : " +
                                                 offset(t, "b", "(off + e - line_length)") + ")";
            const std::string one_by_one = "_Pragma(\"unroll\") for (int e = 0; e < " + lanes + "; e++) " +
                                           (ragged() ? "if (at + e < " + total_name() + ") " : "") + "tf_store(" +
                                           pointer(t, true) + " + " + to + ", " + lane + ");";
            if (!is_flat) {
                body_.line(one_by_one);
            } else if (ragged()) {
                body_.open("if (at + " + lanes + " > " + total_name() + ")");
                body_.line(one_by_one);
                body_.close();
                body_.open("else");
                store_vector(t, "at", chunk(t, true), v, "");
                body_.close();
            } else {
                store_vector(t, "at", chunk(t, true), v, "");
            }
        }
        body_.close();
    }

    std::string total_name() {
        if (total_.empty()) total_ = parameters_.count(total());
        return total_;
    }

    // Where vector u lies: a0, a1, … and off along the row; where vectors cross, b0, b1, … of the next row, from lane
    // `cut` on.
    void place_elements(const std::string& count) {
        body_.line("const tf_index vector = min(first + u * " + number(shape_.threads) + ", (tf_index)(" + count +
                   " - 1)), at = vector * " + number(shape_.vector) + ";");
        body_.line("const tf_index line_length = " + parameters_.integer(loop_.row, true) +
                   ", line = " + parameters_.quotient("at", loop_.row, true) + ", off = at - line * line_length;");
        coordinates_of("line", "a");
        if (shape_.crosses) {
            body_.line("const tf_index cut = line_length - off, next_line = min(line + 1, (tf_index)(" +
                       parameters_.integer(loop_.rows(), true) + " - 1));");
            coordinates_of("next_line", "b");
        }
        body_.line("(void)off, (void)line, (void)at;");
    }

    std::string total_;
};

}  // namespace

std::unique_ptr<LoopWriter> element_writer(const Loop& loop, const Graph& graph, bool wide_index, Texts texts) {
    return std::make_unique<ElementWriter>(loop, graph, wide_index, texts);
}

}  // namespace transfuse::cuda
