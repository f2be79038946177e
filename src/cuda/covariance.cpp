// Products in ordinary arithmetic, of what differs from a number near the mean: short sums are formed in fp32, long ones
// in fp64; of float64, or where borders cut x into too many parts to do without its mean, all in fp64.
//
// A lane has a place (h, w) and passes over the planes of d; all pairs of two blocks of channels, some lags apart, are
// its sums, in registers. Planes come to shared memory one after another, what lies outside x as zeros, each while the
// one before is multiplied; so a lane's products are all loads of shared memory and multiply-adds. Lanes keep their
// place among the segments of h and w until the end, where the sums of each segment are formed. The other kernels are
// those of covariance_parts.h.
#include "cuda/covariance.h"

#include <algorithm>

#include "cuda/covariance_parts.h"

namespace transfuse::cuda {

namespace {

constexpr int64_t warps = 4, lanes = 32, threads = warps * lanes;
constexpr int64_t resident = 3;         // blocks a multiprocessor holds at once
constexpr int64_t most_sums = 128;      // of a lane, in registers
constexpr int64_t most_wide_sums = 40;  // of fp64
constexpr int64_t most_channels = 8;    // of a block of them
constexpr int64_t most_terms = 128;     // of a sum in fp32
constexpr int64_t most_early = 8;       // numbers a thread loads ahead
constexpr int64_t most_shared = 44 * 1024;
constexpr int64_t samples = 256;  // of a channel, for a number near its mean

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

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

class CovarianceSums : public CovarianceParts {
public:
    CovarianceSums(const Surroundings& s, const Places& places) : CovarianceParts(s, places, DType::f64, true) { arrange(); }

private:
    Launch sum() override {
        KernelText kernel = text();
        write_sums(kernel);
        return kernel.launch("tf_covariance", tiles_ * groups_ * blocks_, threads,
                             "products of x" + to_string(graph_[x_].type.shape) + " with itself, " + number(tiles_) +
                                 " tiles of " + number(values()) + " sums, " + number(blocks_) + " blocks each",
                             "", resident);
    }
    int64_t values() const override { return sums_ + channel_block_; }
    int64_t slot_segments() const override { return axes_[1].segments() * segments_; }

    void arrange() {
        const AxisLags &deep = axes_[0], &high = axes_[1], &wide = axes_[2];
        const int64_t most = centred_ ? most_sums : most_wide_sums;
        channel_blocks_ = ceil_div(channels_, most_channels);
        while (ceil_div(channels_, channel_blocks_) * ceil_div(channels_, channel_blocks_) > most) ++channel_blocks_;
        channel_block_ = ceil_div(channels_, channel_blocks_);
        const int64_t half = (deep.count() * wide.count() * high.count() + 1) / 2;
        lag_groups_ = ceil_div(half, std::max<int64_t>(1, most / (channel_block_ * channel_block_)));
        lags_ = ceil_div(half, lag_groups_);
        first_lag_ = wide.most * high.count() + high.most;
        last_lag_ = first_lag_ + half - 1;
        sums_ = lags_ * channel_block_ * channel_block_;
        tiles_ = channel_blocks_ * channel_blocks_ * lag_groups_;
        rows_ = s_.target.decide(extent_[1] > 2 ? 4 : extent_[1]);
        chunk_ = lanes * (warps / rows_);
        // What a chunk's places meet: lags are zero or more along d; where that is zero along w; then along h.
        before_[1] = deep.most > 0 || wide.most > 0 ? high.most * high.step : 0;
        before_[2] = deep.most > 0 ? wide.most * wide.step : 0;
        reach_ = deep.most * deep.step;
        staged_[1] = before_[1] + rows_ + high.most * high.step;
        staged_[2] = before_[2] + chunk_ + wide.most * wide.step;
        sides_ = channel_blocks_ > 1 ? 2 : 1;
        plane_ = sides_ * channel_block_ * staged_[1] * staged_[2];
        ring_ = reach_ + 2;
        const int64_t left = most_shared - warps * lanes * ((lanes + 1) * (centred_ ? 4 : 8) + segments_ * 8);
        in_shared_ = ring_ * plane_ * bytes(staged_type()) <= left;
        if (!in_shared_) reach_ = 0;
        runs_ = 2 * segments_ - 1;
        high_runs_ = 2 * high.segments() - 1;
        // Blocks for each part of the input that is one segment on d and a run on h and w: as the planes they pass over.
        std::vector<double> work;
        for (int64_t d = 0; d < deep.segments(); ++d)
            for (const Run& tall : runs_of(high, rows_))
                for (const Run& run : runs_of(wide, chunk_)) {
                    const auto i = static_cast<size_t>(d);
                    work.push_back(static_cast<double>(batch_ * ceil_div(tall.end - tall.begin, rows_) *
                                                       ceil_div(run.end - run.begin, chunk_)) *
                                   (static_cast<double>(deep.edges[i + 1] - deep.edges[i]) +
                                    static_cast<double>(reach_) / 2));
                }
        share(work, resident);
    }
    DType staged_type() const { return real_of(graph_[x_].type.dtype) == Real::f64 ? DType::f64 : DType::f32; }
    std::string staged_name() const { return staged_type() == DType::f64 ? "double" : "float"; }

    // runs_of, in the kernel: where each begins and ends, its first segment and how many.
    static void write_runs_of(KernelText& k, const AxisLags& axis, int64_t chunk, const std::string& edges,
                              const std::string& name) {
        Body& body = k.body;
        const std::string count = number(2 * axis.segments() - 1), segments = number(axis.segments()),
                          last = edges + "[" + segments + "]", size = number(chunk);
        table(k, edges, axis.edges);
        body.line("__shared__ int " + name + "_begin[" + count + "], " + name + "_end[" + count + "], " + name +
                  "_segment[2 * " + count + "];");
        body.open("if (threadIdx.x == 0)");
        body.line("int at = 0, segment = 0;");
        body.open("for (int run = 0; run < " + count + "; ++run)");
        body.line("const int chunk = run + 1 < " + count + " ? " + edges + "[run / 2 + 1] / " + size + " * " + size +
                  " + run % 2 * " + size + " : " + last + ";");
        body.line(name + "_begin[run] = at, at = max(at, min(chunk, " + last + ")), " + name + "_end[run] = at;");
        body.line("while (segment + 1 < " + segments + " && " + edges + "[segment + 1] <= " + name +
                  "_begin[run]) ++segment;");
        body.line("int beyond = segment;");
        body.line("while (beyond < " + segments + " && " + edges + "[beyond] < at) ++beyond;");
        body.line(name + "_segment[2 * run] = segment, " + name + "_segment[2 * run + 1] = " + name +
                  "_begin[run] < at ? beyond - segment : 0;");
        body.close();
        body.close();
    }
    void write_runs(KernelText& k) const override {
        write_runs_of(k, axes_[1], rows_, "tf_high", "tf_tall");
        write_runs_of(k, axes_[2], chunk_, "tf_wide", "tf_run");
    }

    void write_slot(Body& body) const override {
        const AxisLags &high = axes_[1], &wide = axes_[2];
        const std::string C = number(channel_block_), B = number(channel_blocks_), L = number(lags_);
        body.line("const int which_lag = which ? 0 : (lag[0] * " + number(wide.count()) + " + lag[2]) * " +
                  number(high.count()) + " + lag[1];");
        body.line("const int tile = ((group * " + B + " + ca / " + C + ") * " + B + " + (which ? 0 : cb / " + C +
                  ")) * " + number(lag_groups_) + " + which_lag / " + L + ";");
        body.line("const int value = which ? " + number(sums_) + " + ca % " + C + " : (which_lag % " + L + " * " + C +
                  " + ca % " + C + ") * " + C + " + cb % " + C + ";");
    }

    void write_sums(KernelText& k) {
        Body& body = k.body;
        const AxisLags& deep = axes_[0];
        const std::string C = number(channel_block_), L = number(lags_), R = number(rows_),
                          term = centred_ ? "float" : "double";
        table(k, "tf_deep", deep.edges), table(k, "tf_first", first_block_);
        write_runs(k);
        body.line("__shared__ " + term + " tf_lanes[" + number(warps) + "][" + number(lanes) + "][" +
                  number(lanes + 1) + "];");
        body.line("__shared__ double tf_parts[" + number(warps) + "][" + number(lanes) + "][" + number(segments_) +
                  "];");
        body.line("__shared__ int tf_rows[" + number(warps) + "];");
        if (in_shared_) body.line("__shared__ " + staged_name() + " tf_ring[" + number(ring_ * plane_) + "];");
        body.line("__shared__ float tf_mean[" + number(sides_ * channel_block_) + "];");
        body.line("__syncthreads();");
        body.line("TF_SEQUENCE();");
        // Which lags and channels, which part of the input.
        std::string rest = "(int)blockIdx.x";
        auto take = [&](int64_t extent, const char* name) {
            body.line("const int " + std::string(name) + " = " + rest + " % " + number(extent) + ";");
            rest = k.let(rest + " / " + number(extent), "q");
        };
        take(lag_groups_, "lag_group"), take(channel_blocks_, "second_block"), take(channel_blocks_, "first_block");
        take(groups_, "group");
        body.line("const int block = " + rest + ";");
        write_part(body, threads);
        body.line("const int run = part % " + number(runs_) + ", tall = part / " + number(runs_) + " % " +
                  number(high_runs_) + ", deep_segment = part / " + number(runs_ * high_runs_) + ";");
        body.line("const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, row = warp % " + R +
                  ", strip = warp / " + R + ";");
        body.line("const int first_lag = " + number(first_lag_) + " + lag_group * " + L + ";");
        body.line("const int first_d = tf_deep[deep_segment], planes = tf_deep[deep_segment + 1] - first_d;");
        body.line("const int stacks = (tf_tall_end[tall] - tf_tall_begin[tall] + " + number(rows_ - 1) + ") / " + R +
                  ", strips = (tf_run_end[run] - tf_run_begin[run] + " + number(chunk_ - 1) + ") / " + number(chunk_) +
                  ";");
        body.line("const int steps = planes * stacks * strips * " + k.size(batch_) +
                  ", blocks = tf_first[part + 1] - tf_first[part];");
        // Where a run is one segment all its rows are in it; else it is one chunk.
        body.open("if (lane == 0)");
        body.line("int segment = 0;");
        body.line("while (segment + 1 < tf_tall_segment[2 * tall + 1] && tf_high[tf_tall_segment[2 * tall] + segment + "
                  "1] <= tf_tall_begin[tall] + row) ++segment;");
        body.line("tf_rows[warp] = segment;");
        body.close();
        if (centred_) write_means(k);
        body.line(term + " sums[" + L + "][" + C + "][" + C + "] = {}, alone[" + C + "] = {};");
        body.line("int at = (int)((long long)steps * (block - tf_first[part]) / blocks);");
        body.line("const int end = (int)((long long)steps * (block - tf_first[part] + 1) / blocks);");
        if (in_shared_)
            write_staged_steps(k);
        else
            write_steps(k);
    }

    // Where the places of a column lie: its planes are steps that follow one another.
    void write_column(KernelText& k) const {
        Body& body = k.body;
        body.line("const int place = column % strips, above = column / strips, stack = above % stacks;");
        body.line("n = above / stacks, h = tf_tall_begin[tall] + stack * " + number(rows_) +
                  ", w = tf_run_begin[run] + place * " + number(chunk_) + ";");
    }

    // A plane is staged, then those before it that now have all their partners are multiplied, while the next is on its
    // way. The ring has one place more than that takes, so that nobody waits for those who still read.
    void write_staged_steps(KernelText& k) {
        Body& body = k.body;
        const int64_t numbers = ceil_div(plane_, threads);
        const bool early = numbers <= most_early;
        const std::string batch = number(std::min(numbers, most_early)), reach = number(reach_);
        body.line(staged_name() + " loaded[" + batch + "];");
        body.line("unsigned met = 0;");
        body.line("int n = 0, h = 0, w = 0, d = 0, plane = 0, stop = 0, slot = 0;");
        auto locate = [&] {
            body.line("const int column = at / planes;");
            body.line("d = plane = at - column * planes, stop = min(planes, d + end - at) + " + reach + ";");
            write_column(k);
        };
        auto load = [&](const std::string& first) {
            body.line("met = 0;");
            body.line("#pragma unroll");
            k.emitter.open("for (int i = 0; i < " + batch + "; ++i)");
            body.line("const int e = (" + first + " + i) * " + number(threads) + " + (int)threadIdx.x, c = e / " +
                      number(staged_[1] * staged_[2]) + ";");
            body.line("const int d2 = first_d + plane, h2 = h + e / " + number(staged_[2]) + " % " +
                      number(staged_[1]) + " - " + number(before_[1]) + ", w2 = w + e % " + number(staged_[2]) + " - " +
                      number(before_[2]) + ";");
            body.line("const int own = " + own_channel("c") + ";");
            body.line("loaded[i] = 0;");
            k.emitter.open("if (e < " + number(plane_) + " && " + inside(k, "d2", "h2", "w2") +
                           (channels_ % channel_block_ ? " && own < " + number(channels_) : std::string()) + ")");
            body.line("met |= 1u << i;");
            const std::string channel = k.let("group * " + number(channels_) + " + own", "channel");
            body.line("loaded[i] = " + k.emitter.value(x_, at("n", channel, "d2", "h2", "w2"))[0] + ";");
            k.emitter.close();
            k.emitter.close();
        };
        auto store = [&](const std::string& first) {
            body.line("#pragma unroll");
            body.open("for (int i = 0; i < " + batch + "; ++i)");
            body.line("const int e = (" + first + " + i) * " + number(threads) + " + (int)threadIdx.x;");
            const std::string mean = "tf_mean[e / " + number(staged_[1] * staged_[2]) + "]";
            body.line("if (e < " + number(plane_) + ") tf_ring[slot * " + number(plane_) + " + e] = " +
                      (centred_ ? "met >> i & 1 ? loaded[i] - " + mean + " : 0.0f;" : "loaded[i];"));
            body.close();
        };
        k.emitter.open("if (at < end)");
        locate();
        if (early) load("0");
        k.emitter.close();
        body.line("bool again = false;");
        body.open("do");
        k.emitter.open(centred_ ? "for (int terms = 0; at < end && terms < " + number(most_terms) + ";)"
                                : std::string("while (at < end)"));
        if (early) {
            store("0");
        } else {
            k.emitter.open("for (int first = 0; first < " + number(numbers) + "; first += " + batch + ")");
            load("first"), store("first");
            k.emitter.close();
        }
        body.line("__syncthreads();");
        body.line("const bool whole = plane - " + reach + " >= d;");
        body.open("if (++plane == stop)");
        body.line("at += stop - " + reach + " - d;");
        locate();
        body.close();
        if (early) {
            k.emitter.open("if (at < end)");
            load("0");
            k.emitter.close();
        }
        body.open("if (whole)");
        if (centred_) body.line("++terms;");
        write_products(k);
        body.close();
        body.line("slot = slot + 1 == " + number(ring_) + " ? 0 : slot + 1;");
        k.emitter.close();
        write_segments(k);
        body.line("again = true;");
        body.close();
        body.line("while (at < end);");
    }

    // Straight from memory, where lags are too far apart.
    void write_steps(KernelText& k) {
        Body& body = k.body;
        body.line("bool again = false;");
        body.open("do");
        k.emitter.open(centred_ ? "for (int terms = 0; at < end && terms < " + number(most_terms) + "; ++at, ++terms)"
                                : std::string("for (; at < end; ++at)"));
        body.line("const int column = at / planes, d = first_d + at % planes;");
        body.line("int n, h, w;");
        write_column(k);
        write_products(k);
        k.emitter.close();
        write_segments(k);
        body.line("again = true;");
        body.close();
        body.line("while (at < end);");
    }

    std::string own_channel(const std::string& c) const {
        const std::string C = number(channel_block_);
        if (sides_ == 1) return c;
        return "(" + c + " < " + C + " ? first_block : second_block) * " + C + " + " + c + " % " + C;
    }
    std::string inside(KernelText& k, const std::string& d, const std::string& h, const std::string& w) const {
        return d + " < " + k.size(extent_[0]) + " && " + h + " >= 0 && " + h + " < " + k.size(extent_[1]) +
               " && " + w + " >= 0 && " + w + " < " + k.size(extent_[2]);
    }

    // Of one place: its channels alone, and with those of each lag.
    void write_products(KernelText& k) {
        Body& body = k.body;
        const AxisLags &deep = axes_[0], &high = axes_[1], &wide = axes_[2];
        const std::string C = number(channel_block_), term = centred_ ? "float" : "double",
                          area = number(staged_[1] * staged_[2]), second = number(sides_ - 1);
        auto number_at = [&](const std::string& name, const std::string& c, const std::string& d, const std::string& h,
                             const std::string& w) {  // c counts those of both sides
            if (in_shared_) {
                body.line("const " + term + " " + name + " = from[" + c + " * " + area + "];");
                return;
            }
            body.line(term + " " + name + " = 0;");
            body.line("const int own = " + own_channel(c) + ";");
            k.emitter.open("if (" + inside(k, d, h, w) + " && own < " + number(channels_) + ")");
            const std::string channel = k.let("group * " + number(channels_) + " + own", "channel");
            body.line(name + " = " + k.emitter.value(x_, at("n", channel, d, h, w))[0] +
                      (centred_ ? " - tf_mean[" + c + "];" : ";"));
            k.emitter.close();
        };
        if (in_shared_)
            body.line("const " + staged_name() + "* here = tf_ring + (row + " + number(before_[1]) + ") * " +
                      number(staged_[2]) + " + strip * 32 + lane + " + number(before_[2]) + ";");
        else
            body.line("const int own_h = h + row, own_w = w + strip * 32 + lane;");
        auto from = [&](const std::string& d, const std::string& h, const std::string& w) {
            if (!in_shared_) return;
            body.line("const " + staged_name() + "* from = here + (slot + " + number(ring_ - reach_) + " + " + d +
                      ") % " + number(ring_) + " * " + number(plane_) + " + " + h + " * " + number(staged_[2]) + " + " +
                      w + ";");
        };
        body.line(term + " own_x[" + C + "];");
        body.line("#pragma unroll");
        k.emitter.open("for (int a = 0; a < " + C + "; ++a)");
        from("0", "0", "0");
        number_at("one", "a", "d", "own_h", "own_w");
        body.line("own_x[a] = one, alone[a] += one;");
        k.emitter.close();
        body.line("#pragma unroll");
        k.emitter.open("for (int j = 0; j < " + number(lags_) + "; ++j)");
        body.line("const int lag = min(first_lag + j, " + number(last_lag_) + ");");
        body.line("const int ahead = lag / " + number(high.count() * wide.count()) + " * " + number(deep.step) +
                  ", below = (lag % " + number(high.count()) + " - " + number(high.most) + ") * " + number(high.step) +
                  ", right = (lag / " + number(high.count()) + " % " + number(wide.count()) + " - " +
                  number(wide.most) + ") * " + number(wide.step) + ";");
        from("ahead", "below", "right");
        if (!in_shared_) body.line("const int d2 = d + ahead, h2 = own_h + below, w2 = own_w + right;");
        body.line("#pragma unroll");
        k.emitter.open("for (int b = 0; b < " + C + "; ++b)");
        number_at("other", "(" + second + " * " + C + " + b)", "d2", "h2", "w2");
        body.line("#pragma unroll");
        body.line("for (int a = 0; a < " + C + "; ++a) sums[j][a][b] += own_x[a] * other;");
        k.emitter.close();
        k.emitter.close();
    }

    // Of every channel about the mean: that of some numbers all over x, the same for all blocks.
    void write_means(KernelText& k) {
        Body& body = k.body;
        Emitter& emitter = k.emitter;
        const std::string all = number(sides_ * channel_block_);
        emitter.open("for (int first = 0; first < " + all + "; first += " + number(warps) + ")");
        body.line("const int which = first + warp, own = " + own_channel("which") + ";");
        body.line("double mean = 0.0;");
        emitter.open("if (which < " + all + " && own < " + number(channels_) + ")");
        body.line("#pragma unroll");
        emitter.open("for (int i = 0; i < " + number(samples / lanes) + "; ++i)");
        // One of each part of x, not all at the same distance from its end.
        const std::string W = k.size(extent_[2]), H = k.size(extent_[1]), D = k.size(extent_[0]), N = k.size(batch_);
        body.line("const int sample = i * 32 + lane, column0 = sample * 37 % " + W + ", row0 = sample * 29 % " + H +
                  ", plane0 = sample * 23 % " + D + ", image0 = sample * 19 % " + N + ";");
        const std::string channel = k.let("group * " + number(channels_) + " + own", "channel");
        body.line("mean += (double)" + emitter.value(x_, at("image0", channel, "plane0", "row0", "column0"))[0] + ";");
        emitter.close();
        emitter.close();
        body.line("for (int i = 16; i > 0; i /= 2) mean += __shfl_down_sync(0xffffffffu, mean, i);");
        body.open("if (lane == 0 && which < " + all + ")");
        body.line("tf_mean[which] = (float)(mean / " + number(samples) + ".0);");
        const std::string means = k.parameters.pointer(Argument::of_scratch(means_at()), "double", false);
        body.line("if (which < " + number(channel_block_) + " && lag_group == 0 && second_block == 0 && block == 0 && own < " +
                  number(channels_) + ") " + means + "[group * " + number(channels_) + " + own] = (double)tf_mean[which];");
        body.close();
        emitter.close();
        body.line("__syncthreads();");
    }

    // Sums go from lanes to segments, 32 at a time, then from warps to the block's slot, where later ones are added.
    void write_segments(KernelText& k) {
        Body& body = k.body;
        const std::string pointer = k.parameters.pointer(Argument::of_scratch(0), "double", false);
        const std::string tile = "((group * " + number(channel_blocks_) + " + first_block) * " +
                                 number(channel_blocks_) + " + second_block) * " + number(lag_groups_) + " + lag_group";
        body.line("const int tall_segments = tf_tall_segment[2 * tall + 1], run_segments = tf_run_segment[2 * run + 1];");
        for (int64_t first = 0; first < values(); first += lanes) {
            const int64_t here = std::min(lanes, values() - first);
            body.line("#pragma unroll");
            body.line("for (int i = 0; i < " + number(here) + "; ++i) tf_lanes[warp][i][lane] = " + nth(first) + ";");
            body.line("__syncthreads();");
            body.open("if (lane < " + number(here) + ")");
            body.open("for (int s = 0; s < run_segments; ++s)");
            // Where a run is inside one segment, all lanes belong to it; else it is one chunk.
            body.line("const int segment = tf_run_segment[2 * run] + s, from = tf_run_begin[run] + strip * 32;");
            body.line("const int begin = run_segments == 1 ? 0 : max(tf_wide[segment] - from, 0), beyond = run_segments == 1 ? 32 : "
                      "min(tf_wide[segment + 1] - from, 32);");
            body.line("double sum = 0.0;");
            body.line("for (int l = begin; l < beyond; ++l) sum += (double)tf_lanes[warp][lane][l];");
            body.line("tf_parts[warp][lane][s] = sum;");
            body.close();
            body.close();
            body.line("__syncthreads();");
            body.open("for (int i = (int)threadIdx.x; i < " + number(here) +
                      " * run_segments * tall_segments; i += " + number(threads) + ")");
            body.line("const int value = i % " + number(here) + ", s = i / " + number(here) +
                      " % run_segments, t = i / " + number(here) + " / run_segments;");
            body.line("double* to = " + pointer + " + ((((long long)(" + tile + ") * " + k.size(blocks_) +
                      " + block) * " + number(axes_[1].segments()) + " + t) * " + number(segments_) + " + s) * " +
                      number(values()) + " + " + number(first) + " + value;");
            body.line("double total = again ? *to : 0.0;");
            body.line("for (int i = 0; i < " + number(warps) + "; ++i) total += tf_rows[i] == t ? tf_parts[i][value][s] : 0.0;");
            body.line("*to = total;");
            body.close();
            if (first + lanes < values()) body.line("__syncthreads();");
        }
        body.line("_Pragma(\"unroll\") for (int i = 0; i < " + number(sums_) + "; ++i) (&sums[0][0][0])[i] = 0;");
        body.line("_Pragma(\"unroll\") for (int c = 0; c < " + number(channel_block_) + "; ++c) alone[c] = 0;");
    }

    // The value first + i of a tile: sums, then numbers alone; i is a loop that unrolls.
    std::string nth(int64_t first) const {
        const std::string i = "(i + " + number(first) + ")";
        return i + " < " + number(sums_) + " ? (&sums[0][0][0])[" + i + " < " + number(sums_) + " ? " + i +
               " : 0] : alone[" + i + " >= " + number(sums_) + " ? " + i + " - " + number(sums_) + " : 0]";
    }

    int64_t channel_block_ = 1, channel_blocks_ = 1, lags_ = 1, lag_groups_ = 1, first_lag_ = 0, last_lag_ = 0, sums_ = 1;
    int64_t rows_ = 1, chunk_ = lanes;    // of a block's places: along h, along w
    int64_t before_[3] = {}, staged_[3] = {};  // of a plane in shared memory: rows and columns before the chunk's, and in all
    int64_t sides_ = 1, plane_ = 1, ring_ = 1, reach_ = 0;  // blocks of channels, numbers of a plane, planes, lags along d
    bool in_shared_ = true;
};

}  // namespace

std::optional<GridProgram> generate_covariance(const Surroundings& surroundings, const Places& places,
                                               std::string* why_not) {
    const ValueId anchor = surroundings.pass.anchor;
    if (anchor < 0 || surroundings.plan.graph[anchor].op != Op::covariance) {
        if (why_not) *why_not = "no covariance";
        return std::nullopt;
    }
    if (auto products = covariance_products(surroundings, places)) return products->program();
    return CovarianceSums(surroundings, places).program();
}

}  // namespace transfuse::cuda
