// Products in ordinary arithmetic, of what differs from a number near the mean: short sums are formed in fp32, long
// ones in fp64; of float64, or where borders cut x into too many parts to do without its mean, all in fp64.
//
// A lane has a place (h, w) of the block's chunk; all pairs of two blocks of channels, some lags apart, are its sums,
// in registers, and all its products are loads of shared memory and multiply-adds. Lanes keep their place among the
// segments of h and w until the end, where the sums of each segment are formed. The rest is in covariance_stream.h and
// covariance_parts.h.
#include "cuda/sums/covariance/covariance.h"

#include <algorithm>

#include "algebra/lattice/integer.h"
#include "cuda/sums/covariance/covariance_stream.h"
#include "cuda/sums/covariance/figures.h"

namespace transfuse::cuda {

using namespace figures::covariance::ordinary;

namespace {

constexpr int64_t warps = 4, lanes = 32;

constexpr std::string_view code_of_runs =
#include "cuda/device/values/runs.cuh"
    ;

// An axis in chunks, which warps take place by place. For each edge between segments, the chunks before the one it lies
// in, which are inside one segment, and that one; then the rest. Some of these runs are empty. The kernels find them,
// too: see write_runs_of.
struct Run {
    int64_t begin = 0, end = 0;
};

std::vector<Run> runs_of(const AxisLags& axis, int64_t chunk) {
    std::vector<Run> runs;
    int64_t at = 0;
    auto until = [&](int64_t end) {
        runs.push_back({at, std::max(at, std::min(end, axis.edges.back()))});
        at = runs.back().end;
    };
    for (int64_t s = 1; s < axis.segments(); ++s) {
        const int64_t begin = axis.edges[static_cast<size_t>(s)] / chunk * chunk;
        until(begin), until(begin + chunk);
    }
    until(axis.edges.back());
    return runs;
}

class CovarianceSums : public CovarianceStream {
public:
    CovarianceSums(const Surroundings& s, const Places& places) : CovarianceStream(s, places, DType::f64, true) {
        const AxisLags &high = axes_[1], &wide = axes_[2];
        const int64_t most = centred_ ? most_sums : most_wide_sums;
        int64_t blocks = ceil_div(channels_, most_channels);
        while (ceil_div(channels_, blocks) * ceil_div(channels_, blocks) > most) ++blocks;
        const int64_t side = ceil_div(channels_, blocks);
        divide(side, std::max<int64_t>(1, most / (side * side)));
        const int64_t rows = extent_[1] > 2 ? 4 : extent_[1];
        stage(rows, lanes * (warps / rows));
        const int64_t left = most_shared - warps * lanes * ((lanes + 1) * (centred_ ? 4 : 8) + segments_ * 8);
        in_shared_ = staged_bytes() <= left && counted();
        if (!in_shared_) reach_ = 0;
        runs_ = 2 * segments_ - 1;
        high_runs_ = 2 * high.segments() - 1;
        const std::vector<Run> talls = runs_of(high, rows_), runs = runs_of(wide, chunk_);
        auto chunks = [](const Run& run, int64_t size) { return ceil_div(run.end - run.begin, size); };
        auto work = [&](int64_t d, int64_t tall, int64_t run) {
            return static_cast<double>(batch_ * chunks(talls[static_cast<size_t>(tall)], rows_) *
                                       chunks(runs[static_cast<size_t>(run)], chunk_)) *
                   column_work(d);
        };
        share(work, resident);
    }

private:
    Launch sum() override {
        KernelText kernel = text();
        write_sums(kernel);
        Launch launch =
            kernel.launch("tf_covariance", tiles_ * groups_ * blocks_, threads(),
                          "products of x" + to_string(graph_[x_].type.shape) + " with itself, " + number(tiles_) +
                              " tiles of " + number(values()) + " sums, " + number(blocks_) + " blocks each",
                          runs_code() + (in_shared_ ? staging_code(staged_bytes() / 4) : std::string()), resident);
        launch.shared_bytes = static_cast<uint32_t>(in_shared_ ? staged_bytes() : 0);
        return launch;
    }
    int64_t slot_segments() const override { return axes_[1].segments() * segments_; }
    int64_t threads() const override { return warps * lanes; }
    int64_t staged_bytes() const {
        return ring_numbers() * (real_of(graph_[x_].type.dtype) == Real::f64 ? 8 : 4) +
               (coming_numbers() + place_numbers()) * 4;
    }
    int64_t most_early() const override { return 8; }
    std::string term() const { return centred_ ? "float" : "double"; }

    // runs_of, in the kernel: where each begins and ends, its first segment and how many.
    static void write_runs_of(KernelText& k, const AxisLags& axis, int64_t chunk, const std::string& edges,
                              const std::string& name) {
        const std::string count = number(2 * axis.segments() - 1);
        table(k, edges, axis.edges);
        k.body.line("__shared__ int " + name + "_begin[" + count + "], " + name + "_end[" + count + "], " + name +
                    "_segment[2 * " + count + "];");
        k.body.line("if (threadIdx.x == 0) tf_runs<" + number(axis.segments()) + ", " + number(chunk) + ">(" + edges +
                    ", " + name + "_begin, " + name + "_end, " + name + "_segment);");
    }
    std::string runs_code() const override { return std::string(code_of_runs); }
    void write_runs(KernelText& k) const override {
        write_runs_of(k, axes_[1], rows_, "tf_high", "tf_tall");
        write_runs_of(k, axes_[2], chunk_, "tf_wide", "tf_run");
    }

    void write_sums(KernelText& k) {
        Body& body = k.body;
        body.line("__shared__ " + term() + " tf_lanes[" + number(warps) + "][" + number(lanes) + "][" +
                  number(lanes + 1) + "];");
        body.line("__shared__ double tf_parts[" + number(warps) + "][" + number(lanes) + "][" + number(segments_) +
                  "];");
        body.line("__shared__ int tf_rows[" + number(warps) + "];");
        if (in_shared_) {
            const std::string real(real_name(real_of(graph_[x_].type.dtype)));
            body.line(real + "* const tf_ring = (" + real + "*)tf_tiles;");
            if (coming_numbers()) body.line("float* const tf_coming = tf_tiles + " + number(ring_numbers()) + ";");
            body.line("int* const tf_places = (int*)tf_tiles + " + number(staged_bytes() / 4 - place_numbers()) + ";");
        }
        write_block(k);
        body.line("const int row = warp % " + number(rows_) + ", strip = warp / " + number(rows_) + ";");
        // Where a run is one segment all its rows are in it; else it is one chunk.
        body.open("if (lane == 0)");
        body.line("int segment = 0;");
        body.line(
            "while (segment + 1 < tf_tall_segment[2 * tall + 1] && tf_high[tf_tall_segment[2 * tall] + segment + "
            "1] <= tf_tall_begin[tall] + row) ++segment;");
        body.line("tf_rows[warp] = segment;");
        body.close();
        // Of each lag and pair of channels the products, then the channels alone.
        body.line(term() + " sums[" + number(values()) + "] = {};");
        if (in_shared_)
            write_steps(k, centred_ ? most_terms : int64_t{1} << 30);
        else
            write_far_steps(k);
    }

    // Straight from memory, where lags are too far apart.
    void write_far_steps(KernelText& k) {
        Body& body = k.body;
        body.open("for (bool again = false; !again || at < end; again = true)");
        k.emitter.open("for (int terms = 0; at < end && terms < " + number(centred_ ? most_terms : int64_t{1} << 30) +
                       "; ++at, ++terms)");
        body.line("const int column = at / planes, d = first_d + at % planes;");
        body.line("int n, h, w;");
        write_column(body, "n", "h", "w");
        write_products(k);
        k.emitter.close();
        write_finish(k);
        body.close();
    }

    // Declares `name`: x of channel c (of both sides) at one place.
    void write_number(KernelText& k, const std::string& name, const std::string& c, const std::string& d,
                      const std::string& h, const std::string& w) {
        Body& body = k.body;
        if (in_shared_) {
            body.line("const " + term() + " " + name + " = from[" + c + " * " + number(staged_columns_) + "];");
            return;
        }
        body.line(term() + " " + name + " = 0;");
        body.line("const int own = " + own_channel(c) + ";");
        k.emitter.open("if (" + inside(k, d, h, w) + " && own < " + number(channels_) + ")");
        const std::string channel = k.let("group * " + number(channels_) + " + own", "channel");
        body.line(name + " = " + k.emitter.value(x_, at("n", channel, d, h, w))[0] +
                  (centred_ ? " - " + wide("tf_mean[" + c + "]") + ";" : ";"));
        k.emitter.close();
    }

    // Of one place: its channels alone, and with those of each lag.
    void write_products(KernelText& k) override {
        Body& body = k.body;
        const std::string C = number(channel_block_), row = number(both() * staged_columns_);
        if (in_shared_)
            body.line("const auto* here = tf_ring + (row + " + number(rows_before_) + ") * " + row +
                      " + strip * 32 + lane + " + number(columns_before_) + ";");
        else
            body.line("const int near_h = h + row, near_w = w + strip * 32 + lane;");
        auto from = [&](const std::string& ahead, const std::string& below, const std::string& right) {
            if (in_shared_)
                body.line("const auto* from = here + " + plane_at(ahead) + " + " + below + " * " + row + " + " + right +
                          ";");
        };
        body.line(term() + " near[" + C + "];");
        body.line("#pragma unroll");
        k.emitter.open("for (int a = 0; a < " + C + "; ++a)");
        from("0", "0", "0");
        write_number(k, "one", "a", "d", "near_h", "near_w");
        body.line("near[a] = one, sums[" + number(sums_) + " + a] += one;");
        k.emitter.close();
        body.line("#pragma unroll");
        k.emitter.open("for (int j = 0; j < " + number(lags_) + "; ++j)");
        body.line("const int lag = min(first_lag + j, " + number(last_lag_) + ");");
        write_lag(body);
        from("ahead", "below", "right");
        if (!in_shared_) body.line("const int d2 = d + ahead, h2 = near_h + below, w2 = near_w + right;");
        body.line("#pragma unroll");
        k.emitter.open("for (int b = 0; b < " + C + "; ++b)");
        write_number(k, "other", "(" + number((sides_ - 1) * channel_block_) + " + b)", "d2", "h2", "w2");
        body.line("#pragma unroll");
        body.line("for (int a = 0; a < " + C + "; ++a) sums[(j * " + C + " + a) * " + C + " + b] += near[a] * other;");
        k.emitter.close();
        k.emitter.close();
    }

    // Sums go from lanes to segments, 32 at a time, then from warps to the block's slot, where later ones are added.
    void write_finish(KernelText& k) override {
        Body& body = k.body;
        const std::string pointer = k.parameters.pointer(Argument::of_scratch(0), "double", false);
        body.line(
            "const int tall_segments = tf_tall_segment[2 * tall + 1], run_segments = tf_run_segment[2 * run + 1];");
        const std::string at_once = number(lanes), all = number(values());
        body.line("#pragma unroll");
        body.open("for (int first = 0; first < " + all + "; first += " + at_once + ")");
        body.line("const int here = min(" + at_once + ", " + all + " - first);");
        body.line("#pragma unroll");
        body.line("for (int i = 0; i < " + at_once + "; ++i) if (i < here) tf_lanes[warp][i][lane] = sums[first + i];");
        body.line("__syncthreads();");
        // Where a run is inside one segment, all lanes belong to it; else it is one chunk.
        body.open("for (int s = 0; s < run_segments && lane < here; ++s)");
        body.line("const int segment = tf_run_segment[2 * run] + s, from = tf_run_begin[run] + strip * 32;");
        body.line(
            "const int begin = run_segments == 1 ? 0 : max(tf_wide[segment] - from, 0), beyond = run_segments == 1 ? "
            "32 : "
            "min(tf_wide[segment + 1] - from, 32);");
        body.line("double sum = 0.0;");
        body.line("for (int l = begin; l < beyond; ++l) sum += (double)tf_lanes[warp][lane][l];");
        body.line("tf_parts[warp][lane][s] = sum;");
        body.close();
        body.line("__syncthreads();");
        body.open("for (int i = (int)threadIdx.x; i < here * run_segments * tall_segments; i += " + number(threads()) +
                  ")");
        body.line("const int value = i % here, s = i / here % run_segments, t = i / here / run_segments;");
        body.line("double* to = " + pointer + " + ((((long long)" + tile() + " * " + k.size(blocks_) + " + block) * " +
                  number(axes_[1].segments()) + " + t) * " + number(segments_) + " + s) * " + all +
                  " + first + value;");
        body.line("double total = again ? *to : 0.0;");
        body.line("for (int w = 0; w < " + number(warps) +
                  "; ++w) total += tf_rows[w] == t ? tf_parts[w][value][s] : 0.0;");
        body.line("*to = total;");
        body.close();
        body.line("__syncthreads();");
        body.close();
        body.line("_Pragma(\"unroll\") for (int i = 0; i < " + all + "; ++i) sums[i] = 0;");
    }

    bool in_shared_ = true;
};

}  // namespace

std::optional<Offer> offer_covariance(const Surroundings& surroundings, const Places& places, std::string* why_not) {
    const ValueId anchor = surroundings.pass.anchor;
    if (anchor < 0 || surroundings.plan.graph[anchor].op != Op::covariance) {
        if (why_not) *why_not = "no covariance";
        return std::nullopt;
    }
    std::shared_ptr<CovarianceParts> parts = covariance_products(surroundings, places);
    if (!parts) parts = std::make_shared<CovarianceSums>(surroundings, places);
    return Offer{.write = [parts] { return parts->program(); }};
}

}  // namespace transfuse::cuda
