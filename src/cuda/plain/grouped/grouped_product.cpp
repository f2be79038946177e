#include "cuda/plain/grouped/grouped_product.h"

#include <algorithm>

namespace transfuse::cuda {

GroupedProduct::GroupedProduct(const Graph& graph, ValueId anchor, const GroupedShape& shape, KernelText& kernel)
    : graph_(graph),
      anchor_(anchor),
      shape_(shape),
      real_(real_of(graph[anchor].type.dtype)),
      type_(real_name(real_)),
      kernel_(kernel),
      body_(kernel.body),
      emitter_(kernel.emitter) {}

void GroupedProduct::begin() {
    std::string rest = let("(int)blockIdx.x / " + integer(shape_.slices), "plane");
    slice_ = let("(int)blockIdx.x - " + times(rest, integer(shape_.slices)), "slice");
    auto take = [&](int64_t count, std::string_view prefix) {
        if (count == 1) return std::string("0");
        const std::string taken = let(rest + " % " + number(count), prefix);
        rest = let(rest + " / " + number(count), "plane");
        return taken;
    };
    class_.assign(shape_.axes.size(), "0");
    std::string classes = "0";
    for (size_t a = 0; a + 1 < shape_.axes.size(); ++a) {
        class_[a] = take(shape_.windows[a].classes(), "of_class");
        classes = plus(times(classes, number(shape_.windows[a].classes())), class_[a]);
    }
    slot_ = plus(times(classes, integer(shape_.slices)), slice_);
    first_ = let(times(take(shape_.unit_blocks(), "units"), number(shape_.block_channels())), "first");
    image_ = rest;
    stage();
}

void GroupedProduct::take_channels(const std::string& own) {
    own_ = own;
    channel_ = let(plus(first_, own_), "channel");
}

// [channel][input channel][entry], or where lanes are channels [input channel][entry][channel].
void GroupedProduct::stage() {
    const int64_t total = shape_.block_channels() * shape_.cin * shape_.entries();
    emitter_.open("for (int i = (int)threadIdx.x; i < " + number(total) + "; i += " + number(shape_.threads()) + ")");
    std::string rest = "i", channel;
    auto take = [&](int64_t count) {
        const std::string taken = count == 1 ? "0" : let(rest + " % " + number(count), "k");
        if (count > 1) rest = let(rest + " / " + number(count), "k");
        return taken;
    };
    if (shape_.by_channel) channel = take(shape_.block_channels());
    Index index(shape_.axes.size() + 3, Coordinate{"0"});
    std::string inside;
    for (size_t a = shape_.axes.size(); a-- > 0;) {
        const RunWindow& window = shape_.windows[a];
        std::string k = take(shape_.staged(a));
        if (!window.fixed()) {
            k = let(emitter_.integer_table(window.staged()) + "[" +
                        plus(k, times(class_[a], number(window.class_entries()))) + "]",
                    "tap");
            inside += k + " >= 0 && ";
        }
        index[a + 3] = {k};
    }
    index[1] = {take(shape_.cin)};
    if (!shape_.by_channel) channel = rest;
    channel = let(plus(first_, channel), "c");
    index[0] = {shape_.cout == 1 ? channel : let(channel + " / " + number(shape_.cout), "g")};
    index[2] = {shape_.cout == 1 ? "0" : let(channel + " % " + number(shape_.cout), "j")};
    body_.line(type_ + " weight = 0;");
    emitter_.open("if (" + inside + channel + " < " + number(shape_.channels()) + ")");
    body_.line("weight = (" + type_ + ")" + emitter_.value(shape_.w, index)[0] + ";");
    emitter_.close();
    body_.line("tf_weights[i] = weight;");
    emitter_.close();
    body_.line("__syncthreads();");
}

void GroupedProduct::find_runs() {
    const size_t rank = shape_.axes.size();
    const Sizes& out = graph_[anchor_].type.shape;
    first_output_.assign(rank, ""), inside_.assign(rank, {}), input_.assign(rank, {});
    std::string rest = "t", last;
    for (size_t a = rank; a-- > 0;) {
        const RunWindow& window = shape_.windows[a];
        std::string q = rest;
        const int64_t together = a + 1 < rank ? window.run() * window.classes() : window.run();
        if (a > 0) {
            const int64_t extent = (out[a + 2] + together - 1) / together;
            const std::string quotient = let(kernel_.parameters.quotient(rest, extent, true), "q");
            q = let(kernel_.parameters.remainder(rest, quotient, extent, true), "q");
            rest = quotient;
        }
        if (together != window.run()) q = let(plus(times(q, number(window.classes())), class_[a]), "q");
        first_output_[a] = let(times(q, number(window.run())), "o");
        if (a + 1 == rank) last = q;
        const std::string begin = let(window.first_input(q), "i");
        for (int64_t s = 0; s < window.inputs(); ++s) {
            const bool met = window.meets(s);
            input_[a].push_back(met ? let(plus(begin, number(s)), "i") : "");
            inside_[a].push_back(
                met ? emitter_.let("bool",
                                   "(unsigned)" + input_[a].back() + " < (unsigned)" + integer(shape_.axes[a].in), "in")
                    : "");
        }
    }
    const RunWindow& along = shape_.windows.back();
    const std::string of_class = times(along.class_of(last), number(along.class_entries()));
    weights_ = shape_.by_channel ? plus(own_, times(of_class, number(shape_.block_channels())))
                                 : plus(times(own_, number(shape_.cin * shape_.entries())), of_class);
    weights_ = let(weights_, "weights");
}

void GroupedProduct::declare_sums(int64_t count) {
    const std::string columns = number(count), positions = number(shape_.positions()), lanes = number(shape_.lanes);
    body_.line(type_ + " sums[" + columns + "][" + positions + "][" + lanes + "];");
    body_.line("_Pragma(\"unroll\") for (int c = 0; c < " + columns +
               "; ++c) _Pragma(\"unroll\") for (int p = 0; p < " + positions +
               "; ++p) _Pragma(\"unroll\") for (int v = 0; v < " + lanes + "; ++v) sums[c][p][v] = 0;");
}

void GroupedProduct::multiply() {
    const int64_t sets = shape_.columns() / shared_columns();
    if (sets > 1) body_.line("#pragma unroll");
    emitter_.open(sets > 1 ? "for (int set = 0; set < " + number(sets) + "; ++set)" : "");
    const std::string set = sets > 1 ? "set" : "0";
    if (shape_.ragged()) emitter_.open("if (" + channel_of(set) + " < " + number(shape_.channels()) + ")");
    multiply_set(set, times(set, number(shared_columns())));
    if (shape_.ragged()) emitter_.close();
    emitter_.close();
}

void GroupedProduct::multiply_set(const std::string& set, const std::string& column) {
    if (shape_.cin > 1) body_.line("#pragma unroll 1");
    if (shape_.cin > 1) emitter_.open("for (int ci = 0; ci < " + number(shape_.cin) + "; ++ci)");
    const std::string ci = shape_.cin > 1 ? "ci" : "0", first = channel_of(times(set, number(shared_columns())));
    const std::string group = shape_.cout == 1 ? first : "(" + first + " / " + number(shape_.cout) + ")";
    const Index at = {
        {image_}, {let(plus(times(group, number(shape_.cin)), ci), "channel"), shape_.by_channel && shape_.lanes > 1}};
    const std::string weights = shape_.by_channel ? plus(times(set, number(shape_.column_step())),
                                                         times(ci, number(shape_.entries() * shape_.block_channels())))
                                                  : times(plus(times(set, number(shared_columns() * shape_.cin)), ci),
                                                          number(shape_.entries()));
    std::vector<int64_t> met(shape_.axes.size(), 0);
    rows(0, met, at, let(plus(weights_, weights), "w"), column);
    if (shape_.cin > 1) emitter_.close();
}

// Every row of inputs: one choice of an input along all axes but the last.
void GroupedProduct::rows(size_t axis, std::vector<int64_t>& met, const Index& at, const std::string& weights,
                          const std::string& first) {
    if (axis + 1 < shape_.axes.size()) {
        for (met[axis] = 0; met[axis] < shape_.windows[axis].inputs(); ++met[axis])
            if (shape_.windows[axis].meets(met[axis])) rows(axis + 1, met, at, weights, first);
        return;
    }
    emitter_.open("");
    std::string inside;
    Index row = at;
    for (size_t a = 0; a + 1 < shape_.axes.size(); ++a) {
        const auto s = static_cast<size_t>(met[a]);
        inside += (a ? " && " : "") + inside_[a][s];
        row.push_back({input_[a][s]});
    }
    if (!inside.empty()) inside = emitter_.let("bool", inside, "in") + " && ";
    load_row(row, inside);
    add_row(met, weights, first);
    emitter_.close();
}

void GroupedProduct::load_row(const Index& row, const std::string& inside) {
    const RunWindow& window = shape_.windows.back();
    const int64_t lanes = shape_.lanes, wide = shape_.by_channel ? lanes : 1;
    body_.line(type_ + " x[" + number(window.inputs()) + "][" + number(wide) + "];");
    for (int64_t s = 0; s < window.inputs(); ++s) {
        const bool vector =
            shape_.vector_inputs && s + lanes <= window.inputs() && window.aligned(s, lanes) && window.meets(s);
        if (!window.meets(s)) continue;
        const auto at = static_cast<size_t>(s);
        const int64_t count = vector ? lanes : wide;
        auto element = [&](int64_t i) {
            return vector ? "x[" + number(s + i) + "][0]" : "x[" + number(s) + "][" + number(i) + "]";
        };
        for (int64_t i = 0; i < count; ++i) body_.line(element(i) + " = 0;");
        emitter_.open("if (" + inside + inside_.back()[at] + ")");
        Index here = row;
        here.push_back({input_.back()[at], vector});
        const Lanes loaded = emitter_.value(shape_.x, here);
        for (int64_t i = 0; i < count; ++i)
            body_.line(element(i) + " = (" + type_ + ")" + loaded[static_cast<size_t>(i)] + ";");
        emitter_.close();
        if (vector) s += lanes - 1;
    }
}

// The row's products, for all outputs of the tile that meet it.
void GroupedProduct::add_row(const std::vector<int64_t>& met, const std::string& weights, const std::string& first) {
    const size_t outer = shape_.axes.size() - 1;
    const RunWindow& along = shape_.windows.back();
    const int64_t length = shape_.staged(outer);
    const int64_t together = shared_columns();
    if (together > 1) body_.line("#pragma unroll");
    if (together > 1) body_.open("for (int j = 0; j < " + number(together) + "; ++j)");
    const std::string column = together > 1 ? plus(first, "j") : first;
    const std::string from = together > 1 ? plus(weights, times("j", number(shape_.cin * shape_.entries()))) : weights;
    int64_t positions = 1;
    for (size_t a = 0; a < outer; ++a) positions *= shape_.windows[a].run();
    for (int64_t p = 0; p < positions; ++p) {
        int64_t rest = p, entry = 0, stride = length;
        bool meets = true;
        for (size_t a = outer; a-- > 0;) {
            const RunWindow& window = shape_.windows[a];
            const int64_t v = rest % window.run();
            rest /= window.run();
            meets = meets && window.meets(met[a], v);
            entry += window.entry(met[a], v) * stride;
            stride *= shape_.staged(a);
        }
        if (!meets) continue;
        for (int64_t s = 0; s < along.inputs(); ++s) {
            if (shape_.by_channel)
                add_channels(s, column, p, entry, from);
            else
                add_outputs(s, column, p, entry, from);
        }
    }
    if (together > 1) body_.close();
}

void GroupedProduct::add_outputs(int64_t s, const std::string& column, int64_t p, int64_t entry,
                                 const std::string& from) {
    const RunWindow& along = shape_.windows.back();
    const std::string sum = "sums[" + column + "][" + number(p) + "]", x = " * x[" + number(s) + "][0];";
    if (!along.meets(s)) return;
    const bool vector = !along.fixed() && shape_.lanes * (real_ == Real::f64 ? 8 : 4) <= 16;
    if (vector) {
        const std::string pack = "tf_vector<" + type_ + ", " + number(shape_.lanes) + ">";
        body_.line("{ const " + pack + " w = *(const " + pack + "*)(tf_weights + " +
                   plus(from, number(entry + along.entry(s, 0))) + ");");
    }
    for (int64_t v = 0; v < along.run(); ++v)
        if (along.meets(s, v))
            body_.line("  " + sum + "[" + number(v) + "] += " +
                       (vector ? "w.lane[" + number(v) + "]"
                               : "tf_weights[" + plus(from, number(entry + along.entry(s, v))) + "]") +
                       x);
    if (vector) body_.line("}");
}

void GroupedProduct::add_channels(int64_t s, const std::string& column, int64_t p, int64_t entry,
                                  const std::string& from) {
    const RunWindow& along = shape_.windows.back();
    const int64_t chunk = std::min<int64_t>(shape_.lanes, real_ == Real::f64 ? 2 : 4);
    const std::string pack = "tf_vector<" + type_ + ", " + number(chunk) + ">";
    for (int64_t v = 0; v < along.run(); ++v) {
        if (!along.meets(s, v)) continue;
        const std::string sum = "sums[" + column + "][" + number(p * along.run() + v) + "]";
        for (int64_t lane = 0; lane < shape_.lanes; lane += chunk) {
            body_.line("{ const " + pack + " w = *(const " + pack + "*)(tf_weights + " +
                       plus(from, number((entry + along.entry(s, v)) * shape_.block_channels() + lane)) + ");");
            for (int64_t i = 0; i < chunk; ++i)
                body_.line("  " + sum + "[" + number(lane + i) + "] += w.lane[" + number(i) + "] * x[" + number(s) +
                           "][" + number(lane + i) + "];");
            body_.line("}");
        }
    }
}

}  // namespace transfuse::cuda
