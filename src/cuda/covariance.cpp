// Products in ordinary arithmetic, of what differs from a number near the mean: short sums are formed in fp32, long ones
// in fp64; of float64, or where borders cut x into too many parts to do without its mean, all in fp64. A warp takes lags (δd, δw) and two blocks of channels, so that lags along h and
// pairs of channels are its sums, in registers. Its lanes are neighbours along w; each holds R rows of the first block
// of channels and passes once over the rows of the second that lie a lag away, so a loaded number meets several others.
// Lanes keep their place on the axis until the end, where the sums of each segment are formed. The other kernels are
// those of covariance_parts.h.
#include "cuda/covariance.h"

#include <algorithm>

#include "cuda/covariance_parts.h"

namespace transfuse::cuda {

namespace {

constexpr int64_t warps = 4, lanes = 32, threads = warps * lanes;
constexpr int64_t resident = 3;    // blocks a multiprocessor holds at once
constexpr int64_t most_sums = 27;  // of a lane, in registers: two each
constexpr int64_t most_rows = 8;   // of a lane, in registers as well
constexpr int64_t short_units = 4; // whose products are summed in fp32
constexpr int64_t samples = 256;   // of a channel, for a number near its mean

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Lanes along w: chunks of 32. For each edge between segments, the chunks before the one it lies in, which are inside
// one segment, and that one; then the rest. Some of these runs are empty. The kernels find them, too: see write_runs.
struct Run {
    int64_t begin = 0, end = 0;
};

std::vector<Run> runs_of(const AxisLags& axis) {
    std::vector<Run> runs;
    int64_t at = 0;
    auto until = [&](int64_t end) {
        runs.push_back({at, std::max(at, std::min(end, axis.edges.back()))});
        at = runs.back().end;
    };
    for (int64_t s = 1; s < axis.segments(); ++s) {
        const int64_t chunk = axis.edges[static_cast<size_t>(s)] / lanes * lanes;
        until(chunk), until(chunk + lanes);
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

    void arrange() {
        const AxisLags &deep = axes_[0], &high = axes_[1], &wide = axes_[2];
        lag_block_ = std::min<int64_t>(high.count(), 9);
        channel_block_ = 1;
        while (channel_block_ < channels_ && (channel_block_ + 1) * (channel_block_ + 1) * lag_block_ <= most_sums)
            ++channel_block_;
        // As even as they can be.
        channel_blocks_ = ceil_div(channels_, channel_block_);
        channel_block_ = ceil_div(channels_, channel_blocks_);
        lag_blocks_ = ceil_div(high.count(), lag_block_);
        sums_ = channel_block_ * channel_block_ * lag_block_;
        lines_ = (deep.count() * wide.count() + 1) / 2;
        tiles_ = lines_ * channel_blocks_ * channel_blocks_ * lag_blocks_;
        rows_ = s_.target.decide(std::min(most_rows, extent_[1]));
        runs_ = 2 * segments_ - 1;
        // Blocks for each part of the input that is inside one segment on d and h: as the rows they have.
        std::vector<double> work;
        for (int64_t d = 0; d < deep.segments(); ++d)
            for (int64_t h = 0; h < high.segments(); ++h)
                for (const Run& run : runs_of(wide)) {
                    const auto i = static_cast<size_t>(d), j = static_cast<size_t>(h);
                    // Waiting for loads costs a unit of few rows nearly what it costs one of many: as 16 rows more.
                    const int64_t tall = high.edges[j + 1] - high.edges[j], units = ceil_div(tall, rows_);
                    work.push_back(static_cast<double>(batch_ * (deep.edges[i + 1] - deep.edges[i]) *
                                                       ceil_div(run.end - run.begin, lanes) * (tall + 16 * units)));
                }
        share(work, resident);
    }

    // runs_of, in the kernel: where each begins and ends, its first segment and how many.
    void write_runs(KernelText& k) const override {
        Body& body = k.body;
        const std::string count = number(runs_), segments = number(segments_), last = "tf_wide[" + segments + "]";
        table(k, "tf_wide", axes_[2].edges);
        body.line("__shared__ int tf_begin[" + count + "], tf_end[" + count + "], tf_segment[2 * " + count + "];");
        body.open("if (threadIdx.x == 0)");
        body.line("int at = 0, segment = 0;");
        body.open("for (int run = 0; run < " + count + "; ++run)");
        body.line("const int chunk = run + 1 < " + count +
                  " ? tf_wide[run / 2 + 1] / 32 * 32 + run % 2 * 32 : " + last + ";");
        body.line("tf_begin[run] = at, at = max(at, min(chunk, " + last + ")), tf_end[run] = at;");
        body.line("while (segment + 1 < " + segments + " && tf_wide[segment + 1] <= tf_begin[run]) ++segment;");
        body.line("int beyond = segment;");
        body.line("while (beyond < " + segments + " && tf_wide[beyond] < at) ++beyond;");
        body.line(
            "tf_segment[2 * run] = segment, tf_segment[2 * run + 1] = tf_begin[run] < at ? beyond - segment : 0;");
        body.close();
        body.close();
    }

    void write_slot(Body& body) const override {
        const AxisLags &high = axes_[1], &wide = axes_[2];
        const std::string C = number(channel_block_);
        body.line("const int high_lag = lag[1] + " + number(high.most) + ";");
        body.line("const int tile = ((((group * " + number(lines_) + " + lag[0] * " + number(wide.count()) +
                  " + lag[2]) * " + number(channel_blocks_) + " + ca / " + C + ") * " + number(channel_blocks_) +
                  " + (which ? 0 : cb / " + C + ")) * " + number(lag_blocks_) + " + (which ? 0 : high_lag / " +
                  number(lag_block_) + "));");
        body.line("const int value = which ? " + number(sums_) + " + ca % " + C + " : (ca % " + C + " * " + C +
                  " + cb % " + C + ") * " + number(lag_block_) + " + high_lag % " + number(lag_block_) + ";");
    }

    void write_sums(KernelText& k) {
        Body& body = k.body;
        Emitter& emitter = k.emitter;
        const AxisLags &deep = axes_[0], &high = axes_[1], &wide = axes_[2];
        table(k, "tf_deep", deep.edges), table(k, "tf_high", high.edges), table(k, "tf_first", first_block_);
        write_runs(k);
        body.line("__shared__ double tf_lanes[" + number(warps) + "][" + number(lanes) + "][" + number(lanes + 1) +
                  "];");
        body.line("__shared__ double tf_parts[" + number(warps) + "][" + number(lanes) + "][" + number(segments_) +
                  "];");
        body.line("__shared__ float tf_mean[2][" + number(channel_block_) + "];");
        body.line("__syncthreads();");
        body.line("TF_SEQUENCE();");
        const std::string C = number(channel_block_), J = number(lag_block_), R = number(rows_);
        // Which lags and channels, which part of the input.
        std::string rest = "(int)blockIdx.x";
        auto take = [&](int64_t extent, const char* name) {
            body.line("const int " + std::string(name) + " = " + rest + " % " + number(extent) + ";");
            rest = k.let(rest + " / " + number(extent), "q");
        };
        take(lag_blocks_, "lag_block"), take(channel_blocks_, "second_block"), take(channel_blocks_, "first_block");
        take(lines_, "line"), take(groups_, "group");
        body.line("const int block = " + rest + ";");
        body.line("int part = 0;");
        body.line("while (part + 1 < " + number(static_cast<int64_t>(first_block_.size()) - 1) +
                  " && block >= tf_first[part + 1]) ++part;");
        body.line("const int run = part % " + number(runs_) + ", high_segment = part / " + number(runs_) + " % " +
                  number(high.segments()) + ", deep_segment = part / " + number(runs_ * high.segments()) + ";");
        body.line("const int deep_lag = (line + " + number(wide.most) + ") / " + number(wide.count()) + " * " +
                  number(deep.step) + ";");
        body.line("const int wide_lag = ((line + " + number(wide.most) + ") % " + number(wide.count()) + " - " +
                  number(wide.most) + ") * " + number(wide.step) + ";");
        body.line("const int high_lag = (lag_block * " + J + " - " + number(high.most) + ") * " + number(high.step) +
                  ";");
        body.line("const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;");
        body.line(
            "const int first_d = tf_deep[deep_segment], first_h = tf_high[high_segment], last_h = tf_high[high_segment "
            "+ 1];");
        body.line("const int planes = tf_deep[deep_segment + 1] - first_d, stacks = (last_h - first_h + " +
                  number(rows_ - 1) + ") / " + R + ";");
        body.line("const int strips = (tf_end[run] - tf_begin[run] + 31) / 32;");
        body.line("const int units = planes * stacks * strips * " + k.integer(batch_) + ";");
        if (centred_) write_means(k);
        body.line("double sums[" + C + "][" + C + "][" + J + "] = {};");
        body.line("double alone[" + C + "] = {};");
        if (centred_) body.line("float some[" + C + "][" + C + "][" + J + "] = {}, some_alone[" + C + "] = {};");
        if (centred_) body.line("int turn = 0;");
        body.open("for (int unit = (block - tf_first[part]) * " + number(warps) +
                  " + warp; unit < units; unit += (tf_first[part + 1] - tf_first[part]) * " + number(warps) + ")");
        body.line(
            "const int stack = unit % stacks, above = unit / stacks, strip = above % strips, beyond = above / strips;");
        body.line("const int n = beyond / planes, d = first_d + beyond % planes;");
        body.line("const int h = first_h + stack * " + R + ", rows = min(" + R + ", last_h - h);");
        body.line("const int w = tf_begin[run] + strip * 32 + lane, d2 = d + deep_lag, w2 = w + wide_lag;");
        // All loads first: many are in flight together.
        const std::string real(real_name(real_of(graph_[x_].type.dtype)));
        const int64_t reach = rows_ + (lag_block_ - 1) * high.step;
        body.line(real + " near[" + R + "][" + C + "], far[" + number(reach) + "][" + C + "];");
        body.line("bool met[" + number(reach) + "];");
        body.line("#pragma unroll");
        emitter.open("for (int r = 0; r < " + R + "; ++r)");
        body.line("#pragma unroll");
        emitter.open("for (int c = 0; c < " + C + "; ++c)");
        body.line("near[r][c] = 0;");
        const std::string channel = k.let("group * " + number(channels_) + " + first_block * " + C + " + c", "channel");
        emitter.open("if (r < rows && w < tf_end[run]" + in_group("first_block", channel_block_, "c") + ")");
        body.line("near[r][c] = " + emitter.value(x_, at("n", channel, "d", "(h + r)", "w"))[0] + ";");
        emitter.close();
        emitter.close();
        emitter.close();
        // Row q beyond the first lag meets row r of the near ones through lag j = (q − r) / step.
        const std::string last_lag = number((lag_block_ - 1) * high.step);
        body.line("#pragma unroll");
        emitter.open("for (int q = 0; q < " + number(reach) + "; ++q)");
        body.line("const int h2 = h + high_lag + q;");
        body.line("met[q] = d2 < " + k.integer(extent_[0]) + " && h2 >= 0 && h2 < " + k.integer(extent_[1]) +
                  " && q - " + last_lag + " < rows && w2 >= 0 && w2 < " + k.integer(extent_[2]) + ";");
        body.line("#pragma unroll");
        emitter.open("for (int b = 0; b < " + C + "; ++b)");
        body.line("far[q][b] = 0;");
        const std::string second = k.let("group * " + number(channels_) + " + second_block * " + C + " + b", "channel");
        emitter.open("if (met[q]" + in_group("second_block", channel_block_, "b") + ")");
        body.line("far[q][b] = " + emitter.value(x_, at("n", second, "d2", "h2", "w2"))[0] + ";");
        emitter.close();
        emitter.close();
        emitter.close();
        const std::string sum = centred_ ? "some" : "sums", wide_real = centred_ ? "float" : "double";
        body.line(wide_real + " own[" + R + "][" + C + "];");
        body.line("#pragma unroll");
        body.line("for (int r = 0; r < " + R + "; ++r)");
        body.line("#pragma unroll");
        // (The mean is taken away here: a load that is used at once would be waited for before the next.)
        body.line("for (int c = 0; c < " + C + "; ++c) own[r][c] = " +
                  (centred_ ? "r < rows && w < tf_end[run] ? near[r][c] - mean[0][c] : 0.0f, some_alone" : "near[r][c], alone") +
                  "[c] += own[r][c];");
        body.line("#pragma unroll");
        body.open("for (int q = 0; q < " + number(reach) + "; ++q)");
        body.line("if (q - " + last_lag + " >= rows) break;");
        body.line("#pragma unroll");
        body.open("for (int b = 0; b < " + C + "; ++b)");
        body.line("const " + wide_real + " other = " +
                  (centred_ ? "met[q] ? far[q][b] - mean[1][b] : 0.0f;" : "far[q][b];"));
        body.line("#pragma unroll");
        body.open("for (int j = 0; j < " + J + "; ++j)");
        body.line("const int r = q - j * " + number(high.step) + ";");
        body.line("if (r < 0 || r >= " + R + ") continue;");
        body.line("#pragma unroll");
        body.line("for (int a = 0; a < " + C + "; ++a) " + sum + "[a][b][j] += own[r][a] * other;");
        body.close();
        body.close();
        body.close();
        if (centred_) {  // short sums in fp32, long ones in fp64
            body.open("if (++turn % " + number(short_units) + " == 0)");
            flush(body);
            body.close();
        }
        body.close();
        if (centred_) flush(body);
        write_segments(k);
    }
    void flush(Body& body) const {
        const std::string all = number(sums_), C = number(channel_block_);
        body.line("_Pragma(\"unroll\") for (int i = 0; i < " + all + "; ++i) (&sums[0][0][0])[i] += (double)(&some[0][0][0])[i], " +
                  "(&some[0][0][0])[i] = 0.0f;");
        body.line("_Pragma(\"unroll\") for (int c = 0; c < " + C + "; ++c) alone[c] += (double)some_alone[c], some_alone[c] = 0.0f;");
    }

    // Of every channel about the mean: that of some numbers all over x, the same for all blocks.
    void write_means(KernelText& k) {
        Body& body = k.body;
        Emitter& emitter = k.emitter;
        const std::string C = number(channel_block_);
        emitter.open("for (int first = 0; first < 2 * " + C + "; first += " + number(warps) + ")");
        body.line("const int which = first + warp, side = which / " + C + ", c = which % " + C +
                  ", own = (side ? second_block : first_block) * " + C + " + c;");
        body.line("double mean = 0.0;");
        emitter.open("if (side < 2 && own < " + number(channels_) + ")");
        body.line("#pragma unroll");
        emitter.open("for (int i = 0; i < " + number(samples / lanes) + "; ++i)");
        // One of each part of x, not all at the same distance from its end.
        const std::string W = k.integer(extent_[2]), H = k.integer(extent_[1]), D = k.integer(extent_[0]), N = k.integer(batch_);
        body.line("const int sample = i * 32 + lane, column0 = sample * 37 % " + W + ", row0 = sample * 29 % " + H +
                  ", plane0 = sample * 23 % " + D + ", image0 = sample * 19 % " + N + ";");
        const std::string channel = k.let("group * " + number(channels_) + " + own", "channel");
        body.line("mean += (double)" + emitter.value(x_, at("image0", channel, "plane0", "row0", "column0"))[0] + ";");
        emitter.close();
        emitter.close();
        body.line("for (int i = 16; i > 0; i /= 2) mean += __shfl_down_sync(0xffffffffu, mean, i);");
        body.open("if (lane == 0 && side < 2)");
        body.line("tf_mean[side][c] = (float)(mean / " + number(samples) + ".0);");
        const std::string means = k.parameters.pointer(Argument::of_scratch(means_at()), "double", false);
        body.line("if (side == 0 && line == 0 && lag_block == 0 && second_block == 0 && block == 0 && own < " +
                  number(channels_) + ") " + means + "[group * " + number(channels_) + " + own] = (double)tf_mean[0][c];");
        body.close();
        emitter.close();
        body.line("__syncthreads();");
        body.line("float mean[2][" + C + "];");
        body.line("for (int side = 0; side < 2; ++side) for (int c = 0; c < " + C + "; ++c) mean[side][c] = tf_mean[side][c];");
    }

    // Sums go from lanes to segments, 32 at a time, then from warps to the block's slot.
    void write_segments(KernelText& k) {
        Body& body = k.body;
        const std::string pointer = k.parameters.pointer(Argument::of_scratch(0), "double", false);
        const std::string tile = "(((group * " + number(lines_) + " + line) * " + number(channel_blocks_) +
                                 " + first_block) * " + number(channel_blocks_) + " + second_block) * " +
                                 number(lag_blocks_) + " + lag_block";
        for (int64_t first = 0; first < values(); first += lanes) {
            const int64_t here = std::min(lanes, values() - first);
            body.line("#pragma unroll");
            body.line("for (int i = 0; i < " + number(here) + "; ++i) tf_lanes[warp][i][lane] = " + nth(first) + ";");
            body.line("__syncthreads();");
            body.open("if (lane < " + number(here) + ")");
            body.open("for (int s = 0; s < tf_segment[2 * run + 1]; ++s)");
            body.line("const int segment = tf_segment[2 * run] + s;");
            // Where a run is inside one segment, all lanes belong to it; else it is one chunk.
            body.line("const bool one = tf_segment[2 * run + 1] == 1;");
            body.line(
                "const int begin = one ? 0 : max(tf_wide[segment] - tf_begin[run], 0), end = one ? 32 : "
                "min(tf_wide[segment + 1] - tf_begin[run], 32);");
            body.line("double sum = 0.0;");
            body.line("for (int l = begin; l < end; ++l) sum += tf_lanes[warp][lane][l];");
            body.line("tf_parts[warp][lane][s] = sum;");
            body.close();
            body.close();
            body.line("__syncthreads();");
            body.open("for (int i = (int)threadIdx.x; i < " + number(here) +
                      " * tf_segment[2 * run + 1]; i += " + number(threads) + ")");
            body.line("const int value = i % " + number(here) + ", s = i / " + number(here) + ";");
            std::string total = "tf_parts[0][value][s]";
            for (int64_t w = 1; w < warps; ++w) total += " + tf_parts[" + number(w) + "][value][s]";
            body.line(pointer + "[(((long long)(" + tile + ") * " + k.integer(blocks_) + " + block) * " +
                      number(segments_) + " + s) * " + number(values()) + " + " + number(first) + " + value] = " +
                      total + ";");
            body.close();
            if (first + lanes < values()) body.line("__syncthreads();");
        }
    }

    // The value first + i of a tile: sums, then numbers alone; i is a loop that unrolls.
    std::string nth(int64_t first) const {
        const std::string i = "(i + " + number(first) + ")";
        return i + " < " + number(sums_) + " ? (&sums[0][0][0])[" + i + " < " + number(sums_) + " ? " + i +
               " : 0] : alone[" + i + " >= " + number(sums_) + " ? " + i + " - " + number(sums_) + " : 0]";
    }

    int64_t channel_block_ = 1, channel_blocks_ = 1, lag_block_ = 1, lag_blocks_ = 1, sums_ = 1, lines_ = 1, rows_ = 1;
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
