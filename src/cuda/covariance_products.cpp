// Products on tensor cores. A block stages four rows of 16 channels and, of 16 others, the rows that lie a lag away; a
// warp multiplies the channels of one row by those of each lag, eight places along w at a time, so its sums are the
// pairs of channels of every lag. Rows are cut into segments along w: each segment has warps of its own, for which what
// lies outside is zero. Factors are rounded to TF32 when they are staged, and single numbers are summed as rounded.
#include <algorithm>

#include "cuda/covariance_parts.h"
#include "cuda/product_code.h"

namespace transfuse::cuda {

namespace {

constexpr int64_t side = 16;       // channels of a block on either side
constexpr int64_t rows = 4;        // of a unit
constexpr int64_t strip = 32;      // places along w of a unit
constexpr int64_t most_lags = 14;  // of a warp, in registers: eight each
constexpr int64_t most_warps = 16;
constexpr int64_t narrow = 8;      // a segment of so few places has one warp, others one a row
constexpr int64_t most_shared = 100 * 1024;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

class CovarianceProducts : public CovarianceParts {
public:
    CovarianceProducts(const Surroundings& s, const Places& places) : CovarianceParts(s, places, DType::f32, false) {}

    bool arrange() {
        const AxisLags &deep = axes_[0], &high = axes_[1], &wide = axes_[2];
        const bool exact = s_.precision == Fp32Precision::strict && graph_[x_].type.dtype == DType::f32;
        if (exact || graph_[x_].type.dtype == DType::f64 || channels_ < 8) return false;
        if (s_.target.arch < 80 || numel(graph_[x_].type.shape) >= int64_t{1} << 31) return false;
        blocks_of_channels_ = ceil_div(channels_, side);
        const int64_t plane = high.count() * wide.count(), half = (deep.count() * plane + 1) / 2;
        lag_groups_ = ceil_div(half, most_lags);
        lags_ = ceil_div(half, lag_groups_);
        first_lag_ = wide.most * high.count() + high.most;
        for (int64_t g = 0; g < lag_groups_; ++g) {
            const int64_t first = first_lag_ + g * lags_, last = std::min(first + lags_, first_lag_ + half) - 1;
            planes_ = std::max(planes_, last / plane - first / plane + 1);
        }
        last_lag_ = first_lag_ + half - 1;
        high_runs_ = high.segments();
        staged_rows_ = rows + 2 * high.most * high.step;
        columns_ = strip + 2 * wide.most * wide.step;
        pitch_ = (columns_ + 3) / 8 * 8 + 4;  // odd multiples of four: rows of fragments touch every bank once
        for (int64_t s = 0; s < segments_; ++s) {
            const auto i = static_cast<size_t>(s);
            const int64_t size = s_.target.decide(wide.edges[i + 1] - wide.edges[i] <= narrow ? 1 : rows);
            for (int64_t rank = 0; rank < size; ++rank) teams_.insert(teams_.end(), {s, rank, size});
        }
        tiles_ = blocks_of_channels_ * blocks_of_channels_ * lag_groups_;
        if (warps() > most_warps || shared_floats() * 4 > most_shared) return false;
        std::vector<double> work;
        for (int64_t d = 0; d < deep.segments(); ++d)
            for (int64_t h = 0; h < high.segments(); ++h) {
                const auto i = static_cast<size_t>(d), j = static_cast<size_t>(h);
                work.push_back(static_cast<double>((deep.edges[i + 1] - deep.edges[i]) *
                                                   ceil_div(high.edges[j + 1] - high.edges[j], rows)));
            }
        share(work, resident());
        return true;
    }

private:
    int64_t warps() const { return static_cast<int64_t>(teams_.size()) / 3; }
    int64_t threads() const { return 32 * warps(); }
    int64_t resident() const { return std::max<int64_t>(1, 12 / warps()); }
    int64_t values() const override { return lags_ * side * side + side; }
    int64_t far_floats() const { return planes_ * staged_rows_ * side * pitch_; }
    // What is staged, and in its place at the end the sums of the segments.
    int64_t shared_floats() const {
        return std::max(far_floats() + rows * side * near_pitch, segments_ * values());
    }
    static constexpr int64_t near_pitch = strip + 4;

    int64_t slot_segments() const override { return segments_; }
    void write_runs(KernelText& k) const override {  // along h each segment, along w one of all segments
        k.body.line("__shared__ int tf_tall_segment[2 * " + number(high_runs_) + "], tf_run_segment[2];");
        k.body.open("if (threadIdx.x == 0)");
        k.body.line("for (int tall = 0; tall < " + number(high_runs_) + "; ++tall) tf_tall_segment[2 * tall] = tall, tf_tall_segment[2 * tall + 1] = 1;");
        k.body.line("tf_run_segment[0] = 0, tf_run_segment[1] = " + number(segments_) + ";");
        k.body.close();
    }
    void write_slot(Body& body) const override {
        const AxisLags &high = axes_[1], &wide = axes_[2];
        const std::string B = number(blocks_of_channels_), S = number(side), L = number(lags_);
        body.line("const int which_lag = which ? 0 : (lag[0] * " + number(wide.count()) + " + lag[2]) * " +
                  number(high.count()) + " + lag[1];");
        body.line("const int tile = ((group * " + B + " + ca / " + S + ") * " + B + " + (which ? 0 : cb / " + S +
                  ")) * " + number(lag_groups_) + " + which_lag / " + L + ";");
        body.line("const int value = which ? " + number(lags_ * side * side) + " + ca % " + S + " : (which_lag % " +
                  L + " * " + S + " + ca % " + S + ") * " + S + " + cb % " + S + ";");
    }

    Launch sum() override {
        KernelText kernel = text();
        write_products(kernel);
        std::string constants = product_code(false);
        auto constant = [&](const char* name, int64_t value) {
            constants += "constexpr int " + std::string(name) + " = " + number(value) + ";\n";
        };
        constant("SIDE", side), constant("ROWS", rows), constant("STRIP", strip), constant("WARPS", warps());
        constant("LAGS", lags_), constant("STAGED_ROWS", staged_rows_), constant("COLUMNS", columns_);
        constant("PITCH", pitch_), constant("NEAR_PITCH", near_pitch), constant("VALUES", values());
        constants += "#ifdef __CUDACC_RTC__\nextern __shared__ __align__(16) float tf_tiles[];\n#else\nstatic float tf_tiles[" +
                     number(shared_floats()) + "];\n#endif\n";
        Launch launch = kernel.launch(
            "tf_covariance", tiles_ * groups_ * blocks_, threads(),
            "products of x" + to_string(graph_[x_].type.shape) + " with itself on tensor cores, " + number(lags_) +
                " lags of " + number(side) + " x " + number(side) + " channels, " + number(tiles_) + " tiles, " +
                number(blocks_) + " blocks each",
            constants, resident());
        launch.shared_bytes = static_cast<uint32_t>(shared_floats() * 4);
        return launch;
    }

    void write_products(KernelText& k) {
        Body& body = k.body;
        const AxisLags &deep = axes_[0], &high = axes_[1], &wide = axes_[2];
        table(k, "tf_deep", deep.edges), table(k, "tf_high", high.edges), table(k, "tf_wide", wide.edges);
        table(k, "tf_first", first_block_);
        const std::string teams = k.emitter.integer_table(teams_);
        body.line("float *tf_far = tf_tiles, *tf_near = tf_tiles + " + number(far_floats()) + ";");
        body.line("__syncthreads();");
        body.line("TF_SEQUENCE();");
        std::string rest = "(int)blockIdx.x";
        auto take = [&](int64_t extent, const char* name) {
            body.line("const int " + std::string(name) + " = " + rest + " % " + number(extent) + ";");
            rest = k.let(rest + " / " + number(extent), "q");
        };
        take(lag_groups_, "lag_group"), take(blocks_of_channels_, "second_block");
        take(blocks_of_channels_, "first_block"), take(groups_, "group");
        body.line("const int block = " + rest + ";");
        write_part(body, threads());
        body.line("const int high_segment = part % " + number(high.segments()) + ", deep_segment = part / " +
                  number(high.segments()) + ";");
        body.line("const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, g = lane / 4, t = lane % 4;");
        body.line("const int segment = " + teams + "[3 * warp], rank = " + teams + "[3 * warp + 1], team = " + teams +
                  "[3 * warp + 2];");
        // Where the partners of each lag are staged.
        const std::string plane = number(high.count() * wide.count());
        body.line("const int first_lag = " + number(first_lag_) + " + lag_group * LAGS, first_plane = first_lag / " +
                  plane + ";");
        body.line("int apart[LAGS];");
        body.line("#pragma unroll");
        body.open("for (int j = 0; j < LAGS; ++j)");
        body.line("const int lag = min(first_lag + j, " + number(last_lag_) + ");");
        body.line("apart[j] = ((lag / " + plane + " - first_plane) * STAGED_ROWS + lag % " + number(high.count()) +
                  " * " + number(high.step) + ") * SIDE * PITCH + lag / " + number(high.count()) + " % " +
                  number(wide.count()) + " * " + number(wide.step) + ";");
        body.close();
        body.line("float sums[LAGS][2][4] = {}, alone[4] = {};");
        body.line(
            "const int first_d = tf_deep[deep_segment], first_h = tf_high[high_segment], last_h = tf_high[high_segment "
            "+ 1];");
        body.line("const int planes = tf_deep[deep_segment + 1] - first_d, stacks = (last_h - first_h + ROWS - 1) / ROWS;");
        body.line("const int strips = (" + k.size(extent_[2]) + " + STRIP - 1) / STRIP, units = planes * stacks * strips * " +
                  k.size(batch_) + ";");
        k.emitter.open("for (int unit = block - tf_first[part]; unit < units; unit += tf_first[part + 1] - tf_first[part])");
        body.line("const int place = unit % strips, above = unit / strips, stack = above % stacks, beyond = above / stacks;");
        body.line("const int n = beyond / planes, d = first_d + beyond % planes, h = first_h + stack * ROWS, w = place * STRIP;");
        stage(k, planes_ * staged_rows_ * side, "second_block", "tf_far", "PITCH", columns_,
              "d + (first_plane + line / (SIDE * STAGED_ROWS)) * " + number(deep.step),
              "h + line / SIDE % STAGED_ROWS - " + number(high.most * high.step), number(wide.most * wide.step),
              k.size(extent_[1]));
        stage(k, rows * side, "first_block", "tf_near", "NEAR_PITCH", strip, "d", "h + line / SIDE", "0",
              "last_h");
        body.line("__syncthreads();");
        multiply(body);
        body.line("__syncthreads();");
        k.emitter.close();
        write_sums(k);
    }

    // Lines of channels: a warp a line, eight of them loaded before the first is stored.
    void stage(KernelText& k, int64_t lines, const char* channels, const std::string& to,
               const std::string& pitch, int64_t columns, const std::string& d, const std::string& h,
               const std::string& before, const std::string& beyond_h) {
        Body& body = k.body;
        const int64_t turns = ceil_div(columns, 32), batch = std::max<int64_t>(1, 8 / turns);
        k.emitter.open("for (int first_line = warp; first_line < " + number(lines) + "; first_line += WARPS * " +
                       number(batch) + ")");
        body.line("float loaded[" + number(batch) + "][" + number(turns) + "];");
        body.line("#pragma unroll");
        k.emitter.open("for (int i = 0; i < " + number(batch) + "; ++i)");
        body.line("const int line = first_line + i * WARPS, c = line % SIDE, d2 = " + d + ", h2 = " + h + ";");
        body.line("const bool met = line < " + number(lines) + " && d2 < " + k.size(extent_[0]) +
                  " && h2 >= 0 && h2 < " + beyond_h + in_group(channels, side, "c") + ";");
        body.line("#pragma unroll");
        k.emitter.open("for (int turn = 0; turn < " + number(turns) + "; ++turn)");
        body.line("const int column = turn * 32 + lane, w2 = w - " + before + " + column;");
        body.line("loaded[i][turn] = 0.0f;");
        const std::string channel =
            k.let("group * " + number(channels_) + " + " + channels + " * SIDE + c", "channel");
        k.emitter.open("if (met && column < " + number(columns) + " && w2 >= 0 && w2 < " + k.size(extent_[2]) + ")");
        body.line("loaded[i][turn] = (float)" + k.emitter.value(x_, at("n", channel, "d2", "h2", "w2"))[0] + ";");
        k.emitter.close();
        k.emitter.close();
        k.emitter.close();
        body.line("#pragma unroll");
        body.line("for (int i = 0; i < " + number(batch) + "; ++i)");
        body.line("#pragma unroll");
        body.line("for (int turn = 0; turn < " + number(turns) + "; ++turn)");
        body.line("    if (first_line + i * WARPS < " + number(lines) + " && turn * 32 + lane < " + number(columns) +
                  ") " + to + "[(first_line + i * WARPS) * " + pitch +
                  " + turn * 32 + lane] = __uint_as_float(tf_tf32(loaded[i][turn]));");
        k.emitter.close();
    }

    static void multiply(Body& body) {
        body.line("const int begin = max(tf_wide[segment] - w, 0), end = min(tf_wide[segment + 1] - w, STRIP);");
        body.open("for (int r = rank; r < ROWS; r += team)");
        body.open("for (int k = begin / 8 * 8; k < end; k += 8)");
        body.line("float x[4];");
        body.line("#pragma unroll");
        body.open("for (int i = 0; i < 4; ++i)");
        body.line("const int at = k + t + i / 2 * 4;");
        body.line("x[i] = at >= begin && at < end ? tf_near[(r * SIDE + g + i % 2 * 8) * NEAR_PITCH + at] : 0.0f;");
        body.close();
        body.line("const float one[2] = {1.0f, 1.0f};");
        body.line("tf_product(alone, x, one);");
        body.line("const float* other = tf_far + (r * SIDE + g) * PITCH + k + t;");
        body.line("#pragma unroll");
        body.open("for (int j = 0; j < LAGS; ++j)");
        body.line("#pragma unroll");
        body.open("for (int c = 0; c < 2; ++c)");
        body.line("const float* from = other + apart[j] + c * 8 * PITCH;");
        body.line("const float y[2] = {from[0], from[4]};");
        body.line("tf_product(sums[j][c], x, y);");
        body.close();
        body.close();
        body.close();
        body.close();
    }

    // The warps of a segment add their sums in order, then all go to the block's slot.
    void write_sums(KernelText& k) {
        Body& body = k.body;
        body.line("float* own = tf_tiles + segment * VALUES;");
        body.open("for (int turn = 0; turn < ROWS; ++turn)");
        body.open("if (turn == rank)");
        body.line("#pragma unroll");
        body.line("for (int j = 0; j < LAGS; ++j)");
        body.line("#pragma unroll");
        body.line("for (int c = 0; c < 2; ++c)");
        body.line("#pragma unroll");
        body.open("for (int i = 0; i < 4; ++i)");
        body.line("float* to = own + (j * SIDE + g + i / 2 * 8) * SIDE + c * 8 + 2 * t + i % 2;");
        body.line("*to = (turn > 0 ? *to : 0.0f) + sums[j][c][i];");
        body.close();
        body.open("if (t == 0) for (int i = 0; i < 2; ++i)");
        body.line("float* to = own + LAGS * SIDE * SIDE + g + i * 8;");
        body.line("*to = (turn > 0 ? *to : 0.0f) + alone[2 * i];");
        body.close();
        body.close();
        body.line("__syncthreads();");
        body.close();
        const std::string pointer = k.parameters.pointer(Argument::of_scratch(0), "float", false);
        const std::string B = number(blocks_of_channels_), S = number(segments_);
        body.line("const long long slot = ((((long long)group * " + B + " + first_block) * " + B +
                  " + second_block) * " + number(lag_groups_) + " + lag_group) * " + k.size(blocks_) + " + block;");
        body.line("for (int i = (int)threadIdx.x; i < " + S + " * VALUES; i += WARPS * 32) " + pointer + "[slot * (" +
                  S + " * VALUES) + i] = tf_tiles[i];");
    }

    int64_t blocks_of_channels_ = 1, lag_groups_ = 1, lags_ = 1, first_lag_ = 0, last_lag_ = 0, planes_ = 1,
            staged_rows_ = 1, columns_ = 1, pitch_ = 1;
    std::vector<int64_t> teams_;  // of each warp: its segment, which of the segment's warps it is, and how many there are
};

}  // namespace

std::unique_ptr<CovarianceParts> covariance_products(const Surroundings& surroundings, const Places& places) {
    auto products = std::make_unique<CovarianceProducts>(surroundings, places);
    if (!products->arrange()) return nullptr;
    return products;
}

}  // namespace transfuse::cuda
