// Reductions over space, collected over all cells of a thread; each block leaves a slot.
#include <algorithm>

#include "cuda/plain/cells_writer.h"

namespace transfuse::cuda {

// A slot a block: sums, sums of squares, extrema, in fp64.
void CellWriter::place(ValueId v, FamilyProgram& result, int64_t& scratch) {
    const Node& node = graph_[v];
    const Sizes& dims = node.attributes.integers(Key::dims);
    const bool batch = std::find(dims.begin(), dims.end(), 0) != dims.end(),
               keepdim = node.attributes.flag(Key::keepdim);
    const int64_t n = graph_[anchor_].type.shape[0];
    Place place;
    place.base = Argument::of_scratch(scratch);
    place.storage = DType::f64;
    place.aligned = true;
    place.read_only = false;
    place.strides.assign(node.type.shape.size(), 0);
    // [component][n][slice][channel]
    if (!batch) place.strides[0] = slices_ * cout_;
    place.strides[batch && !keepdim ? 0 : 1] = 1;
    place.partials = Partials{batch ? n * slices_ : slices_, cout_, n * slices_ * cout_, false};
    result.places.emplace(v, place);
    slot_at_[v] = scratch;
    scratch += (node.op == Op::var ? 2 : 1) * n * slices_ * cout_ * 8;
}

// Sums of a thread, about its own first value: short, and small where values are near each other.
void CellWriter::declare(ValueId v) {
    const std::string name = "grid" + number(v), C = "[" + number(cout_) + "]";
    const Op op = graph_[v].op;
    if (op == Op::amax || op == Op::amin) {
        body_.line("float " + name + C + ";");
        body_.line(each_channel() + " " + name + "[c] = " + (op == Op::amax ? "-" : "") +
                   "__int_as_float(0x7f800000);");
        return;
    }
    body_.line("float " + name + C + " = {}, " + name + "_pivot" + C + " = {};");
    if (op == Op::var) body_.line("float " + name + "_squares" + C + " = {};");
    body_.line("int " + name + "_count = 0;");
}

void CellWriter::add(ValueId v) {
    const std::string name = "grid" + number(v), of = of_channel(graph_[v].args[0]);
    const Op op = graph_[v].op;
    if (op == Op::amax || op == Op::amin) {
        body_.line(each_channel() + " " + name + "[c] = " + (op == Op::amax ? "tf_max(" : "tf_min(") + name + "[c], " +
                   of + ");");
        return;
    }
    body_.line("if (" + name + "_count == 0) { " + each_channel() + " " + name + "_pivot[c] = " + of + "; }");
    body_.line("++" + name + "_count;");
    body_.line(each_channel() + " { const float d = " + of + " - " + name + "_pivot[c]; " + name + "[c] += d;" +
               (op == Op::var ? " " + name + "_squares[c] += d * d;" : "") + " }");
}

// From threads to the block's slot, in fp64 and in a fixed order.
void CellWriter::leave(ValueId v, const std::string& n, const std::string& slice) {
    const std::string name = "grid" + number(v);
    const Op op = graph_[v].op;
    const bool extremum = op == Op::amax || op == Op::amin;
    const int64_t components = op == Op::var ? 2 : 1;
    body_.line("#pragma unroll");
    body_.open("for (int c = 0; c < " + number(cout_) + "; ++c)");
    std::vector<std::string> parts = {name + "_0", name + "_1"};
    if (extremum) {
        body_.line("double " + parts[0] + " = (double)" + name + "[c];");
    } else {
        body_.line("const double pivot = (double)" + name + "_pivot[c], count = (double)" + name + "_count;");
        body_.line("double " + parts[0] + " = (double)" + name + "[c] + pivot * count;");
        if (components > 1)
            body_.line("double " + parts[1] + " = (double)" + name + "_squares[c] + pivot * (2.0 * (double)" + name +
                       "[c] + pivot * count);");
    }
    const std::string join = op == Op::amax ? "tf_max(" : "tf_min(";
    for (int64_t i = 0; i < components; ++i) {
        const std::string& part = parts[static_cast<size_t>(i)];
        body_.line("for (int k = 16; k > 0; k /= 2) { const double other = __shfl_down_sync(0xffffffffu, " + part +
                   ", k); " + part + " = " + (extremum ? join + part + ", other)" : part + " + other") + "; }");
        body_.line("if (threadIdx.x % 32 == 0) tf_parts[threadIdx.x / 32][c + " + number(i * channels_) +
                   "] = " + part + ";");
    }
    body_.close();
    body_.line("__syncthreads();");
    const std::string pointer = kernel_.parameters.pointer(Argument::of_scratch(slot_at_.at(v)), "double", false);
    body_.open("if ((int)threadIdx.x < " + number(components * cout_) + ")");
    body_.line("const int part = (int)threadIdx.x / " + number(cout_) + ", c = (int)threadIdx.x % " + number(cout_) +
               ";");
    body_.line("double whole = tf_parts[0][part * " + number(channels_) + " + c];");
    body_.line("for (int i = 1; i < " + number(threads / 32) + "; ++i) { const double other = tf_parts[i][part * " +
               number(channels_) + " + c]; whole = " + (extremum ? join + "whole, other)" : "whole + other") + "; }");
    body_.line(pointer + "[((long long)part * " + integer(graph_[anchor_].type.shape[0]) + " + " + n + ") * (" +
               integer(slices_) + " * " + number(cout_) + ") + " + slice + " * " + number(cout_) + " + c] = whole;");
    body_.close();
    body_.line("__syncthreads();");
}

}  // namespace transfuse::cuda
