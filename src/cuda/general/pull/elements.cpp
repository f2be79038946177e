// Jobs of a thread an element, or a vector of neighbours.
#include "algebra/lattice/integer.h"
#include "cuda/general/pull/writer.h"

namespace transfuse::cuda {

void PullWriter::element_job(const Job& job, const Shape& shape, const Places& places, const std::string& block) {
    Emitter emitter(graph_, request_.parameter_values, places, parameters_, body_, tables_, job.wide, shape.vector);
    const int64_t total = ceil_div(numel(graph_[job.root].type.shape), shape.vector);
    const bool dynamic = !request_.parameter_values[static_cast<size_t>(job.root)];
    const std::string t = emitter.let("tf_index", {"(tf_index)", block, " * ", number(threads), " + threadIdx.x"}, "t");
    emitter.open({"if (", t, " < ", (dynamic ? parameters_.count(total) : number(total)), ")"});
    const Index index = decompose(emitter, job.root, t, shape.order, shape.vector);
    const Lanes lanes = emitter.value(job.root, index);
    for (const Place& place : job.destinations) store(emitter, place, index, lanes, shape.vector);
    emitter.close();
}

// Lanes along the axis the destination is contiguous in.
int PullWriter::element_vector(const Job& job, const std::vector<size_t>& order, const Places& places) const {
    if (job.destinations.empty() || order.empty() || job.wide) return 1;
    const Place& place = job.destinations[0];
    const Sizes& shape = graph_[job.root].type.shape;
    const size_t inner = order.back();
    const auto width = static_cast<int>(16 / bytes(place.storage));
    if (!place.aligned || place.strides[inner] != 1 || shape[inner] % width != 0) return 1;
    for (size_t a = 0; a < shape.size(); ++a)
        if (a != inner && shape[a] != 1 && place.strides[a] % width != 0) return 1;
    return vectorises(job.root, places) ? width : 1;
}

// Takes a linear number apart over axes in the given order, outermost first; the innermost counts vectors.
Index PullWriter::decompose(Emitter& emitter, ValueId id, const std::string& linear, const std::vector<size_t>& order,
                            int vector) {
    const Sizes& shape = graph_[id].type.shape;
    Index index(shape.size(), Coordinate{"0"});
    std::string rest = linear;
    bool innermost = true;
    for (size_t i = order.size(); i-- > 0;) {
        const size_t axis = order[i];
        if (shape[axis] == 1) continue;
        const int64_t extent = innermost ? shape[axis] / vector : shape[axis];
        const bool dynamic = emitter.dynamic(id, axis);
        bool outermost = true;
        for (size_t j = 0; j < i; ++j)
            if (shape[order[j]] != 1) outermost = false;
        std::string here = rest;
        if (!outermost) {
            const std::string q = emitter.let_index(parameters_.quotient(rest, extent, dynamic)).text;
            here = emitter.let_index(parameters_.remainder(rest, q, extent, dynamic)).text;
            rest = q;
        }
        if (innermost && vector > 1)
            index[axis] = {emitter.let_index(times(here, number(vector))).text, true};
        else
            index[axis] = {here};
        innermost = false;
    }
    return index;
}

void PullWriter::store(Emitter& emitter, const Place& place, const Index& index, const Lanes& lanes, int vector) {
    const std::string storage(storage_name(place.storage));
    const std::string pointer = parameters_.pointer(place.base, storage, false);
    std::string offset = "0";
    bool aligned = place.aligned;
    std::string lane_stride = "0";
    for (size_t a = 0; a < index.size(); ++a) {
        const std::string stride = parameters_.integer(place.strides[a], true);
        if (index[a].vector) {
            lane_stride = stride;
            if (place.strides[a] != 1) aligned = false;
        } else if (index[a].text != "0" && place.strides[a] % vector != 0) {
            aligned = false;
        }
        offset = plus(offset, times(index[a].text, stride));
    }
    if (vector == 1) {
        body_.line({"tf_store(", pointer, " + ", offset, ", ", lanes[0], ");"});
        return;
    }
    const std::string at = emitter.let("tf_index", offset, "i");
    const int64_t chunk = 16 / bytes(place.storage);
    if (aligned && vector % chunk == 0) {
        for (int64_t begin = 0; begin < vector; begin += chunk) {
            const std::string type = "tf_vector<" + storage + ", " + number(chunk) + ">", pack = body_.fresh("q");
            body_.line({type, " ", pack, ";"});
            for (int64_t lane = 0; lane < chunk; ++lane)
                body_.line(
                    {"tf_from(", pack, ".lane[", number(lane), "], ", lanes[static_cast<size_t>(begin + lane)], ");"});
            body_.line({"*(", type, "*)(", pointer, " + ", plus(at, number(begin)), ") = ", pack, ";"});
        }
        return;
    }
    for (int lane = 0; lane < vector; ++lane)
        body_.line({"tf_store(", pointer, " + ", plus(at, times(number(lane), lane_stride)), ", ",
                    lanes[static_cast<size_t>(lane)], ");"});
}

}  // namespace transfuse::cuda
