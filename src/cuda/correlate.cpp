// One block makes the products of a channel tile of x with a channel tile of g for several taps of a row, over a slice
// of the pixels. Along each outer axis the outputs that meet an input through tap k are evenly spaced,
// o = first_o + period·u with i = first_i + advance·u, so a tap is two strided windows. Along the row a tap is a plane
// of residues turned against another (correlate_taps.h): rows stand one behind the other with zeros between them, and
// K of the matrix product counts positions of that line. The turned operand lies in a ring, so that every turn of it
// is an address.
#include "cuda/correlate.h"

#include <algorithm>

#include "cuda/correlate_taps.h"
#include "cuda/kernel_text.h"
#include "cuda/product_code.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

constexpr int threads = 256;
constexpr int depth = 32;                    // positions of one step
constexpr int pitch = depth + 4;             // rows of fragments touch every bank once
constexpr int ring = 4 * depth;              // positions of the turned operand that are kept
constexpr int ring_pitch = ring + 4;         // as pitch
constexpr int64_t widest_span = 2 * depth;   // this step's positions, those of the turns, and the next step's
constexpr int64_t longest_chain = 8192;      // tensor cores cut what they add towards zero
constexpr int64_t accumulators = 160;        // registers of a thread that sums may take
constexpr int64_t accumulators_strict = 64;  // each with its two parts beside it
constexpr int64_t held = 200;                // of those and of numbers on their way to shared memory

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
            if (i + 3 == in.size()) {
                row_ = axis;
                break;
            }
            outer_.push_back(axis);
            ranges_.emplace_back();
            int64_t most = 0;
            for (int64_t k = 0; k < axis.taps; ++k) {
                ranges_.back().push_back(range_of(axis, k));
                most = std::max(most, ranges_.back().back().count);
            }
            rows_of_image_ *= most;
        }
        batch_ = in[0];
    }

    bool arrange(std::string* why_not) {
        auto refuse = [&](const char* why) {
            if (why_not) *why_not = why;
            return false;
        };
        if (graph_[id_].type.dtype == DType::f64) return refuse("float64 products");
        if (numel(graph_[x_].type.shape) >= int64_t{1} << 31 || numel(graph_[g_].type.shape) >= int64_t{1} << 31)
            return refuse("more than 2^31 elements");
        rows_ = shape_[1] > 32 ? 64 : 32;
        columns_ = shape_[2] > 64 ? 128 : shape_[2] > 32 || rows_ == 32 ? 64 : 32;
        if (!bundled()) return refuse("a tap that meets nothing");
        while (shared_floats() * 4 > s_.target.shared_bytes && columns_ > 32) columns_ /= 2, bundled();
        if (shared_floats() * 4 > s_.target.shared_bytes) return refuse("little shared memory");
        // A row's values, and behind them zeros for the turns that look over its ends.
        row_pitch_ = std::max((row_.out + row_.period() - 1) / row_.period() + taps_.most_turn,
                              (row_.in + row_.advance() - 1) / row_.advance() - taps_.least_turn);
        if (!taps_.turns_x)
            row_pitch_ = std::max((row_.in + row_.advance() - 1) / row_.advance() + taps_.most_turn,
                                  (row_.out + row_.period() - 1) / row_.period() - taps_.least_turn);
        const int64_t positions = batch_ * rows_of_image_ * row_pitch_;
        if (positions < 256) return refuse("few pixels");
        if (positions >= int64_t{1} << 30) return refuse("more than 2^30 pixels");
        row_tiles_ = (shape_[1] + rows_ - 1) / rows_, column_tiles_ = (shape_[2] + columns_ - 1) / columns_;
        outer_taps_ = 1;
        for (const Lattice& axis : outer_) outer_taps_ *= axis.taps;
        const int64_t blocks =
            shape_[0] * row_tiles_ * column_tiles_ * outer_taps_ * static_cast<int64_t>(taps_.bundles.size());
        if (blocks >= 1 << 24) return refuse("too many tiles");
        // Enough blocks for the device, and chains short enough for the tensor cores.
        const int64_t wanted = (4 * s_.target.multiprocessors + blocks - 1) / blocks;
        int64_t slices = std::max(wanted, (positions + longest_chain - 1) / longest_chain);
        slices = std::max<int64_t>(1, std::min(slices, positions / 256));
        slice_ = s_.target.decide(((positions + slices - 1) / slices + depth - 1) / depth * depth);
        slices_ = (positions + slice_ - 1) / slice_;
        return true;
    }

    Launch write() {
        KernelText kernel(s_, places_);
        body_ = &kernel.body, emitter_ = &kernel.emitter, parameters_ = &kernel.parameters;
        write_body();
        Launch launch = kernel.launch(
            "tf_correlate",
            shape_[0] * row_tiles_ * column_tiles_ * outer_taps_ * static_cast<int64_t>(taps_.bundles.size()) * slices_,
            threads,
            "weight gradient" + to_string(shape_) + ", tiles " + number(rows_) + " x " + number(columns_) + " x " +
                number(static_cast<int64_t>(taps_.turns())) + " taps, " + number(slices_) + " slices" +
                (strict() ? ", 3 x TF32" : ", TF32"),
            product_code(strict()) +
                "\n#ifdef __CUDACC_RTC__\nextern __shared__ __align__(16) float tf_tiles[];\n#else\nstatic float "
                "tf_tiles[" +
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
    // One of the two operands, as the tiles see it.
    struct Operand {
        ValueId value;
        bool is_x;
        int64_t channels, tile, step;  // channels of a group, of a tile; distance of neighbours in a residue plane
        std::string channel_tile, name;
        int64_t loads() const { return tile / 8; }
    };

    bool strict() const { return s_.precision == Fp32Precision::strict && graph_[id_].type.dtype == DType::f32; }
    std::string staged(const std::string& value) const {
        return strict() ? value : "__uint_as_float(tf_tf32(" + value + "))";
    }
    std::string integer(int64_t value) { return parameters_->integer(value, true); }
    std::string let(const std::string& text, std::string_view prefix) { return emitter_->let("int", text, prefix); }

    int64_t warps_m() const { return rows_ / 32; }
    int64_t warp_columns() const { return columns_ / (8 / warps_m()); }
    int64_t fragments() const { return warp_columns() / 8; }
    int64_t still_tile() const { return taps_.turns_x ? columns_ : rows_; }
    int64_t turned_tile() const { return taps_.turns_x ? rows_ : columns_; }
    int64_t still_floats() const { return static_cast<int64_t>(taps_.planes()) * still_tile() * pitch; }
    int64_t shared_floats() const { return turned_tile() * ring_pitch + 2 * still_floats(); }

    // The taps of a row in bundles that registers hold; false where a tap is in none.
    bool bundled() {
        const int64_t most = (strict() ? accumulators_strict : accumulators) / (8 * fragments());
        const int64_t planes = row_.advance() == 1 || row_.period() != 1 ? columns_ : rows_;
        const int64_t staged = (held - 8 * fragments() * std::min<int64_t>(most, 4)) / (planes / 8);
        taps_ = tap_bundles(row_, static_cast<size_t>(std::clamp<int64_t>(most, 1, 8)),
                            static_cast<size_t>(std::clamp<int64_t>(staged, 1, 4)), widest_span);
        int64_t taken = 0;
        for (const Bundle& bundle : taps_.bundles)
            for (const Plane& plane : bundle.planes)
                for (const Turn& turn : plane.turns) taken += turn.tap >= 0;
        return taken == row_.taps;
    }

    // A number of each bundle, as the block's own.
    template <class Of>
    std::string of_bundle(const std::string& bundle, Of of) {
        std::vector<int64_t> values;
        for (const Bundle& each : taps_.bundles) values.push_back(of(each));
        if (std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; }))
            return number(values[0]);
        return let(emitter_->integer_table(values) + "[" + bundle + "]", "t_");
    }

    void write_body() {
        Body& body = *body_;
        const int64_t turns = static_cast<int64_t>(taps_.turns()), planes = static_cast<int64_t>(taps_.planes());
        body.line("TF_SEQUENCE();");
        body.line("float* const turned = tf_tiles;");
        body.line("float* const still = tf_tiles + " + number(turned_tile() * ring_pitch) + ";");
        std::string rest = "(int)blockIdx.x";
        auto take = [&](int64_t extent, std::string_view prefix) {
            if (extent == 1) return std::string("0");
            const std::string q = let(parameters_->quotient(rest, extent, false), "q"),
                              r = let(parameters_->remainder(rest, q, extent, false), prefix);
            rest = q;
            return r;
        };
        // Taps of one slice side by side: they read the same pixels, which then are in the L2.
        const std::string bundle = take(static_cast<int64_t>(taps_.bundles.size()), "bundle");
        tap_.assign(outer_.size(), "");
        for (size_t i = outer_.size(); i-- > 0;) tap_[i] = take(outer_[i].taps, "tap");
        const std::string column_tile = take(column_tiles_, "columns"), row_tile = take(row_tiles_, "rows");
        group_ = take(shape_[0], "group");
        const std::string slice = let(rest, "slice");
        std::string rows = integer(batch_);
        first_i_.clear(), first_o_.clear(), count_.clear();
        for (size_t i = 0; i < outer_.size(); ++i) {
            auto pick = [&](auto member) {
                std::string text = integer(member(ranges_[i][0]));
                for (size_t k = 1; k < ranges_[i].size(); ++k) {
                    const std::string other = integer(member(ranges_[i][k]));
                    if (other != text)
                        text = "(" + tap_[i] + " == " + number(static_cast<int64_t>(k)) + " ? " + other + " : " + text +
                               ")";
                }
                return let(text, "n_");
            };
            first_i_.push_back(pick([](const TapRange& r) { return r.first_i; }));
            first_o_.push_back(pick([](const TapRange& r) { return r.first_o; }));
            count_.push_back(pick([](const TapRange& r) { return r.count; }));
            rows = times(rows, count_.back());
        }
        positions_ = let(times(rows, integer(row_pitch_)), "positions");
        const std::string begin = let(times(slice, integer(slice_)), "begin"),
                          end = let("min(" + begin + " + " + integer(slice_) + ", " + positions_ + ")", "end");
        lane_ = let("(int)threadIdx.x % 32", "lane"), warp_ = let("(int)threadIdx.x / 32", "warp");
        const std::string four = let(lane_ + " % 4", "t"), eight = let(lane_ + " / 4", "g");
        const int64_t warps_n = 8 / warps_m();
        const std::string warp_row = let("(" + warp_ + " / " + number(warps_n) + ") * 32", "warp_row");
        const std::string warp_column =
            let("(" + warp_ + " % " + number(warps_n) + ") * " + number(warp_columns()), "warp_column");
        const Operand x{x_, true, shape_[1], rows_, row_.advance(), row_tile, "x"},
            g{g_, false, shape_[2], columns_, row_.period(), column_tile, "g"};
        const Operand &turned = taps_.turns_x ? x : g, &still = taps_.turns_x ? g : x;
        const std::string least = of_bundle(bundle, [](const Bundle&b) { return b.least_turn; }),
                          turned_residue = of_bundle(bundle, [](const Bundle&b) { return b.turned_residue; });
        std::vector<std::string> residues, turned_by;
        for (size_t s = 0; s < taps_.planes(); ++s) {
            residues.push_back(of_bundle(bundle, [&](const Bundle& b) { return b.planes[s].residue; }));
            for (size_t r = 0; r < taps_.bundles[0].planes[s].turns.size(); ++r)
                turned_by.push_back(
                    of_bundle(bundle, [&](const Bundle& b) { return b.planes[s].turns[r].turn - b.least_turn; }));
        }
        body.line("float sums[" + number(turns) + "][2][" + number(fragments()) + "][4] = {};");
        body.line("float next_turned[" + number(turned.loads()) + "], next_still[" + number(planes) + "][" +
                  number(still.loads()) + "];");
        // Before the first step: what its turns see, but for the last chunk, which the loop's own first load brings.
        const int64_t ahead = (taps_.span + depth - 1) / depth;
        auto keep_turned = [&](const std::string& chunk) {
            body.line("for (int j = 0; j < " + number(turned.loads()) + "; ++j) turned[(" + warp_ + " + j * 8) * " +
                      number(ring_pitch) + " + (" + chunk + " & " + number(ring - 1) + ") + " + lane_ +
                      "] = " + staged("next_turned[j]") + ";");
        };
        for (int64_t c = 0; c < ahead; ++c) {
            emitter_->open("");
            load(turned, plus(plus(begin, number(c * depth)), least), turned_residue, "next_turned");
            keep_turned(number(c * depth));
            emitter_->close();
        }
        body.line("int stage = 0;");
        // Step -1 only loads: the loop body loads the next step's positions, multiplies this one's, and hands over.
        emitter_->open("for (int p = " + begin + " - " + number(depth) + "; p < " + end + "; p += " + number(depth) +
                       ")");
        const std::string from = let("p - " + begin, "from");
        load(turned, plus("p + " + number((ahead + 1) * depth), least), turned_residue, "next_turned");
        for (int64_t s = 0; s < planes; ++s)
            load(still, "p + " + number(depth), residues[static_cast<size_t>(s)], "next_still[" + number(s) + "]");
        emitter_->open("if (p >= " + begin + ")");
        body.line("const float* const here = still + stage * " + number(still_floats()) + ";");
        body.line("#pragma unroll");
        emitter_->open("for (int k = 0; k < " + number(depth) + "; k += 8)");
        const std::string column_of = four + " + k";
        int64_t turn = 0;
        for (int64_t s = 0; s < planes; ++s) {
            emitter_->open("");
            fragment(still, warp_row, warp_column, eight, [&](const std::string& row, const std::string& half) {
                return "here[" + plus(number(s * still_tile() * pitch), "(" + row + ") * " + number(pitch)) + " + " +
                       column_of + " + " + half + " * 4]";
            });
            for (size_t r = 0; r < taps_.bundles[0].planes[static_cast<size_t>(s)].turns.size(); ++r, ++turn) {
                emitter_->open("");
                const std::string& by = turned_by[static_cast<size_t>(turn)];
                body.line("const int at[2] = {(" + from + " + " + by + " + " + column_of + ") & " + number(ring - 1) +
                          ", (" + from + " + " + by + " + " + column_of + " + 4) & " + number(ring - 1) + "};");
                fragment(turned, warp_row, warp_column, eight, [&](const std::string& row, const std::string& half) {
                    return "turned[(" + row + ") * " + number(ring_pitch) + " + at[" + half + "]]";
                });
                multiply(turn);
                emitter_->close();
            }
            emitter_->close();
        }
        emitter_->close();
        emitter_->close();
        body.line("stage ^= 1;");
        keep_turned("(" + from + " + " + number((ahead + 1) * depth) + ")");
        body.line("for (int s = 0; s < " + number(planes) + "; ++s) for (int j = 0; j < " + number(still.loads()) +
                  "; ++j) still[stage * " + number(still_floats()) + " + (s * " + number(still_tile()) + " + " + warp_ +
                  " + j * 8) * " + number(pitch) + " + " + lane_ + "] = " + staged("next_still[s][j]") + ";");
        body.line("__syncthreads();");
        emitter_->close();
        store(bundle, slice, row_tile, column_tile, warp_row, warp_column, four, eight);
    }

    // This thread's part of an operand's tile, 8 positions deep: x is the left factor, g the right one.
    template <class At>
    void fragment(const Operand& operand, const std::string& warp_row, const std::string& warp_column,
                  const std::string& eight, At at) {
        if (operand.is_x) {
            body_->line("float a[2][4];");
            body_->line("for (int m = 0; m < 2; ++m) for (int i = 0; i < 4; ++i) a[m][i] = " +
                        at(warp_row + " + m * 16 + " + eight + " + (i % 2) * 8", "(i / 2)") + ";");
        } else {
            body_->line("float b[" + number(fragments()) + "][2];");
            body_->line("for (int n = 0; n < " + number(fragments()) + "; ++n) for (int i = 0; i < 2; ++i) b[n][i] = " +
                        at(warp_column + " + n * 8 + " + eight, "i") + ";");
        }
    }

    void multiply(int64_t turn) {
        const std::string each = "for (int m = 0; m < 2; ++m) for (int n = 0; n < " + number(fragments()) + "; ++n)";
        if (!strict()) {
            body_->line(each + " tf_product(sums[" + number(turn) + "][m][n], a[m], b[n]);");
            return;
        }
        body_->open(each);
        body_->line("float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};");
        body_->line("tf_product(part, a[m], b[n]);");
        body_->line("for (int c = 0; c < 4; ++c) sums[" + number(turn) + "][m][n][c] += part[c];");
        body_->close();
    }

    // The operand at position `at` + lane of its residue plane, all channels of the tile; zero between and behind rows.
    void load(const Operand& operand, const std::string& at, const std::string& residue, const std::string& into) {
        Body& body = *body_;
        body.line("for (int j = 0; j < " + number(operand.loads()) + "; ++j) " + into + "[j] = 0.0f;");
        emitter_->open("");
        const std::string position = let(plus(at, lane_), "position");
        emitter_->open("if (" + position + " >= 0 && " + position + " < " + positions_ + ")");
        std::string rest = let(parameters_->quotient(position, row_pitch_, true), "row");
        const size_t rank = outer_.size() + 3;
        Index index(rank);
        const std::string w =
            let(plus(times("(" + position + " - " + rest + " * " + integer(row_pitch_) + ")", number(operand.step)),
                     residue),
                "w");
        emitter_->open("if (" + w + " < " + integer(operand.is_x ? row_.in : row_.out) + ")");
        index[rank - 1] = {w};
        for (size_t i = outer_.size(); i-- > 0;) {
            const std::string q = let(rest + " / " + count_[i], "q"),
                              u = let(rest + " - " + q + " * " + count_[i], "u");
            index[i + 2] = {operand.is_x ? let(plus(first_i_[i], times(u, number(outer_[i].advance()))), "i")
                                         : let(plus(first_o_[i], times(u, number(outer_[i].period()))), "o")};
            rest = q;
        }
        index[0] = {rest};
        body.line("#pragma unroll");
        emitter_->open("for (int j = 0; j < " + number(operand.loads()) + "; ++j)");
        const std::string channel =
            let(plus(times(operand.channel_tile, number(operand.tile)), warp_) + " + j * 8", "channel");
        emitter_->open("if (" + channel + " < " + number(operand.channels) + ")");
        index[1] = {let(plus(times(group_, number(operand.channels)), channel), "c")};
        body.line(into + "[j] = (float)" + emitter_->value(operand.value, index).text[0] + ";");
        for (int open = 0; open < 5; ++open) emitter_->close();
    }

    // Into this slice's slot.
    void store(const std::string& bundle, const std::string& slice, const std::string& row_tile,
               const std::string& column_tile, const std::string& warp_row, const std::string& warp_column,
               const std::string& four, const std::string& eight) {
        Body& body = *body_;
        std::string outer_tap = "0";
        for (size_t i = 0; i < outer_.size(); ++i) outer_tap = plus(times(outer_tap, number(outer_[i].taps)), tap_[i]);
        const int64_t taps = outer_taps_ * row_.taps;
        const std::string pointer = parameters_->pointer(Argument::of_scratch(0), "float", false);
        const std::string base = emitter_->let(
            "long long",
            "(long long)" + slice + " * " + integer(numel(shape_)) + " + " +
                plus(times(group_, number(shape_[1] * shape_[2] * taps)), times(outer_tap, number(row_.taps))),
            "to");
        int64_t turn = 0;
        for (size_t s = 0; s < taps_.planes(); ++s)
            for (size_t r = 0; r < taps_.bundles[0].planes[s].turns.size(); ++r, ++turn) {
                const std::string tap = of_bundle(bundle, [&](const Bundle& b) { return b.planes[s].turns[r].tap; });
                body.open("for (int m = 0; m < 2; ++m) for (int n = 0; n < " + number(fragments()) +
                          "; ++n) for (int c = 0; c < 4; ++c)");
                body.line("const int row = " + plus(times(row_tile, number(rows_)), warp_row) + " + m * 16 + " + eight +
                          " + (c / 2) * 8;");
                body.line("const int column = " + plus(times(column_tile, number(columns_)), warp_column) +
                          " + n * 8 + 2 * " + four + " + c % 2;");
                body.line("if (" + tap + " >= 0 && row < " + number(shape_[1]) + " && column < " + number(shape_[2]) +
                          ") " + pointer + "[" + base + " + (row * " + number(shape_[2]) + " + column) * " +
                          number(taps) + " + " + tap + "] = sums[" + number(turn) + "][m][n][c];");
                body.close();
            }
    }

    const Surroundings& s_;
    const Graph& graph_;
    const Places& places_;
    const ValueId id_;
    ValueId x_ = -1, g_ = -1;
    Sizes shape_;
    std::vector<Lattice> outer_;  // all axes but the last, whose taps are other blocks' business
    Lattice row_;
    TapBundles taps_;
    std::vector<std::vector<TapRange>> ranges_;
    int64_t batch_ = 1, rows_of_image_ = 1, row_pitch_ = 1, rows_ = 64, columns_ = 64, row_tiles_ = 1,
            column_tiles_ = 1, outer_taps_ = 1, slice_ = depth, slices_ = 1;
    Body* body_ = nullptr;
    Emitter* emitter_ = nullptr;
    Parameters* parameters_ = nullptr;
    std::vector<std::string> tap_, first_i_, first_o_, count_;  // of the outer axes
    std::string group_, positions_, lane_, warp_;
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
