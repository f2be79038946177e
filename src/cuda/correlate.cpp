// One block makes the product of a channel tile of x with a channel tile of g for one tap, over a slice of the pixels.
// Along each axis the outputs that meet an input through tap k are evenly spaced, o = first_o + period·u with
// i = first_i + advance·u, so a tap is two strided windows and K of the matrix product counts (n, u…).
#include "cuda/correlate.h"

#include <algorithm>

#include "cuda/kernel_text.h"
#include "cuda/product_code.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

constexpr int threads = 256;
constexpr int depth = 32;         // pixels of one step
constexpr int pitch = depth + 4;  // rows of fragments touch every bank once

struct TapRange {
    int64_t first_i = 0, first_o = 0, count = 0;
};

TapRange range_of(const Lattice& axis, int64_t k) {
    TapRange range;
    int64_t first = 0, last = axis.out - 1;
    while (first < axis.out && !axis.input(first, k)) ++first;
    while (last >= first && !axis.input(last, k)) --last;
    if (first > last) return range;
    range.first_o = first, range.first_i = *axis.input(first, k);
    range.count = (last - first) / axis.period() + 1;
    return range;
}

class CorrelateWriter {
public:
    CorrelateWriter(const Surroundings& s, const Places& places, ValueId id)
        : s_(s), graph_(s.plan.graph), places_(places), id_(id) {
        const Node& node = graph_[id];
        x_ = node.args[0], g_ = node.args[1];
        shape_ = node.type.shape;
        const Sizes &in = graph_[x_].type.shape, &out = graph_[g_].type.shape;
        const auto& a = node.attributes;
        for (size_t i = 0; i + 2 < in.size(); ++i) {
            Lattice axis;
            axis.up = a.integers(Key::up)[i], axis.down = a.integers(Key::down)[i], axis.dil = a.integers(Key::dil)[i];
            axis.offset = a.integers(Key::offset)[i], axis.taps = a.integers(Key::taps)[i], axis.in = in[i + 2],
            axis.out = out[i + 2];
            axes_.push_back(axis);
            ranges_.emplace_back();
            int64_t most = 0;
            for (int64_t k = 0; k < axis.taps; ++k) {
                ranges_.back().push_back(range_of(axis, k));
                most = std::max(most, ranges_.back().back().count);
            }
            pixels_ *= most;
        }
        batch_ = in[0];
        pixels_ *= batch_;
    }

    bool arrange(std::string* why_not) {
        auto refuse = [&](const char* why) {
            if (why_not) *why_not = why;
            return false;
        };
        if (graph_[id_].type.dtype == DType::f64) return refuse("float64 products");
        if (pixels_ < 256) return refuse("few pixels");
        if (pixels_ >= int64_t{1} << 30) return refuse("more than 2^30 pixels");
        if (numel(graph_[x_].type.shape) >= int64_t{1} << 31 || numel(graph_[g_].type.shape) >= int64_t{1} << 31)
            return refuse("more than 2^31 elements");
        rows_ = shape_[1] > 32 ? 64 : 32;
        columns_ = shape_[2] > 64 ? 128 : shape_[2] > 32 || rows_ == 32 ? 64 : 32;
        row_tiles_ = (shape_[1] + rows_ - 1) / rows_, column_tiles_ = (shape_[2] + columns_ - 1) / columns_;
        tap_count_ = 1;
        for (const Lattice& axis : axes_) tap_count_ *= axis.taps;
        const int64_t blocks = shape_[0] * row_tiles_ * column_tiles_ * tap_count_;
        if (blocks >= 1 << 24) return refuse("too many tiles");
        // Enough blocks for the device, and sums short enough for fp32.
        const int64_t wanted = (4 * s_.target.multiprocessors + blocks - 1) / blocks;
        int64_t slices = std::max(wanted, (pixels_ + 32767) / 32768);
        slices = std::max<int64_t>(1, std::min(slices, pixels_ / 256));
        slice_ = s_.target.decide(((pixels_ + slices - 1) / slices + depth - 1) / depth * depth);
        slices_ = (pixels_ + slice_ - 1) / slice_;
        return true;
    }

    Launch write() {
        KernelText kernel(s_, places_);
        body_ = &kernel.body, emitter_ = &kernel.emitter, parameters_ = &kernel.parameters;
        write_body();
        Launch launch = kernel.launch(
            "tf_correlate", shape_[0] * row_tiles_ * column_tiles_ * tap_count_ * slices_, threads,
            "weight gradient" + to_string(shape_) + ", tiles " + number(rows_) + " x " + number(columns_) + ", " +
                number(slices_) + " slices" + (strict() ? ", 3 x TF32" : ", TF32"),
            product_code(strict()) +
                "\n#ifdef __CUDACC_RTC__\nextern __shared__ __align__(16) float tf_tiles[];\n#else\nstatic float tf_tiles[" +
                number(shared_floats()) + "];\n#endif\n");
        launch.shared_bytes = static_cast<uint32_t>(shared_floats() * 4);
        return launch;
    }

    Place place() const {
        Place place;
        place.base = Argument::of_scratch(0);
        place.storage = DType::f32;
        place.strides = contiguous_strides(shape_);
        place.aligned = true;
        place.read_only = false;
        place.partials = Partials{slices_, numel(shape_), 1, false};
        return place;
    }
    size_t scratch_bytes() const { return static_cast<size_t>(slices_ * numel(shape_) * 4); }

private:
    bool strict() const { return s_.precision == Fp32Precision::strict && graph_[id_].type.dtype == DType::f32; }
    std::string staged(const std::string& value) const {
        return strict() ? value : "__uint_as_float(tf_tf32(" + value + "))";
    }
    std::string integer(int64_t value) { return parameters_->integer(value, true); }
    std::string let(const std::string& text, std::string_view prefix) { return emitter_->let("int", text, prefix); }
    int64_t shared_floats() const { return 2 * (rows_ + columns_) * pitch; }  // two stages of both tiles

    void write_body() {
        Body& body = *body_;
        const int64_t a_loads = rows_ / 8, b_loads = columns_ / 8, warps_m = rows_ / 32, warps_n = 8 / warps_m,
                      warp_columns = columns_ / warps_n;
        const int64_t fragments = warp_columns / 8;
        body.line("float(*tf_a)[" + number(rows_ * pitch) + "] = (float(*)[" + number(rows_ * pitch) + "])tf_tiles;");
        body.line("float(*tf_b)[" + number(columns_ * pitch) + "] = (float(*)[" + number(columns_ * pitch) +
                  "])(tf_tiles + " + number(2 * rows_ * pitch) + ");");
        body.line("TF_SEQUENCE();");
        std::string rest = "(int)blockIdx.x";
        auto take = [&](int64_t extent, bool dynamic, std::string_view prefix) {
            if (extent == 1 && !(dynamic && s_.target.stated())) return std::string("0");
            const std::string q = let(parameters_->quotient(rest, extent, dynamic), "q"),
                              r = let(parameters_->remainder(rest, q, extent, dynamic), prefix);
            rest = q;
            return r;
        };
        // Taps of one slice side by side: they read the same pixels, which then are in the L2.
        std::vector<std::string> tap(axes_.size());
        for (size_t i = axes_.size(); i-- > 0;) tap[i] = take(axes_[i].taps, false, "tap");
        const std::string column_tile = take(column_tiles_, false, "columns"),
                          row_tile = take(row_tiles_, false, "rows");
        const std::string group = take(shape_[0], false, "group"), slice = let(rest, "slice");
        std::vector<std::string> first_i, first_o, count;
        std::string pixels = integer(batch_);
        for (size_t i = 0; i < axes_.size(); ++i) {
            auto pick = [&](auto member) {
                std::string text = integer(member(ranges_[i][0]));
                for (size_t k = 1; k < ranges_[i].size(); ++k) {
                    const std::string other = integer(member(ranges_[i][k]));
                    if (other != text)
                        text = "(" + tap[i] + " == " + number(static_cast<int64_t>(k)) + " ? " + other + " : " + text +
                               ")";
                }
                return let(text, "n_");
            };
            first_i.push_back(pick([](const TapRange& r) { return r.first_i; }));
            first_o.push_back(pick([](const TapRange& r) { return r.first_o; }));
            count.push_back(pick([](const TapRange& r) { return r.count; }));
            pixels = times(pixels, count.back());
        }
        const std::string begin = let(times(slice, integer(slice_)), "begin"),
                          end = let("min(" + begin + " + " + integer(slice_) + ", " + pixels + ")", "end");
        const std::string lane = let("(int)threadIdx.x % 32", "lane"), warp = let("(int)threadIdx.x / 32", "warp");
        const std::string four = let(lane + " % 4", "t"), eight = let(lane + " / 4", "g");
        const std::string warp_row = let("(" + warp + " / " + number(warps_n) + ") * 32", "warp_row");
        const std::string warp_column =
            let("(" + warp + " % " + number(warps_n) + ") * " + number(warp_columns), "warp_column");
        body.line("float sums[2][" + number(fragments) + "][4];");
        body.line("for (int m = 0; m < 2; ++m) for (int n = 0; n < " + number(fragments) +
                  "; ++n) for (int c = 0; c < 4; ++c) sums[m][n][c] = 0.0f;");
        body.line("float next_a[" + number(a_loads) + "], next_b[" + number(b_loads) + "];");
        body.line("int stage = 0;");
        // Step -1 only loads: the loop body loads the next step's pixels, multiplies this one's, and hands over.
        emitter_->open("for (int p = " + begin + " - " + number(depth) + "; p < " + end + "; p += " + number(depth) +
                       ")");
        load(lane, warp, group, row_tile, column_tile, first_i, first_o, count, end, a_loads, b_loads);
        emitter_->open("if (p >= " + begin + ")");
        if (!strict()) body.line("float parts[2][" + number(fragments) + "][4] = {};");
        body.line("#pragma unroll");
        body.open("for (int k = 0; k < " + number(depth) + "; k += 8)");
        body.line("float a[2][4], b[" + number(fragments) + "][2];");
        body.line("for (int m = 0; m < 2; ++m) for (int i = 0; i < 4; ++i) a[m][i] = tf_a[stage][(" + warp_row +
                  " + m * 16 + " + eight + " + (i % 2) * 8) * " + number(pitch) + " + k + " + four +
                  " + (i / 2) * 4];");
        body.line("for (int n = 0; n < " + number(fragments) +
                  "; ++n) for (int i = 0; i < 2; ++i) b[n][i] = tf_b[stage][(" + warp_column + " + n * 8 + " + eight +
                  ") * " + number(pitch) + " + k + " + four + " + i * 4];");
        // Tensor cores cut what they add towards zero: long sums are formed by additions that round.
        const std::string each = "for (int m = 0; m < 2; ++m) for (int n = 0; n < " + number(fragments) + "; ++n) ";
        if (strict()) {
            body.open(each);
            body.line("float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};");
            body.line("tf_product(part, a[m], b[n]);");
            body.line("for (int c = 0; c < 4; ++c) sums[m][n][c] += part[c];");
            body.close();
        } else {
            body.line(each + "tf_product(parts[m][n], a[m], b[n]);");
        }
        body.close();
        if (!strict()) body.line(each + "for (int c = 0; c < 4; ++c) sums[m][n][c] += parts[m][n][c];");
        emitter_->close();
        body.line("stage ^= 1;");
        body.line("for (int j = 0; j < " + number(a_loads) + "; ++j) tf_a[stage][(" + warp + " + j * 8) * " +
                  number(pitch) + " + " + lane + "] = " + staged("next_a[j]") + ";");
        body.line("for (int j = 0; j < " + number(b_loads) + "; ++j) tf_b[stage][(" + warp + " + j * 8) * " +
                  number(pitch) + " + " + lane + "] = " + staged("next_b[j]") + ";");
        body.line("__syncthreads();");
        emitter_->close();
        // Into this slice's slot.
        std::string tap_number = "0";
        for (size_t i = 0; i < axes_.size(); ++i) tap_number = plus(times(tap_number, number(axes_[i].taps)), tap[i]);
        const std::string pointer = parameters_->pointer(Argument::of_scratch(0), "float", false);
        const std::string base =
            emitter_->let("long long",
                          "(long long)" + slice + " * " + integer(numel(shape_)) + " + " +
                              times(group, number(shape_[1] * shape_[2] * tap_count_)) + " + " + tap_number,
                          "to");
        body.open("for (int m = 0; m < 2; ++m) for (int n = 0; n < " + number(fragments) +
                  "; ++n) for (int c = 0; c < 4; ++c)");
        body.line("const int row = " + plus(times(row_tile, number(rows_)), warp_row) + " + m * 16 + " + eight +
                  " + (c / 2) * 8;");
        body.line("const int column = " + plus(times(column_tile, number(columns_)), warp_column) + " + n * 8 + 2 * " +
                  four + " + c % 2;");
        body.line("if (row < " + number(shape_[1]) + " && column < " + number(shape_[2]) + ") " + pointer + "[" + base +
                  " + (row * " + number(shape_[2]) + " + column) * " + number(tap_count_) + "] = sums[m][n][c];");
        body.close();
    }

    // The pixel p + 32 + lane of every channel of both tiles, zero beyond the slice.
    void load(const std::string& lane, const std::string& warp, const std::string& group, const std::string& row_tile,
              const std::string& column_tile, const std::vector<std::string>& first_i,
              const std::vector<std::string>& first_o, const std::vector<std::string>& count, const std::string& end,
              int64_t a_loads, int64_t b_loads) {
        Body& body = *body_;
        const std::string pixel = let("p + " + number(depth) + " + " + lane, "pixel");
        body.line("for (int j = 0; j < " + number(a_loads) + "; ++j) next_a[j] = 0.0f;");
        body.line("for (int j = 0; j < " + number(b_loads) + "; ++j) next_b[j] = 0.0f;");
        emitter_->open("if (" + pixel + " < " + end + ")");
        std::string rest = pixel;
        Index at_x(axes_.size() + 2), at_g(axes_.size() + 2);
        for (size_t i = axes_.size(); i-- > 0;) {
            const std::string q = let(rest + " / " + count[i], "q"), u = let(rest + " - " + q + " * " + count[i], "u");
            at_x[i + 2] = {let(plus(first_i[i], times(u, number(axes_[i].advance()))), "i")};
            at_g[i + 2] = {let(plus(first_o[i], times(u, number(axes_[i].period()))), "o")};
            rest = q;
        }
        at_x[0] = at_g[0] = {rest};
        body.line("#pragma unroll");
        emitter_->open("for (int j = 0; j < " + number(a_loads) + "; ++j)");
        const std::string a = let(plus(times(row_tile, number(rows_)), warp) + " + j * 8", "channel");
        emitter_->open("if (" + a + " < " + number(shape_[1]) + ")");
        at_x[1] = {let(plus(times(group, number(shape_[1])), a), "c")};
        body.line("next_a[j] = (float)" + emitter_->value(x_, at_x).text[0] + ";");
        emitter_->close();
        emitter_->close();
        body.line("#pragma unroll");
        emitter_->open("for (int j = 0; j < " + number(b_loads) + "; ++j)");
        const std::string b = let(plus(times(column_tile, number(columns_)), warp) + " + j * 8", "channel");
        emitter_->open("if (" + b + " < " + number(shape_[2]) + ")");
        at_g[1] = {let(plus(times(group, number(shape_[2])), b), "c")};
        body.line("next_b[j] = (float)" + emitter_->value(g_, at_g).text[0] + ";");
        emitter_->close();
        emitter_->close();
        emitter_->close();
    }

    const Surroundings& s_;
    const Graph& graph_;
    const Places& places_;
    const ValueId id_;
    ValueId x_ = -1, g_ = -1;
    Sizes shape_;
    std::vector<Lattice> axes_;
    std::vector<std::vector<TapRange>> ranges_;
    int64_t batch_ = 1, pixels_ = 1, rows_ = 64, columns_ = 64, row_tiles_ = 1, column_tiles_ = 1, tap_count_ = 1,
            slice_ = depth, slices_ = 1;
    Body* body_ = nullptr;
    Emitter* emitter_ = nullptr;
    Parameters* parameters_ = nullptr;
};

}  // namespace

std::optional<GridProgram> generate_correlate(const Surroundings& surroundings, const Places& places,
                                              std::string* why_not) {
    const ValueId anchor = surroundings.pass.anchor;
    if (anchor < 0 || surroundings.plan.graph[anchor].op != Op::correlate) {
        if (why_not) *why_not = "no correlate";
        return std::nullopt;
    }
    CorrelateWriter writer(surroundings, places, anchor);
    if (!writer.arrange(why_not)) return std::nullopt;
    GridProgram result;
    result.program.launches.push_back(writer.write());
    result.program.scratch_bytes = writer.scratch_bytes();
    result.program.note = result.program.launches[0].note;
    result.grid.emplace(anchor, writer.place());
    return result;
}

}  // namespace transfuse::cuda
