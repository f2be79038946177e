// Products on tensor cores, of what differs from a number near the mean, rounded to TF32 when it is staged. A warp
// multiplies 16 channels of one row by 16 of each lag, eight places along w at a time, so its sums are the pairs of
// channels of every lag. Rows are cut into segments along w: each segment has warps of its own, for which what lies
// outside is zero. Along h a block stays inside one segment.
#include <algorithm>

#include "algebra/lattice/integer.h"
#include "cuda/kernel/product_code.h"
#include "cuda/sums/covariance/covariance_stream.h"
#include "cuda/sums/covariance/figures.h"

namespace transfuse::cuda {

using namespace figures::covariance::tensor_cores;

namespace {

constexpr int64_t side = 16;   // channels of a block on either side
constexpr int64_t rows = 4;    // of a chunk
constexpr int64_t strip = 32;  // its columns

class CovarianceProducts : public CovarianceStream {
public:
    CovarianceProducts(const Surroundings& s, const Places& places) : CovarianceStream(s, places, DType::f32, true) {}

    bool arrange() {
        const AxisLags &high = axes_[1], &wide = axes_[2];
        const bool exact = s_.precision == Fp32Precision::strict && graph_[x_].type.dtype == DType::f32;
        if (exact || graph_[x_].type.dtype == DType::f64 || channels_ < 8) return false;
        if (s_.target.arch < 80 || numel(graph_[x_].type.shape) >= int64_t{1} << 31) return false;
        divide(side, most_lags);
        stage(rows, strip, true);
        high_runs_ = high.segments();
        for (int64_t s = 0; s < segments_; ++s) {
            const auto i = static_cast<size_t>(s);
            const int64_t size = wide.edges[i + 1] - wide.edges[i] <= narrow ? 1 : rows;
            for (int64_t rank = 0; rank < size; ++rank) teams_.insert(teams_.end(), {s, rank, size});
        }
        copies_ = copyable();
        if (shared_floats() * 4 + 2048 > s_.target.shared_bytes) copies_ = false;
        if (!counted() || warps() > most_warps || shared_floats() * 4 + 2048 > s_.target.shared_bytes) return false;
        auto work = [&](int64_t d, int64_t tall, int64_t) {
            const auto j = static_cast<size_t>(tall);
            return static_cast<double>(batch_ * ceil_div(high.edges[j + 1] - high.edges[j], rows) *
                                       ceil_div(extent_[2], strip)) *
                   column_work(d);
        };
        share(work, resident(), most_steps);
        return true;
    }

private:
    int64_t warps() const { return static_cast<int64_t>(teams_.size()) / 3; }
    int64_t threads() const override { return 32 * warps(); }
    int64_t resident() const {
        return std::max<int64_t>(1, std::min(12 / warps(), s_.target.shared_bytes / (shared_floats() * 4 + 2048)));
    }
    int64_t most_early() const override { return 9; }
    int64_t slot_segments() const override { return segments_; }
    // The ring, what is on its way and the places, and instead of them at the end the sums of the segments.
    int64_t shared_floats() const {
        return std::max(ring_numbers() + coming_numbers() + place_numbers(), segments_ * values());
    }
    std::string staged(const std::string& number) const override {
        return "__uint_as_float(tf_tf32((float)(" + number + ")))";
    }

    void write_runs(KernelText& k) const override {  // along h each segment, along w one of all segments
        Body& body = k.body;
        const std::string all = number(high_runs_);
        table(k, "tf_high", axes_[1].edges), table(k, "tf_wide", axes_[2].edges);
        body.line("__shared__ int tf_tall_begin[" + all + "], tf_tall_end[" + all + "], tf_tall_segment[2 * " + all +
                  "];");
        body.line("__shared__ int tf_run_begin[1], tf_run_end[1], tf_run_segment[2];");
        body.open("if (threadIdx.x == 0)");
        body.open("for (int tall = 0; tall < " + all + "; ++tall)");
        body.line("tf_tall_begin[tall] = tf_high[tall], tf_tall_end[tall] = tf_high[tall + 1];");
        body.line("tf_tall_segment[2 * tall] = tall, tf_tall_segment[2 * tall + 1] = 1;");
        body.close();
        body.line("tf_run_begin[0] = 0, tf_run_end[0] = tf_wide[" + number(segments_) + "];");
        body.line("tf_run_segment[0] = 0, tf_run_segment[1] = " + number(segments_) + ";");
        body.close();
    }

    Launch sum() override {
        KernelText kernel = text();
        Body& body = kernel.body;
        const std::string teams = kernel.emitter.integer_table(teams_);
        body.line("float *const tf_ring = tf_tiles, *const tf_coming = tf_tiles + " + number(ring_numbers()) + ";");
        body.line("int* const tf_places = (int*)tf_coming + " + number(coming_numbers()) + ";");
        write_block(kernel);
        body.line("const int g = lane / 4, t = lane % 4, segment = " + teams + "[3 * warp], rank = " + teams +
                  "[3 * warp + 1], team = " + teams + "[3 * warp + 2];");
        body.line("float sums[LAGS][2][4] = {}, alone[4] = {};");
        write_steps(kernel, 0);
        std::string constants = product_code(false) + staging_code(shared_floats());
        auto constant = [&](const char* name, int64_t value) {
            constants += "constexpr int " + std::string(name) + " = " + number(value) + ";\n";
        };
        constant("SIDE", side), constant("ROWS", rows), constant("STRIP", strip), constant("WARPS", warps());
        constant("LAGS", lags_), constant("PITCH", staged_columns_), constant("ROW", both() * staged_columns_),
            constant("VALUES", values());
        Launch launch =
            kernel.launch("tf_covariance", tiles_ * groups_ * blocks_, threads(),
                          "products of x" + to_string(graph_[x_].type.shape) + " with itself on tensor cores, " +
                              number(lags_) + " lags of " + number(side) + " x " + number(side) + " channels, " +
                              number(tiles_) + " tiles, " + number(blocks_) + " blocks each",
                          constants, resident());
        launch.shared_bytes = static_cast<uint32_t>(shared_floats() * 4);
        return launch;
    }

    bool products_read_places() const override { return true; }
    void write_products(KernelText& k) override {
        Body& body = k.body;
        body.line(
            "const int begin = max(tf_wide[segment] - own_w, 0), beyond = min(tf_wide[segment + 1] - own_w, STRIP);");
        body.line("const int rows = min(ROWS, tf_tall_end[tall] - own_h);");
        body.line("const float* here = tf_ring + " + number(rows_before_) + " * ROW + g * PITCH + t + " +
                  number(columns_before_) + ";");
        body.line("#pragma unroll 1");
        body.open("for (int r = rank; r < rows; r += team)");
        body.line("#pragma unroll 1");
        body.open("for (int k = begin / 8 * 8; k < beyond; k += 8)");
        body.line("float x[4];");
        body.line("#pragma unroll");
        body.open("for (int i = 0; i < 4; ++i)");
        body.line("const int at = k + t + i / 2 * 4;");
        body.line("x[i] = at >= begin && at < beyond ? here[" + plane_at("0") +
                  " + r * ROW + k + i % 2 * 8 * PITCH + i / 2 * 4] : 0.0f;");
        body.close();
        body.line("const float one[2] = {1.0f, 1.0f};");
        body.line("tf_product(alone, x, one);");
        body.line("#pragma unroll");
        body.open("for (int j = 0; j < LAGS; ++j)");
        body.line("const int lag = min(first_lag + j, " + number(last_lag_) + ");");
        write_lag(body);
        body.line("const float* from = here + " + plane_at("ahead") + " + (r + below) * ROW + k + right + " +
                  number((sides_ - 1) * channel_block_) + " * PITCH;");
        body.line("#pragma unroll");
        body.open("for (int c = 0; c < 2; ++c)");
        body.line("const float y[2] = {from[c * 8 * PITCH], from[c * 8 * PITCH + 4]};");
        body.line("tf_product(sums[j][c], x, y);");
        body.close();
        body.close();
        body.close();
        body.close();
    }

    // The warps of a segment add their sums in order, then all go to the block's slot.
    void write_finish(KernelText& k) override {
        Body& body = k.body;
        body.line("__syncthreads();");
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
        const std::string S = number(segments_);
        body.line("const long long slot_at = (long long)" + tile() + " * " + k.size(blocks_) + " + block;");
        body.line("for (int i = (int)threadIdx.x; i < " + S + " * VALUES; i += WARPS * 32) " + pointer +
                  "[slot_at * (" + S + " * VALUES) + i] = tf_tiles[i];");
    }

    std::vector<int64_t>
        teams_;  // of each warp: its segment, which of the segment's warps it is, and how many there are
};

}  // namespace

std::unique_ptr<CovarianceParts> covariance_products(const Surroundings& surroundings, const Places& places) {
    auto products = std::make_unique<CovarianceProducts>(surroundings, places);
    if (!products->arrange()) return nullptr;
    return products;
}

}  // namespace transfuse::cuda
