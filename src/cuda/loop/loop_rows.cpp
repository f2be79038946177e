// Rows: a group of threads holds one in registers. Where its elements are neighbours in memory so are the threads, and
// reductions meet by shuffles, beyond a warp in shared memory; where they lie apart (channels of an image in planes)
// neighbouring threads take neighbouring rows, and a long row is shared by the warps of a block.
#include <algorithm>
#include <bit>
#include <limits>

#include "algebra/lattice/integer.h"
#include "cuda/kernel/shares.h"
#include "cuda/loop/figures.h"
#include "cuda/loop/loop_writer.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

using namespace figures::loop;

int64_t power_of_two(int64_t at_least) {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, at_least))));
}

class RowWriter : public LoopWriter {
public:
    using LoopWriter::LoopWriter;

private:
    int64_t blocks() const override { return ceil_div(loop_.rows(), shape_.threads / shape_.group); }
    std::string note() const override {
        return "rows of " + number(loop_.row) + ", " + number(shape_.group) +
               (shape_.group == 1 ? " thread each" : " threads each") + (across_warps_ ? ", one a warp" : "");
    }

    bool shape() override {
        if (lies_apart()) return shape_for_apart();
        shape_.vector = widest();
        if (any_size()) return shape_for_any();
        while (loop_.row % shape_.vector != 0) shape_.vector /= 2;
        const int64_t group = loop_.row <= row_of_a_warp
                                  ? std::min<int64_t>(32, power_of_two(ceil_div(loop_.row, share_of_a_warp)))
                                  : std::min(most_group, power_of_two(ceil_div(loop_.row, share_of_a_block)));
        shape_.group = static_cast<int>(group);
        shape_.vectors = static_cast<int>(ceil_div(loop_.row, group * shape_.vector));
        if (shape_.vectors * shape_.vector > most_in_registers / 2) return false;
        shape_.threads = static_cast<int>(std::max<int64_t>(256, group));
        return true;
    }

    // Whether the elements of a row are no neighbours in memory, neither where they come from nor where they go. The
    // largest tensors decide: weights of the elements stay in caches.
    bool lies_apart() const {
        auto axes = [](const LoopTensor& t) {
            return std::count_if(t.strides.begin(), t.strides.end(), [](int64_t s) { return s != 0; });
        };
        int64_t most = 0;
        for (const LoopTensor& t : loop_.reads) most = std::max(most, axes(t));
        auto apart = [&](const LoopTensor& t) { return axes(t) < most || t.row() != 1; };
        return loop_.row > 1 && std::all_of(loop_.reads.begin(), loop_.reads.end(), apart) &&
               std::all_of(loop_.stores.begin(), loop_.stores.end(), apart);
    }

    // Neighbouring threads take neighbouring rows; a thread holds all of one, or each warp a share.
    bool shape_for_apart() {
        shape_.vectors = static_cast<int>(loop_.row);
        if (loop_.row <= most_in_registers) return true;
        if (loop_.row > warps_of_a_row * 2 * share_of_a_row) return false;
        across_warps_ = true;
        shape_.group = static_cast<int>(std::min(warps_of_a_row, ceil_div(loop_.row, share_of_a_row)));
        shape_.vectors = static_cast<int>(ceil_div(loop_.row, shape_.group));
        shape_.threads = 32 * shape_.group;
        return true;
    }

    // Rows up to 256, 1024, 4096 and 32768 elements share a text.
    bool shape_for_any() {
        struct Room {
            int group, elements;  // threads of a row, and what each holds
        };
        if (loop_.row % shape_.vector != 0) shape_.vector = 1;
        for (const Room& room : {Room{32, 8}, Room{32, 32}, Room{256, 16}, Room{1024, 32}}) {
            if (loop_.row > int64_t{room.group} * room.elements) continue;
            shape_.group = room.group, shape_.vectors = room.elements / shape_.vector;
            shape_.threads = std::max(256, room.group);
            return true;
        }
        return false;
    }

    // Reductions over the threads of a row.
    std::string helpers() const override {
        if (shape_.group == 1) return "";
        std::string text = "constexpr int GROUP = " + number(shape_.group) + ";\n";
        for (const auto& [function, join] :
             {std::pair{"tf_row_sum", "x + y"}, {"tf_row_max", "tf_max(x, y)"}, {"tf_row_min", "tf_min(x, y)"}}) {
            text += "template <class R> TF_FUNCTION R " + std::string(function) + "(R x) {\n";
            if (across_warps_) {
                text +=
                    "    __shared__ R parts[GROUP * 32];\n    parts[threadIdx.x] = x;\n    __syncthreads();\n    x = "
                    "parts[threadIdx.x % 32];\n    for (int k = 1; k < GROUP; k++) { const R y = parts[k * 32 + "
                    "threadIdx.x % 32]; x = " +
                    std::string(join) + "; }\n    __syncthreads();\n    return x;\n}\n";
                continue;
            }
            text += "    for (int k = 1; k < " + number(std::min(shape_.group, 32)) +
                    "; k *= 2) { const R y = __shfl_xor_sync(~0u, x, k); x = " + join + "; }\n";
            if (shape_.group > 32)
                text += "    __shared__ R parts[" + number(shape_.threads / 32) +
                        "];\n    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;\n    __syncthreads();\n    "
                        "const int first = threadIdx.x / GROUP * (GROUP / 32);\n    x = parts[first];\n" +
                        std::string("    for (int k = 1; k < GROUP / 32; k++) { const R y = parts[first + k]; x = ") +
                        join + "; }\n    __syncthreads();\n";
            text += "    return x;\n}\n";
        }
        return text;
    }

    // Rows: a group of threads holds one; reductions meet by shuffles, beyond a warp in shared memory.
    void body() override {
        const std::string vectors = number(shape_.vectors), lanes = number(shape_.vector), group = number(shape_.group);
        const bool strided = shape_.group == 1 && shape_.vectors == loop_.row;
        const std::string count = parameters_.count(loop_.rows());
        body_.line({"const tf_index own = (tf_index)blockIdx.x * ", number(shape_.threads / shape_.group),
                    across_warps_ ? " + threadIdx.x % 32" : " + threadIdx.x / " + group, ", row = min(own, (tf_index)(",
                    count, " - 1));"});
        body_.line({"const int lane = threadIdx.x ", across_warps_ ? "/ 32" : "% " + group, ";"});
        // Threads beyond the end repeat the last row and do not store it: everyone meets in the reductions.
        body_.line({"const bool live = own < ", count, ";"});
        coordinates_of("row", "a");
        body_.line("(void)lane, (void)live;");
        const bool exact =
            strided || (!any_size() && int64_t{shape_.vectors} * shape_.group * shape_.vector == loop_.row);
        const std::string length = any_size() && !exact ? parameters_.count(loop_.row) : number(loop_.row);
        inside_ = exact ? "true" : "(c * " + group + " + lane) * " + lanes + " < " + length;
        const std::string along = "((c * " + group + " + lane) * " + lanes + ")";
        loops_ = {"for (int c = 0; c < " + vectors + "; c++)", "for (int e = 0; e < " + lanes + "; e++)"};
        std::map<ValueId, LoopValue> values;
        for (const LoopTensor& t : loop_.reads) {
            const std::string name = "r" + number(t.value), real(real_name(real_of_read(t)));
            if (t.row() == 0) {
                body_.line({"const ", real, " ", name, " = tf_load<", real, ">(", pointer(t, false), " + ",
                            offset(t, "a", "0"), ");"});
                values[t.value] = {name, real_of_read(t), ""};
                continue;
            }
            body_.line({real, " ", name, "[", vectors, "][", lanes, "];"});
            body_.line("#pragma unroll");
            body_.open({"for (int c = 0; c < ", vectors, "; c++)"});
            if (!exact) body_.line({"_Pragma(\"unroll\") for (int e = 0; e < ", lanes, "; e++) ", name, "[c][e] = 0;"});
            if (!exact) body_.open({"if (", inside_, ")"});
            load_vector(name + "[c]", t, offset(t, "a", along), chunk(t, false));
            if (!exact) body_.close();
            body_.close();
            values[t.value] = {name, real_of_read(t), "[c][e]"};
        }
        for (ValueId step : loop_.steps) {
            if (is_reduction(graph_[step].op))
                reduction(step, values);
            else
                pointwise(step, values, "[" + vectors + "][" + lanes + "]", loops_, "[c][e]");
        }
        body_.open("if (live)");
        for (const LoopTensor& t : loop_.stores) {
            const LoopValue& v = values.at(t.value);
            if (t.row() == 0 && loop_.row > 1) {
                body_.line({"if (lane == 0) tf_store(", pointer(t, true), " + ", offset(t, "a", "0"), ", ", v.name,
                            (v.index.empty() ? "" : "[0][0]"), ");"});
                continue;
            }
            body_.line("#pragma unroll");
            body_.open({"for (int c = 0; c < ", vectors, "; c++)"});
            if (!exact) body_.open({"if (", inside_, ")"});
            store_vector(t, offset(t, "a", along), chunk(t, false), v, "[c]");
            if (!exact) body_.close();
            body_.close();
        }
        body_.close();
    }

    std::string across(const std::string& function, const std::string& x) const {
        return shape_.group == 1 ? x : function + "(" + x + ")";
    }

    // max or min of `term` over the row, as a variable of that name.
    void extreme(const std::string& name, const std::string& real, const std::string& begin, const std::string& join,
                 const std::string& term) {
        const std::string part = name + "_part";
        body_.line({real, " ", part, " = ", begin, ";"});
        for (const std::string& head : loops_) body_.line({"_Pragma(\"unroll\") ", head});
        body_.line(
            {(inside_ == "true" ? "" : "if (" + inside_ + ") "), part, " = tf_", join, "(", part, ", ", term, ");"});
        body_.line({"const ", real, " ", name, " = ", across("tf_row_" + join, part), ";"});
    }

    // Σ of `term` over the row. A thread's terms go to eight sums in turn, which are then added in pairs: one sum of 64
    // terms would collect three times the rounding errors.
    void sum(const std::string& name, const std::string& real, const std::string& term) {
        const int64_t terms = int64_t{shape_.vectors} * shape_.vector, sums = std::min<int64_t>(8, power_of_two(terms));
        const std::string part = name + "_part";
        body_.line({real, " ", part, "[", number(sums), "] = {};"});
        for (const std::string& head : loops_) body_.line({"_Pragma(\"unroll\") ", head});
        body_.line({(inside_ == "true" ? "" : "if (" + inside_ + ") "), part, "[(c * ", number(shape_.vector),
                    " + e) % ", number(sums), "] += ", term, ";"});
        for (int64_t half = sums / 2; half > 0; half /= 2)
            body_.line({"_Pragma(\"unroll\") for (int k = 0; k < ", number(half), "; k++) ", part, "[k] += ", part,
                        "[k + ", number(half), "];"});
        body_.line({"const ", real, " ", name, " = ", across("tf_row_sum", part + "[0]"), ";"});
    }

    std::string mean_of(ValueId of, const LoopValue& v, const std::string& real) {
        auto [at, fresh] = means_.try_emplace(of, "mean_of_" + number(of));
        if (!fresh) return at->second;
        const std::string total = "sum_of_" + number(of);
        sum(total, real, v.name + v.index);
        const std::string share = any_size() ? constant(1.0 / static_cast<double>(loop_.row), v.real)
                                             : "(" + real + ")(1.0 / " + number(loop_.row) + ".0)";
        body_.line("const " + real + " " + at->second + " = " + total + " * " + share + ";");
        return at->second;
    }

    void reduction(ValueId id, std::map<ValueId, LoopValue>& values) {
        const Node& node = graph_[id];
        const ValueId of = node.args[0];
        const LoopValue& v = values.at(of);
        LoopValue result{"v" + number(id), v.real, ""};
        const std::string name = result.name, real(real_name(v.real)), x = v.name + v.index;
        const std::string lowest = literal(-std::numeric_limits<double>::infinity(), v.real),
                          highest = literal(std::numeric_limits<double>::infinity(), v.real);
        auto define = [&](const std::string& text) { body_.line({"const ", real, " ", name, " = ", text, ";"}); };
        switch (node.op) {
            case Op::sum:
                sum(name, real, x);
                break;
            case Op::mean:
                define(mean_of(of, v, real));
                break;
            case Op::amax:
                extreme(name, real, lowest, "max", x);
                break;
            case Op::amin:
                extreme(name, real, highest, "min", x);
                break;
            case Op::logsumexp: {
                extreme(name + "_top", real, lowest, "max", x);
                // A pivot of ∞ makes the mass NaN, and so the shares.
                const std::string whole = node.attributes.flag(Key::finite) ? "" : name + "_top == " + highest + " ? ";
                body_.line({"const ", real, " ", name, "_pivot = ", name, "_top == ", lowest, " ? (", real,
                            ")0 : ", name, "_top;"});
                sum(name + "_mass", real, "tf_exp(" + x + " - " + name + "_pivot)");
                define(whole + (whole.empty() ? "" : name + "_top : ") + "tf_log(" + name + "_mass) + " + name +
                       "_pivot");
                if (!has_shares(graph_, id)) break;
                body_.line({"const ", real, " ", name, "_inverse = ", whole, whole.empty() ? "" : "0 : ", "1 / ", name,
                            "_mass;"});
                result.pivot = name + "_pivot", result.inverse = name + "_inverse";
                break;
            }
            case Op::var: {
                const std::string d = "(" + x + " - " + mean_of(of, v, real) + ")";
                sum(name + "_squares", real, d + " * " + d);
                define(name + "_squares / " +
                       constant(static_cast<double>(loop_.row) - node.attributes.number(Key::correction), v.real));
                break;
            }
            default:
                fail("loop: ", transfuse::name(node.op), " is no reduction");
        }
        values[id] = result;
    }

    bool across_warps_ = false;  // the warps of a block share 32 rows
    std::string inside_;         // whether the thread's vector c lies in the row
    std::vector<std::string> loops_;
    std::map<ValueId, std::string> means_;
};

}  // namespace

std::unique_ptr<LoopWriter> row_writer(const Loop& loop, const Graph& graph, bool wide_index, bool any_size) {
    return std::make_unique<RowWriter>(loop, graph, wide_index, any_size);
}

}  // namespace transfuse::cuda
