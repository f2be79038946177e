// A thread has one input channel, one output channel and a sum for every tap. It goes through small tiles of g, loads
// the rows of x they meet (grouped_window.h), and adds every product to its tap's sum. A block keeps to one class of
// runs along every axis but the last; its threads' sums are joined in fp64, in a fixed order, and left in its slice's
// slot.
#include "cuda/plain/grouped/grouped_gradient.h"

#include <algorithm>

#include "algebra/lattice/integer.h"
#include "cuda/general/kernel_text.h"
#include "cuda/plain/figures.h"
#include "cuda/plain/grouped/grouped_window.h"

namespace transfuse::cuda {

using namespace figures::grouped_gradient;

namespace {

constexpr int64_t threads = 256, warp = 32;

class GradientWriter {
public:
    GradientWriter(const Surroundings& s, const Places& places)
        : s_(s),
          graph_(s.plan.graph),
          id_(s.pass.anchor),
          x_(graph_[id_].args[0]),
          g_(graph_[id_].args[1]),
          shape_(graph_[id_].type.shape),
          axes_(lattices(graph_, id_)),
          type_(real_name(real_of(graph_[id_].type.dtype))),
          kernel_(s, places),
          body_(kernel_.body),
          emitter_(kernel_.emitter) {}

    bool arrange() {
        const Sizes &in = graph_[x_].type.shape, &out = graph_[g_].type.shape;
        if (shape_[0] == 1 || shape_[1] * shape_[2] >= 16) return false;
        if (numel(in) == 0 || numel(out) == 0 || std::max(numel(in), numel(out)) >= int64_t{1} << 30) return false;
        const size_t rank = axes_.size();
        int64_t products = 1;
        for (size_t a = 0; a < rank; ++a) {
            const int64_t period = axes_[a].period();
            int64_t run = 1;
            if (a + 1 == rank) run = period * ceil_div(4, period);
            if (a + 2 == rank) run = period == 1 ? 2 : period <= 4 ? period : 1;
            if (run > 8) return false;
            windows_.emplace_back(axes_[a], run);
            const RunWindow& window = windows_.back();
            for (int64_t k = 0; k < axes_[a].taps; ++k) {
                const std::vector<int64_t> staged = window.staged();
                if (std::find(staged.begin(), staged.end(), k) == staged.end())
                    return false;  // a tap that meets nothing
            }
            int64_t met = 0;
            for (int64_t s = 0; s < window.inputs(); ++s)
                for (int64_t v = 0; v < run; ++v) met += window.meets(s, v);
            products *= met;
            entries_ *= entries(a);
            classes_ *= window.classes();
            tiles_ *= ceil_div(ceil_div(out[a + 2], run), window.classes());
        }
        if (entries_ > most_sums || products > most_products || !windows_.back().fixed()) return false;
        tiles_ *= out[0];
        pairs_ = shape_[0] * shape_[1] * shape_[2];
        // Where channels lie together, neighbouring threads take neighbouring pairs of channels; else neighbouring
        // tiles.
        const Sizes& strides = s_.strides[static_cast<size_t>(view_root(s_.plan, g_))];
        const bool together = strides.size() == out.size() && strides[1] == 1 && strides.back() != 1;
        units_ = together ? warp : 1;
        const int64_t rounds = ceil_div(tiles_, threads / units_), blocks = ceil_div(pairs_, units_) * classes_;
        slices_ = std::clamp<int64_t>(ceil_div(8 * s_.target.multiprocessors, blocks), 1, rounds);
        return true;
    }

    FamilyProgram write() {
        write_body();
        FamilyProgram result;
        result.program.launches.push_back(
            kernel_.launch("tf_grouped_gradient", ceil_div(pairs_, units_) * classes_ * slices_, threads,
                           "weight gradient of groups" + to_string(shape_) + ", " + number(entries_) +
                               " taps a thread, " + number(slices_) + " slices"));
        Place place;
        place.base = Argument::of_scratch(0);
        place.storage = DType::f64;
        place.strides = contiguous_strides(shape_);
        place.aligned = true, place.read_only = false;
        place.partials = Partials{slices_, numel(shape_), 1, false};
        result.places.emplace(id_, place);
        result.program.scratch_bytes = static_cast<size_t>(slices_ * numel(shape_) * 8);
        result.program.note = result.program.launches[0].note;
        return result;
    }

private:
    std::string integer(int64_t value) { return kernel_.integer(value); }
    std::string let(const std::string& text, std::string_view prefix) { return kernel_.let(text, prefix); }
    // Sums along an axis: its taps, or where a block has one class those that class meets.
    int64_t entries(size_t axis) const {
        return windows_[axis].fixed() ? axes_[axis].taps : windows_[axis].class_entries();
    }

    void write_body() {
        body_.line("TF_SEQUENCE();");
        std::string rest = let("(int)blockIdx.x / " + integer(slices_), "rest");
        const std::string slice = let("(int)blockIdx.x - " + times(rest, integer(slices_)), "slice");
        auto take = [&](int64_t count, std::string_view prefix) {
            if (count == 1) return std::string("0");
            const std::string taken = let(rest + " % " + number(count), prefix);
            rest = let(rest + " / " + number(count), "rest");
            return taken;
        };
        for (const RunWindow& window : windows_) class_.push_back(take(window.classes(), "of_class"));
        const std::string own = units_ == 1 ? "0" : let("(int)threadIdx.x % " + number(units_), "own");
        const std::string place =
            units_ == 1 ? "(int)threadIdx.x" : let("(int)threadIdx.x / " + number(units_), "place");
        const std::string pair = let(plus(times(rest, number(units_)), own), "pair");
        const std::string group = let(pair + " / " + number(shape_[1] * shape_[2]), "group");
        input_channel_ = let(plus(times(group, number(shape_[1])),
                                  "(" + pair + " / " + number(shape_[2]) + " % " + number(shape_[1]) + ")"),
                             "channel");
        output_channel_ =
            let(plus(times(group, number(shape_[2])), "(" + pair + " % " + number(shape_[2]) + ")"), "channel");
        body_.line(type_ + " sums[" + number(entries_) + "] = {};");
        std::string inside = "t < " + kernel_.parameters.count(tiles_);
        if (pairs_ % units_) inside += " && " + pair + " < " + number(pairs_);
        const std::string per = number(threads / units_);
        emitter_.open("for (int t = " + slice + " * " + per + " + " + place + "; " + inside +
                      "; t += " + integer(slices_) + " * " + per + ")");
        find_tile();
        load_gradients();
        std::vector<int64_t> met(axes_.size(), 0);
        rows(0, met);
        emitter_.close();
        join(slice, pair);
    }

    void find_tile() {
        const size_t rank = axes_.size();
        input_.assign(rank, {}), output_.assign(rank, {});
        std::string rest = "t";
        for (size_t a = rank; a-- > 0;) {
            const RunWindow& window = windows_[a];
            const int64_t extent = ceil_div(ceil_div(axes_[a].out, window.run()), window.classes());
            const std::string quotient = let(kernel_.parameters.quotient(rest, extent, true), "q");
            std::string q = let(kernel_.parameters.remainder(rest, quotient, extent, true), "q");
            rest = quotient;
            if (!window.fixed()) q = let(plus(times(q, number(window.classes())), class_[a]), "q");
            const std::string first = let(times(q, number(window.run())), "o"), begin = let(window.first_input(q), "i");
            for (int64_t v = 0; v < window.run(); ++v)
                output_[a].push_back(inside_of(plus(first, number(v)), axes_[a].out, "o"));
            for (int64_t s = 0; s < window.inputs(); ++s)
                input_[a].push_back(window.meets(s) ? inside_of(plus(begin, number(s)), axes_[a].in, "i") : Position{});
        }
        image_ = rest;
    }

    struct Position {
        std::string index, inside;
    };
    Position inside_of(const std::string& text, int64_t extent, std::string_view prefix) {
        Position position{let(text, prefix), ""};
        position.inside = emitter_.let("bool", "(unsigned)" + position.index + " < (unsigned)" + integer(extent), "in");
        return position;
    }

    // All of the tile; what lies outside counts as zero.
    void load_gradients() {
        int64_t outer = 1;
        for (size_t a = 0; a + 1 < axes_.size(); ++a) outer *= windows_[a].run();
        body_.line(type_ + " g[" + number(outer) + "][" + number(windows_.back().run()) + "];");
        for (int64_t p = 0; p < outer; ++p)
            for (int64_t v = 0; v < windows_.back().run(); ++v) {
                int64_t rest = p;
                Index at = {{image_}, {output_channel_}};
                at.resize(axes_.size() + 2);
                at.back() = {output_.back()[static_cast<size_t>(v)].index};
                std::string inside = output_.back()[static_cast<size_t>(v)].inside;
                for (size_t a = axes_.size() - 1; a-- > 0;) {
                    const Position& position = output_[a][static_cast<size_t>(rest % windows_[a].run())];
                    rest /= windows_[a].run();
                    at[a + 2] = {position.index};
                    inside += " && " + position.inside;
                }
                load("g[" + number(p) + "][" + number(v) + "]", g_, at, inside);
            }
    }

    void load(const std::string& to, ValueId value, const Index& at, const std::string& inside) {
        body_.line(to + " = 0;");
        emitter_.open("if (" + inside + ")");
        body_.line(to + " = (" + type_ + ")" + emitter_.value(value, at)[0] + ";");
        emitter_.close();
    }

    // Every row of x: one choice of an input along all axes but the last.
    void rows(size_t axis, std::vector<int64_t>& met) {
        const RunWindow& window = windows_[axis];
        if (axis + 1 < axes_.size()) {
            for (met[axis] = 0; met[axis] < window.inputs(); ++met[axis])
                if (window.meets(met[axis])) rows(axis + 1, met);
            return;
        }
        emitter_.open("");
        Index row = {{image_}, {input_channel_}};
        std::string inside;
        for (size_t a = 0; a < axis; ++a) {
            const Position& position = input_[a][static_cast<size_t>(met[a])];
            row.push_back({position.index});
            inside += position.inside + " && ";
        }
        body_.line(type_ + " x[" + number(window.inputs()) + "];");
        for (int64_t s = 0; s < window.inputs(); ++s) {
            if (!window.meets(s)) continue;
            const Position& position = input_.back()[static_cast<size_t>(s)];
            Index at = row;
            at.push_back({position.index});
            load("x[" + number(s) + "]", x_, at, inside + position.inside);
        }
        add_row(met);
        emitter_.close();
    }

    void add_row(const std::vector<int64_t>& met) {
        const size_t last = axes_.size() - 1;
        const RunWindow& along = windows_[last];
        int64_t outer = 1;
        for (size_t a = 0; a < last; ++a) outer *= windows_[a].run();
        for (int64_t p = 0; p < outer; ++p) {
            int64_t rest = p, entry = 0, stride = entries(last);
            bool meets = true;
            for (size_t a = last; a-- > 0;) {
                const int64_t v = rest % windows_[a].run();
                rest /= windows_[a].run();
                meets = meets && windows_[a].meets(met[a], v);
                entry += windows_[a].entry(met[a], v) * stride;
                stride *= entries(a);
            }
            if (!meets) continue;
            for (int64_t s = 0; s < along.inputs(); ++s)
                for (int64_t v = 0; v < along.run(); ++v)
                    if (along.meets(s, v))
                        body_.line("sums[" + number(entry + along.entry(s, v)) + "] += x[" + number(s) + "] * g[" +
                                   number(p) + "][" + number(v) + "];");
        }
    }

    // Sums of the block's threads: first those of a warp that has one pair of channels, then of all warps.
    void join(const std::string& slice, const std::string& pair) {
        constexpr int64_t warps = threads / warp;
        const bool one = units_ == 1;
        body_.line("__shared__ double tf_parts[" + number(warps) + "][" + number(one ? entries_ : warp) + "];");
        if (one) {
            body_.line("#pragma unroll");
            body_.open("for (int e = 0; e < " + number(entries_) + "; ++e)");
            body_.line("double sum = (double)sums[e];");
            body_.line("for (int k = 16; k > 0; k /= 2) sum += __shfl_down_sync(0xffffffffu, sum, k);");
            body_.line("if (threadIdx.x % 32 == 0) tf_parts[threadIdx.x / 32][e] = sum;");
            body_.close();
            body_.line("__syncthreads();");
            emitter_.open("for (int e = (int)threadIdx.x; e < " + number(entries_) + "; e += " + number(threads) + ")");
        } else {
            body_.line("#pragma unroll");
            emitter_.open("for (int e = 0; e < " + number(entries_) + "; ++e)");
            body_.line("__syncthreads();");
            body_.line("tf_parts[threadIdx.x / 32][threadIdx.x % 32] = (double)sums[e];");
            body_.line("__syncthreads();");
        }
        const std::string column = one ? "e" : "threadIdx.x % 32";
        std::string inside = pair + " < " + number(pairs_) + (one ? "" : " && threadIdx.x < 32");
        const std::string at = place_of("e", inside);
        emitter_.open("if (" + inside + ")");
        body_.line("double sum = tf_parts[0][" + column + "];");
        body_.line("for (int k = 1; k < " + number(warps) + "; ++k) sum += tf_parts[k][" + column + "];");
        int64_t taps = 1;
        for (const Lattice& axis : axes_) taps *= axis.taps;
        const std::string pointer = kernel_.parameters.pointer(Argument::of_scratch(0), "double", false);
        body_.line(pointer + "[(long long)" + slice + " * " + number(numel(shape_)) + " + " +
                   plus(times(pair, number(taps)), at) + "] = sum;");
        emitter_.close();
        emitter_.close();
    }

    // The tap of an entry, and whether it has one.
    std::string place_of(const std::string& entry, std::string& inside) {
        std::string rest = entry, place = "0";
        int64_t stride = 1;
        for (size_t a = axes_.size(); a-- > 0;) {
            std::string k = let(rest + " % " + number(entries(a)), "k");
            rest = let(rest + " / " + number(entries(a)), "k");
            if (!windows_[a].fixed()) {
                k = let(emitter_.integer_table(windows_[a].staged()) + "[" +
                            plus(k, times(class_[a], number(windows_[a].class_entries()))) + "]",
                        "tap");
                inside += " && " + k + " >= 0";
            }
            place = plus(place, times(k, number(stride)));
            stride *= axes_[a].taps;
        }
        return place;
    }

    const Surroundings& s_;
    const Graph& graph_;
    const ValueId id_, x_, g_;
    const Sizes& shape_;
    const Lattices axes_;
    const std::string type_;
    KernelText kernel_;
    Body& body_;
    Emitter& emitter_;
    std::vector<RunWindow> windows_;
    int64_t entries_ = 1, classes_ = 1, tiles_ = 1, pairs_ = 1, units_ = 1, slices_ = 1;
    std::vector<std::string> class_;
    std::vector<std::vector<Position>> input_, output_;  // [axis][of the run]
    std::string image_, input_channel_, output_channel_;
};

}  // namespace

std::optional<Offer> offer_grouped_gradient(const Surroundings& surroundings, const Places& places) {
    const ValueId anchor = surroundings.pass.anchor;
    if (anchor < 0 || surroundings.plan.graph[anchor].op != Op::correlate) return std::nullopt;
    const auto writer = std::make_shared<GradientWriter>(surroundings, places);
    if (!writer->arrange()) return std::nullopt;
    return Offer{.write = [writer] { return writer->write(); }};
}

}  // namespace transfuse::cuda
