#include "cuda/plain/grouped/grouped_sums.h"

#include <algorithm>

#include "cuda/general/variance_beside.h"

namespace transfuse::cuda {

Places GroupedSums::place(int64_t& scratch) {
    Places places;
    const int64_t images = graph_[anchor_].type.shape[0], channels = shape_.channels(),
                  slots = shape_.slices * shape_.block_classes();
    for (ValueId v : shape_.grid) {
        if (variance_beside(graph_, v, shape_.grid) >= 0) continue;
        const Node& node = graph_[v];
        const Sizes& dims = node.attributes.integers(Key::dims);
        const bool batch = std::find(dims.begin(), dims.end(), 0) != dims.end(),
                   keepdim = node.attributes.flag(Key::keepdim);
        Place place;
        place.base = Argument::of_scratch(scratch);
        place.storage = DType::f64;
        place.aligned = true, place.read_only = false;
        // [component][image][slot][channel]
        place.strides.assign(node.type.shape.size(), 0);
        if (!batch) place.strides[0] = slots * channels;
        place.strides[batch && !keepdim ? 0 : 1] = 1;
        place.partials = Partials{batch ? images * slots : slots, channels, images * slots * channels, false};
        places.emplace(v, place);
        slot_at_[v] = scratch;
        scratch += (node.op == Op::var ? 2 : 1) * images * slots * channels * 8;
        collected_.push_back(v);
    }
    for (ValueId v : shape_.grid)
        if (variance_beside(graph_, v, shape_.grid) >= 0)
            places.emplace(v, places.at(variance_beside(graph_, v, shape_.grid)));
    return places;
}

std::string GroupedSums::loops() const {
    return "_Pragma(\"unroll\") for (int c = 0; c < " + number(shape_.columns()) +
           "; ++c) _Pragma(\"unroll\") for (int v = 0; v < " + number(lanes()) + "; ++v) ";
}

void GroupedSums::declare_shared() { body_.line("__shared__ double tf_parts[" + number(shape_.threads()) + "];"); }

// Sums of a thread are about its own first value: short, and small where values are near each other.
void GroupedSums::declare() {
    const std::string extents = "[" + number(shape_.columns()) + "][" + number(lanes()) + "]";
    const std::string real(real_name(real_of(graph_[anchor_].type.dtype)));
    for (ValueId v : collected_) {
        const std::string name = name_of(v);
        if (extremum(v)) {
            body_.line(real + " " + name + extents + ";");
            body_.line(loops() + name + "[c][v] = " + (graph_[v].op == Op::amax ? "-" : "") +
                       "__int_as_float(0x7f800000);");
            continue;
        }
        body_.line(real + " " + name + extents + " = {}, " + name + "_pivot" + extents + " = {};");
        if (graph_[v].op == Op::var) body_.line(real + " " + name + "_squares" + extents + " = {};");
        body_.line("int " + name + "_count[" + number(shape_.columns()) + "] = {};");
    }
}

void GroupedSums::add(ValueId v, const std::string& column, const Lanes& terms) {
    const std::string name = name_of(v), real(real_name(real_of(graph_[anchor_].type.dtype)));
    const Op op = graph_[v].op;
    auto at = [&](const std::string& array, int64_t lane) {
        return array + "[" + column + "][" + number(shape_.by_channel ? lane : 0) + "]";
    };
    if (!extremum(v)) {
        body_.open("if (" + name + "_count[" + column + "] == 0)");
        for (int64_t lane = 0; lane < lanes(); ++lane)
            body_.line(at(name + "_pivot", lane) + " = (" + real + ")" + terms[static_cast<size_t>(lane)] + ";");
        body_.close();
        body_.line(name + "_count[" + column + "] += " + number(shape_.lanes / lanes()) + ";");
    }
    for (int64_t lane = 0; lane < shape_.lanes; ++lane) {
        const std::string term = "(" + real + ")" + terms[static_cast<size_t>(lane)], sum = at(name, lane);
        if (extremum(v))
            body_.line(sum + " = " + (op == Op::amax ? "tf_max(" : "tf_min(") + sum + ", " + term + ");");
        else
            body_.line("{ const " + real + " d = " + term + " - " + at(name + "_pivot", lane) + "; " + sum + " += d;" +
                       (op == Op::var ? " " + at(name + "_squares", lane) + " += d * d;" : "") + " }");
    }
}

void GroupedSums::leave(const std::string& image, const std::string& slot, const std::string& channel,
                        const std::string& place) {
    const std::string slots = kernel_.integer(shape_.slices * shape_.block_classes()),
                      channels = number(shape_.channels());
    const std::string step = shape_.by_channel ? number(shape_.units) : "1";  // between threads of a unit
    int64_t half = 1;
    while (2 * half < shape_.unit_threads) half *= 2;
    for (ValueId v : collected_) {
        const std::string name = name_of(v), join = graph_[v].op == Op::amax ? "tf_max(" : "tf_min(";
        const std::string pointer = kernel_.parameters.pointer(Argument::of_scratch(slot_at_.at(v)), "double", false);
        for (int64_t part = 0; part < (graph_[v].op == Op::var ? 2 : 1); ++part) {
            body_.line("_Pragma(\"unroll\") for (int c = 0; c < " + number(shape_.columns()) + "; ++c)");
            body_.line("_Pragma(\"unroll\")");
            body_.open("for (int v = 0; v < " + number(lanes()) + "; ++v)");
            if (extremum(v)) {
                body_.line("const double mine = (double)" + name + "[c][v];");
            } else {
                body_.line("const double pivot = (double)" + name + "_pivot[c][v], count = (double)" + name +
                           "_count[c], sum = (double)" + name + "[c][v];");
                body_.line(part == 0 ? "const double mine = sum + pivot * count;"
                                     : "const double mine = (double)" + name +
                                           "_squares[c][v] + pivot * (2.0 * sum + pivot * count);");
            }
            const std::string here = "tf_parts[threadIdx.x]", other = "tf_parts[threadIdx.x + k * " + step + "]";
            body_.line("__syncthreads();");
            body_.line(here + " = mine;");
            body_.line("__syncthreads();");
            body_.open("for (int k = " + number(half) + "; k > 0; k /= 2)");
            body_.line("if (" + place + " < k && " + place + " + k < " + number(shape_.unit_threads) + ") " + here +
                       " = " + (extremum(v) ? join + here + ", " + other + ")" : here + " + " + other) + ";");
            body_.line("__syncthreads();");
            body_.close();
            const std::string of = channel + " + c * " + number(lanes()) + " + v";
            body_.line("if (" + place + " == 0 && " + of + " < " + channels + ") " + pointer + "[((long long)" +
                       number(part) + " * " + kernel_.integer(graph_[anchor_].type.shape[0]) + " + " + image + ") * (" +
                       slots + " * " + channels + ") + " + slot + " * " + channels + " + " + of + "] = " + here + ";");
            body_.close();
        }
    }
}

}  // namespace transfuse::cuda
