// One block makes the products of a channel tile of x with a channel tile of g for several taps of a row, over a slice
// of the pixels (correlate_shape.h). The turned operand lies in a ring, so that every turn of it is an address.
#include "cuda/correlate.h"

#include <algorithm>

#include "cuda/correlate_shape.h"
#include "cuda/kernel_text.h"
#include "cuda/product_code.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

constexpr int64_t depth = CorrelateShape::depth, pitch = CorrelateShape::pitch, ring = CorrelateShape::ring,
                  ring_pitch = CorrelateShape::ring_pitch;

// One of the two operands, as the tiles see it.
struct Operand {
    ValueId value = -1;
    bool is_x = true;
    int64_t channels = 0, tile = 0,
            step = 1;  // channels of a group, of a tile; distance of neighbours in a residue plane
    std::string channel_tile;
    int64_t loads() const { return tile / 8; }
};

class CorrelateWriter {
public:
    CorrelateWriter(const Surroundings& s, const Places& places, const CorrelateShape& shape)
        : shape_(shape),
          taps_(shape.taps),
          row_(shape.row),
          kernel_(s, places),
          body_(kernel_.body),
          emitter_(kernel_.emitter),
          parameters_(kernel_.parameters) {}

    Launch write() {
        write_body();
        const int64_t floats = shape_.shared_floats();
        Launch launch = kernel_.launch(
            "tf_correlate", shape_.blocks() * shape_.slices, CorrelateShape::threads,
            "weight gradient" + to_string(shape_.sizes) + ", tiles " + number(shape_.rows) + " x " +
                number(shape_.columns) + " x " + number(static_cast<int64_t>(taps_.turns())) + " taps, " +
                number(shape_.slices) + " slices" + (shape_.strict() ? ", 3 x TF32" : ", TF32"),
            product_code(shape_.strict()) +
                "\n#ifdef __CUDACC_RTC__\nextern __shared__ __align__(16) float tf_tiles[];\n#else\nstatic float "
                "tf_tiles[" +
                number(floats) + "];\n#endif\n");
        launch.shared_bytes = static_cast<uint32_t>(floats * 4);
        return launch;
    }

private:
    std::string staged(const std::string& value) const {
        return shape_.strict() ? value : "__uint_as_float(tf_tf32(" + value + "))";
    }
    std::string integer(int64_t value) { return parameters_.integer(value, true); }
    std::string let(const std::string& text, std::string_view prefix) { return emitter_.let("int", text, prefix); }
    int64_t planes() const { return static_cast<int64_t>(taps_.planes()); }
    // Each bundle's turns against its plane s.
    size_t turns_of(size_t s) const { return taps_.bundles[0].planes[s].turns.size(); }

    // A number of each bundle, as the block's own.
    template <class Of>
    std::string of_bundle(Of of) {
        std::vector<int64_t> values;
        for (const Bundle& each : taps_.bundles) values.push_back(of(each));
        if (std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; }))
            return number(values[0]);
        return let(emitter_.integer_table(values) + "[" + bundle_ + "]", "t_");
    }

    void write_body() {
        body_.line("TF_SEQUENCE();");
        body_.line("float* const turned = tf_tiles;");
        body_.line("float* const still = tf_tiles + " + number(shape_.turned_tile() * ring_pitch) + ";");
        take_block();
        take_thread();
        take_turns();
        body_.line("float sums[" + number(static_cast<int64_t>(taps_.turns())) + "][2][" + number(shape_.fragments()) +
                   "][4] = {};");
        body_.line("float next_turned[" + number(turned_.loads()) + "], next_still[" + number(planes()) + "][" +
                   number(still_.loads()) + "];");
        // Before the first step: what its turns see, but for the last chunk, which the loop's own first load brings.
        const int64_t ahead = (taps_.span + depth - 1) / depth;
        for (int64_t c = 0; c < ahead; ++c) {
            emitter_.open("");
            load(turned_, plus(plus(begin_, number(c * depth)), least_turn_), turned_residue_, "next_turned");
            keep_turned(number(c * depth));
            emitter_.close();
        }
        body_.line("int stage = 0;");
        write_steps(ahead);
        store();
    }

    // Which taps, channels and pixels are this block's.
    void take_block() {
        std::string rest = "(int)blockIdx.x";
        auto take = [&](int64_t extent, std::string_view prefix) {
            if (extent == 1) return std::string("0");
            const std::string q = let(parameters_.quotient(rest, extent, false), "q"),
                              r = let(parameters_.remainder(rest, q, extent, false), prefix);
            rest = q;
            return r;
        };
        // Taps of one slice side by side: they read the same pixels, which then are in the L2.
        bundle_ = take(static_cast<int64_t>(taps_.bundles.size()), "bundle");
        tap_.assign(shape_.outer.size(), "");
        for (size_t i = shape_.outer.size(); i-- > 0;) tap_[i] = take(shape_.outer[i].taps, "tap");
        const std::string column_tile = take(shape_.column_tiles, "columns"), row_tile = take(shape_.row_tiles, "rows");
        group_ = take(shape_.sizes[0], "group");
        slice_ = let(rest, "slice");
        std::string rows = integer(shape_.batch);
        for (size_t i = 0; i < shape_.outer.size(); ++i) {
            first_i_.push_back(of_tap(i, [](const TapRange& r) { return r.first_i; }));
            first_o_.push_back(of_tap(i, [](const TapRange& r) { return r.first_o; }));
            count_.push_back(of_tap(i, [](const TapRange& r) { return r.count; }));
            rows = times(rows, count_.back());
        }
        positions_ = let(times(rows, integer(shape_.row_pitch)), "positions");
        begin_ = let(times(slice_, integer(shape_.slice)), "begin");
        end_ = let("min(" + begin_ + " + " + integer(shape_.slice) + ", " + positions_ + ")", "end");
        const Operand x{shape_.x, true, shape_.sizes[1], shape_.rows, row_.advance(), row_tile},
            g{shape_.g, false, shape_.sizes[2], shape_.columns, row_.period(), column_tile};
        turned_ = taps_.turns_x ? x : g, still_ = taps_.turns_x ? g : x;
    }

    // A number of the block's tap along an outer axis.
    template <class Of>
    std::string of_tap(size_t axis, Of of) {
        const std::vector<TapRange>& ranges = shape_.ranges[axis];
        std::string text = integer(of(ranges[0]));
        for (size_t k = 1; k < ranges.size(); ++k) {
            const std::string other = integer(of(ranges[k]));
            if (other != text)
                text = "(" + tap_[axis] + " == " + number(static_cast<int64_t>(k)) + " ? " + other + " : " + text + ")";
        }
        return let(text, "n_");
    }

    void take_thread() {
        lane_ = let("(int)threadIdx.x % 32", "lane"), warp_ = let("(int)threadIdx.x / 32", "warp");
        four_ = let(lane_ + " % 4", "t"), eight_ = let(lane_ + " / 4", "g");
        const std::string warps_n = number(shape_.warps_n());
        warp_row_ = let("(" + warp_ + " / " + warps_n + ") * 32", "warp_row");
        warp_column_ = let("(" + warp_ + " % " + warps_n + ") * " + number(shape_.warp_columns()), "warp_column");
    }

    void take_turns() {
        least_turn_ = of_bundle([](const Bundle& b) { return b.least_turn; });
        turned_residue_ = of_bundle([](const Bundle& b) { return b.turned_residue; });
        for (size_t s = 0; s < taps_.planes(); ++s) {
            residues_.push_back(of_bundle([&](const Bundle& b) { return b.planes[s].residue; }));
            for (size_t r = 0; r < turns_of(s); ++r)
                turned_by_.push_back(
                    of_bundle([&](const Bundle& b) { return b.planes[s].turns[r].turn - b.least_turn; }));
        }
    }

    // Step -1 only loads: the loop body loads the next step's positions, multiplies this one's, and hands over.
    void write_steps(int64_t ahead) {
        emitter_.open("for (int p = " + begin_ + " - " + number(depth) + "; p < " + end_ + "; p += " + number(depth) +
                      ")");
        const std::string from = let("p - " + begin_, "from");
        load(turned_, plus("p + " + number((ahead + 1) * depth), least_turn_), turned_residue_, "next_turned");
        for (int64_t s = 0; s < planes(); ++s)
            load(still_, "p + " + number(depth), residues_[static_cast<size_t>(s)], "next_still[" + number(s) + "]");
        multiply_step(from);
        body_.line("stage ^= 1;");
        keep_turned("(" + from + " + " + number((ahead + 1) * depth) + ")");
        keep_still();
        body_.line("__syncthreads();");
        emitter_.close();
    }

    void multiply_step(const std::string& from) {
        emitter_.open("if (p >= " + begin_ + ")");
        body_.line("const float* const here = still + stage * " + number(shape_.still_floats()) + ";");
        body_.line("#pragma unroll");
        emitter_.open("for (int k = 0; k < " + number(depth) + "; k += 8)");
        const std::string column = four_ + " + k", mask = number(ring - 1);
        int64_t turn = 0;
        for (size_t s = 0; s < taps_.planes(); ++s) {
            emitter_.open("");
            const std::string plane = number(static_cast<int64_t>(s) * shape_.still_tile() * pitch);
            fragment(still_, [&](const std::string& row, const std::string& half) {
                return "here[" + plus(plane, "(" + row + ") * " + number(pitch)) + " + " + column + " + " + half +
                       " * 4]";
            });
            for (size_t r = 0; r < turns_of(s); ++r, ++turn) {
                emitter_.open("");
                const std::string at = from + " + " + turned_by_[static_cast<size_t>(turn)] + " + " + column;
                body_.line("const int at[2] = {(" + at + ") & " + mask + ", (" + at + " + 4) & " + mask + "};");
                fragment(turned_, [&](const std::string& row, const std::string& half) {
                    return "turned[(" + row + ") * " + number(ring_pitch) + " + at[" + half + "]]";
                });
                multiply(turn);
                emitter_.close();
            }
            emitter_.close();
        }
        emitter_.close();
        emitter_.close();
    }

    // This thread's part of an operand's tile, 8 positions deep: x is the left factor, g the right one.
    template <class At>
    void fragment(const Operand& operand, At at) {
        if (operand.is_x) {
            body_.line("float a[2][4];");
            body_.line("for (int m = 0; m < 2; ++m) for (int i = 0; i < 4; ++i) a[m][i] = " +
                       at(warp_row_ + " + m * 16 + " + eight_ + " + (i % 2) * 8", "(i / 2)") + ";");
        } else {
            const std::string count = number(shape_.fragments());
            body_.line("float b[" + count + "][2];");
            body_.line("for (int n = 0; n < " + count + "; ++n) for (int i = 0; i < 2; ++i) b[n][i] = " +
                       at(warp_column_ + " + n * 8 + " + eight_, "i") + ";");
        }
    }

    void multiply(int64_t turn) {
        const std::string each =
            "for (int m = 0; m < 2; ++m) for (int n = 0; n < " + number(shape_.fragments()) + "; ++n)";
        if (!shape_.strict()) {
            body_.line(each + " tf_product(sums[" + number(turn) + "][m][n], a[m], b[n]);");
            return;
        }
        body_.open(each);
        body_.line("float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};");
        body_.line("tf_product(part, a[m], b[n]);");
        body_.line("for (int c = 0; c < 4; ++c) sums[" + number(turn) + "][m][n][c] += part[c];");
        body_.close();
    }

    void keep_turned(const std::string& chunk) {
        body_.line("for (int j = 0; j < " + number(turned_.loads()) + "; ++j) turned[(" + warp_ + " + j * 8) * " +
                   number(ring_pitch) + " + (" + chunk + " & " + number(ring - 1) + ") + " + lane_ +
                   "] = " + staged("next_turned[j]") + ";");
    }

    void keep_still() {
        body_.line("for (int s = 0; s < " + number(planes()) + "; ++s) for (int j = 0; j < " + number(still_.loads()) +
                   "; ++j) still[stage * " + number(shape_.still_floats()) + " + (s * " + number(shape_.still_tile()) +
                   " + " + warp_ + " + j * 8) * " + number(pitch) + " + " + lane_ +
                   "] = " + staged("next_still[s][j]") + ";");
    }

    // The operand at position `at` + lane of its residue plane, all channels of the tile; zero between and behind rows.
    void load(const Operand& operand, const std::string& at, const std::string& residue, const std::string& into) {
        body_.line("for (int j = 0; j < " + number(operand.loads()) + "; ++j) " + into + "[j] = 0.0f;");
        emitter_.open("");
        const std::string position = let(plus(at, lane_), "position");
        emitter_.open("if (" + position + " >= 0 && " + position + " < " + positions_ + ")");
        std::string rest = let(parameters_.quotient(position, shape_.row_pitch, true), "row");
        const size_t rank = shape_.outer.size() + 3;
        Index index(rank);
        const std::string column = "(" + position + " - " + rest + " * " + integer(shape_.row_pitch) + ")";
        const std::string w = let(plus(times(column, number(operand.step)), residue), "w");
        emitter_.open("if (" + w + " < " + integer(operand.is_x ? row_.in : row_.out) + ")");
        index[rank - 1] = {w};
        for (size_t i = shape_.outer.size(); i-- > 0;) {
            const Lattice& axis = shape_.outer[i];
            const std::string q = let(rest + " / " + count_[i], "q"),
                              u = let(rest + " - " + q + " * " + count_[i], "u");
            index[i + 2] = {operand.is_x ? let(plus(first_i_[i], times(u, number(axis.advance()))), "i")
                                         : let(plus(first_o_[i], times(u, number(axis.period()))), "o")};
            rest = q;
        }
        index[0] = {rest};
        body_.line("#pragma unroll");
        emitter_.open("for (int j = 0; j < " + number(operand.loads()) + "; ++j)");
        const std::string channel =
            let(plus(times(operand.channel_tile, number(operand.tile)), warp_) + " + j * 8", "channel");
        emitter_.open("if (" + channel + " < " + number(operand.channels) + ")");
        index[1] = {let(plus(times(group_, number(operand.channels)), channel), "c")};
        body_.line(into + "[j] = (float)" + emitter_.value(operand.value, index).text[0] + ";");
        for (int open = 0; open < 5; ++open) emitter_.close();
    }

    // Into this slice's slot.
    void store() {
        const Sizes& sizes = shape_.sizes;
        std::string outer_tap = "0";
        for (size_t i = 0; i < shape_.outer.size(); ++i)
            outer_tap = plus(times(outer_tap, number(shape_.outer[i].taps)), tap_[i]);
        const int64_t taps = shape_.outer_taps * row_.taps;
        const std::string pointer = parameters_.pointer(Argument::of_scratch(0), "float", false);
        const std::string base = emitter_.let(
            "long long",
            "(long long)" + slice_ + " * " + integer(numel(sizes)) + " + " +
                plus(times(group_, number(sizes[1] * sizes[2] * taps)), times(outer_tap, number(row_.taps))),
            "to");
        const Operand &x = turned_.is_x ? turned_ : still_, &g = turned_.is_x ? still_ : turned_;
        const std::string first_row = plus(times(x.channel_tile, number(x.tile)), warp_row_),
                          first_column = plus(times(g.channel_tile, number(g.tile)), warp_column_);
        int64_t turn = 0;
        for (size_t s = 0; s < taps_.planes(); ++s)
            for (size_t r = 0; r < turns_of(s); ++r, ++turn) {
                const std::string tap = of_bundle([&](const Bundle& b) { return b.planes[s].turns[r].tap; });
                body_.open("for (int m = 0; m < 2; ++m) for (int n = 0; n < " + number(shape_.fragments()) +
                           "; ++n) for (int c = 0; c < 4; ++c)");
                body_.line("const int row = " + first_row + " + m * 16 + " + eight_ + " + (c / 2) * 8;");
                body_.line("const int column = " + first_column + " + n * 8 + 2 * " + four_ + " + c % 2;");
                body_.line("if (" + tap + " >= 0 && row < " + number(sizes[1]) + " && column < " + number(sizes[2]) +
                           ") " + pointer + "[" + base + " + (row * " + number(sizes[2]) + " + column) * " +
                           number(taps) + " + " + tap + "] = sums[" + number(turn) + "][m][n][c];");
                body_.close();
            }
    }

    const CorrelateShape& shape_;
    const TapBundles& taps_;
    const Lattice& row_;
    KernelText kernel_;
    Body& body_;
    Emitter& emitter_;
    Parameters& parameters_;
    Operand turned_, still_;
    // Texts: of the block,
    std::string bundle_, group_, slice_, positions_, begin_, end_, least_turn_, turned_residue_;
    std::vector<std::string> tap_, first_i_, first_o_, count_;  // along the outer axes
    std::vector<std::string> residues_, turned_by_;             // of each still plane; of each turn against one
    // of the thread.
    std::string lane_, warp_, four_, eight_, warp_row_, warp_column_;
};

Place slots(const CorrelateShape& shape) {
    Place place;
    place.base = Argument::of_scratch(0);
    place.storage = DType::f32;
    place.strides = contiguous_strides(shape.sizes);
    place.aligned = true;
    place.read_only = false;
    place.partials = Partials{shape.slices, numel(shape.sizes), 1, false};
    return place;
}

}  // namespace

std::optional<GridProgram> generate_correlate(const Surroundings& surroundings, const Places& places,
                                              std::string* why_not) {
    const ValueId anchor = surroundings.pass.anchor;
    if (anchor < 0 || surroundings.plan.graph[anchor].op != Op::correlate) {
        if (why_not) *why_not = "no correlate";
        return std::nullopt;
    }
    CorrelateShape shape(surroundings, anchor);
    if (!shape.arrange(why_not)) return std::nullopt;
    GridProgram result;
    result.program.launches.push_back(CorrelateWriter(surroundings, places, shape).write());
    result.program.scratch_bytes = static_cast<size_t>(shape.slices * numel(shape.sizes) * 4);
    result.program.note = result.program.launches[0].note;
    result.grid.emplace(anchor, slots(shape));
    return result;
}

}  // namespace transfuse::cuda
