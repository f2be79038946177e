#include "cuda/dense/combine.h"

#include <array>
#include <memory>

#include "cuda/expression.h"
#include "cuda/pull.h"

namespace transfuse::cuda {

namespace {

struct Kept { long long count[3], at[3]; };      // outputs: extents, fastest last, and steps
struct Reduced { long long count[3], at[3]; };   // what is combined: fastest first

// Sums and the moments of partials are added up in double (of single values a variance would divide for each), and what
// comes out is double whatever the tiles computed in: the tail subtracts means that are nearly equal.
// What an op keeps of some elements, as text: made of stored partials (`at` apart; 0: of one plain value), joined, finished.
struct State { std::string begin, of, join, finish; };

State state_of(Op op) {
    const std::string lowest = "__int_as_float(0xff800000)", highest = "__int_as_float(0x7f800000)";
    if (op == Op::amax) return {"{" + lowest + ", 0, 0}", "{*p, 0, 0}", "s.a = tf_max(s.a, o.a);", "s.a"};
    if (op == Op::amin) return {"{" + highest + ", 0, 0}", "{*p, 0, 0}", "s.a = tf_min(s.a, o.a);", "s.a"};
    if (op == Op::logsumexp)   // maximum, and the sum of exponentials relative to it
        return {"{" + lowest + ", 0, 0}", "{*p, at ? p[at] : (REAL)1, 0}",
                "const REAL top = tf_max(s.a, o.a); if (top != " + lowest + ") s.b = s.b * tf_exp(s.a - top) + o.b * tf_exp(o.a - top); s.a = top;",
                "tf_abs(s.a) == " + highest + " ? s.a : s.a + tf_log(s.b)"};
    if (op == Op::var)         // count, mean, squares about it; `scale` is the correction
        return {"{0, 0, 0}", "{at ? *p : (REAL)1, at ? p[at] : *p, at ? p[2 * at] : (REAL)0}", "tf_join_moments(s.a, s.b, s.c, o.a, o.b, o.c);", "s.c / (s.a - scale)"};
    return {"{0, 0, 0}", "{*p, 0, 0}", "s.a += o.a;", "s.a * scale"};
}

// 32 neighbouring outputs a block, 32 threads each.
std::string combine_source(const std::string& entry, Op op, Real real, bool partials) {
    const State state = state_of(op);
    std::string text = std::string(device_math()) + sequence_code() + "typedef " + std::string(real_name(real)) + " REAL;" + R"cuda(
struct Kept { long long count_1, count_2, count_3, at_1, at_2, at_3; };
struct Reduced { long long count_1, count_2, count_3, at_1, at_2, at_3; };
struct State { STATE a, b, c; };
static __device__ __forceinline__ State state_of(const REAL* p, long long at) { return State OF; }
static __device__ __forceinline__ void join(State& s, const State& o) { JOIN }
extern "C" __global__ void __launch_bounds__(1024, 1) ENTRY(const REAL* in, double* out, Kept o, Reduced r, long long apart, double scale, long long next_in, long long next_out) {
    TF_SEQUENCE();
    const int lane = threadIdx.x % 32, part = threadIdx.x / 32;
    const long long total = o.count_1 * o.count_2 * o.count_3;
    const int blocks = (int)((total + 31) / 32), which = blockIdx.x / blocks;
    const long long at = (blockIdx.x % blocks) * 32ll + lane;
    in += which * next_in;
    out += which * next_out;
    __shared__ State parts[32][32];
    State s = BEGIN;
    if (at < total) {
        const REAL* from = in + at / (o.count_2 * o.count_3) * o.at_1 + at / o.count_3 % o.count_2 * o.at_2 + at % o.count_3 * o.at_3;
        for (long long k3 = 0; k3 < r.count_3; k3++)
            for (long long k2 = 0; k2 < r.count_2; k2++) {
                const REAL* p = from + k3 * r.at_3 + k2 * r.at_2 + part * r.at_1;
#pragma unroll TIMES
                for (long long k1 = part; k1 < r.count_1; k1 += 32, p += 32 * r.at_1) join(s, state_of(p, apart));
            }
    }
    parts[part][lane] = s;
    __syncthreads();
    if (part == 0 && at < total) {
#pragma unroll TIMES
        for (int k = 1; k < 32; k++) join(s, parts[k][lane]);
        out[at] = FINISH;
    }
}
)cuda";
    auto replace = [&](const std::string& what, const std::string& by) {
        for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) text.replace(at, what.size(), by);
    };
    replace("STATE", op == Op::sum || (op == Op::var && partials) ? "double" : "REAL"), replace("TIMES", op == Op::logsumexp || op == Op::var ? "1" : "4"), replace("ENTRY", entry), replace("State OF", "State" + state.of), replace("BEGIN", state.begin), replace("{ JOIN }", "{ " + state.join + " }"), replace("FINISH", state.finish);
    return text;
}

}  // namespace

bool alike(const Graph& graph, const Partial& a, const Partial& b) {
    return a.reduction.whole && b.reduction.whole && a.reduction.op == b.reduction.op && a.reduction.reduced == b.reduction.reduced &&
           a.reduction.op != Op::var && graph[a.reduction.of].type.shape == graph[b.reduction.of].type.shape && (b.first_stat - a.first_stat) % a.stats == 0;
}

Launch combine(const Epilogue& epilogue, const Partial& p, int count, int64_t from, int64_t to, int64_t size, const PartialRows& rows) {
    const Op op = p.reduction.op == Op::mean ? Op::sum : p.reduction.op;
    const int spatial = epilogue.program().spatial;
    Kept o{{1, 1, 1}, {0, 0, 0}};
    Reduced r{{1, 1, 1}, {0, 0, 0}};
    long long apart = 0, next = 0;
    double elements = 1;
    const Type& of = epilogue.graph()[p.reduction.of].type;
    std::array<int64_t, 5> shape;
    shape.fill(1);
    for (size_t k = 0; k < of.shape.size(); ++k) shape[k < 2 ? k : k + 3 - static_cast<size_t>(spatial)] = of.shape[k];
    for (size_t a = 0; a < 5; ++a)
        if (p.reduction.reduced[a]) elements *= static_cast<double>(shape[a]);
    if (p.reduction.whole) {
        const int64_t channels = epilogue.channels(), per = rows.rows / rows.images;
        const bool per_channel = shape[1] > 1;
        from += static_cast<int64_t>(p.first_stat) * rows.rows * channels * epilogue.real_bytes();
        next = p.stats * rows.rows * channels;
        if (p.stats > 1) apart = rows.rows * channels;
        if (p.reduction.reduced[0] || rows.images == 1) r.count[1] = rows.images, r.at[1] = per * channels;
        else o.count[1] = rows.images, o.at[1] = per * channels;
        if (per_channel && !p.reduction.reduced[1]) o.count[2] = channels, o.at[2] = 1;
        else if (per_channel) r.count[2] = channels, r.at[2] = 1;
        r.count[0] = per, r.at[0] = channels;
    } else {
        // The value itself was kept: axes n, c, d, h, w, neighbours of one sort merged.
        const Sizes strides = contiguous_strides(of.shape);
        std::vector<std::pair<int64_t, int64_t>> kept, gone;
        bool last = false, any = false;
        for (size_t k = 0; k < of.shape.size(); ++k) {
            const size_t axis = k < 2 ? k : k + 3 - static_cast<size_t>(spatial);
            const bool reduced = p.reduction.reduced[axis];
            auto& list = reduced ? gone : kept;
            if (any && last == reduced && !list.empty()) list.back() = {list.back().first * of.shape[k], strides[k]};
            else list.push_back({of.shape[k], strides[k]});
            last = reduced, any = true;
        }
        for (size_t k = 0; k < kept.size() && k < 3; ++k) o.count[3 - kept.size() + k] = kept[k].first, o.at[3 - kept.size() + k] = kept[k].second;
        for (size_t k = 0; k < gone.size() && k < 3; ++k) r.count[k] = gone[k].first, r.at[k] = gone[k].second;
    }
    const double scale = op == Op::var ? epilogue.graph()[p.reduction.value].attributes.number(Key::correction) : p.reduction.op == Op::mean ? 1.0 / elements : 1.0;
    const long long next_out = size / 8;
    Launch launch;
    launch.source = std::make_shared<Source>(Source{"transfuse_combine", combine_source("transfuse_combine", op, epilogue.real(), p.reduction.whole), {}});
    launch.grid = {static_cast<uint32_t>((o.count[0] * o.count[1] * o.count[2] + 31) / 32 * count), 1, 1};
    launch.block = {1024, 1, 1};
    launch.early = true;
    launch.arguments = {Argument::of_scratch(from), Argument::of_scratch(to), Argument::of(o), Argument::of(r), Argument::of(apart), Argument::of(scale), Argument::of(next), Argument::of(next_out)};
    launch.note = "combine partials of " + std::string(name(p.reduction.op));
    return launch;
}

}  // namespace transfuse::cuda
