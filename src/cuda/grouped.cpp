// A thread makes a small tile of outputs of one unit of channels: it goes through the input rows the tile meets, holds a
// row in registers and adds its products to every sum that wants them. Weights lie in shared memory, staged once a block,
// as the runs of outputs along each axis want them (grouped_window.h). The chain is pulled from the sums in registers;
// reductions over channels are loops over the sums of a thread that holds all channels. Reductions over space are
// collected over all tiles of a thread and leave a slot for each block.
#include "cuda/grouped.h"

#include <algorithm>
#include <unordered_map>

#include "cuda/grouped_shape.h"
#include "cuda/grouped_sums.h"
#include "cuda/kernel_text.h"

namespace transfuse::cuda {

namespace {

class GroupedWriter {
public:
    GroupedWriter(const Surroundings& s, const Places& places, const std::vector<Sink>& sinks, const GroupedShape& shape)
        : s_(s),
          graph_(s.plan.graph),
          sinks_(sinks),
          shape_(shape),
          anchor_(s.pass.anchor),
          real_(real_of(graph_[anchor_].type.dtype)),
          type_(real_name(real_)),
          kernel_(s, places, static_cast<int>(shape.lanes)),
          body_(kernel_.body),
          emitter_(kernel_.emitter) {}

    GridProgram write() {
        GridProgram result;
        GroupedSums sums(graph_, anchor_, shape_, kernel_);
        int64_t scratch = 0;
        result.grid = sums.place(scratch);
        write_body(sums);
        const Sizes& out = graph_[anchor_].type.shape;
        std::string runs;
        for (const RunWindow& window : shape_.windows) runs += (runs.empty() ? "" : "x") + number(window.run());
        Launch launch = kernel_.launch("tf_grouped", out[0] * shape_.unit_blocks() * shape_.slices, shape_.threads(),
                                       "grouped product" + to_string(out) + ", " + runs + " outputs of " + number(shape_.unit_channels) +
                                           " channels a thread" + (shape_.by_channel ? ", channels together" : ""));
        // What follows is of rounded sums: two instructions an exponential.
        launch.source = std::make_shared<const Source>(Source{launch.source->entry, "#define TF_AFTER_PRODUCT\n" + launch.source->text, {}});
        result.program.note = launch.note;
        result.program.launches.push_back(std::move(launch));
        result.program.scratch_bytes = static_cast<size_t>(scratch);
        return result;
    }

private:
    std::string integer(int64_t value) { return kernel_.integer(value); }
    std::string let(const std::string& text, std::string_view prefix) { return kernel_.let(text, prefix); }
    std::string channel_lanes() const { return number(shape_.by_channel ? shape_.lanes : 1); }

    void write_body(GroupedSums& grid) {
        const int64_t block_channels = shape_.units * shape_.unit_channels, total = block_channels * shape_.cin * shape_.entries();
        body_.line("alignas(16) __shared__ " + type_ + " tf_weights[" + number(total) + "];");
        if (!shape_.grid.empty()) grid.declare_shared();
        body_.line("TF_SEQUENCE();");
        const std::string plane = let("(int)blockIdx.x / " + integer(shape_.slices), "plane");
        const std::string slice = let("(int)blockIdx.x - " + times(plane, integer(shape_.slices)), "slice");
        const std::string image = let(plane + " / " + number(shape_.unit_blocks()), "image");
        const std::string first = let("(" + plane + " % " + number(shape_.unit_blocks()) + ") * " + number(block_channels), "first");
        stage(first, block_channels, total);
        const std::string of = number(shape_.by_channel ? shape_.units : shape_.unit_threads);
        const std::string fast = let("(int)threadIdx.x % " + of, "fast"), slow = let("(int)threadIdx.x / " + of, "slow");
        const std::string &own = shape_.by_channel ? fast : slow, &place = shape_.by_channel ? slow : fast;
        own_ = let(times(own, number(shape_.unit_channels)), "own");
        channel_ = let(plus(first, own_), "channel");
        grid.declare();
        std::string inside = "t < " + kernel_.parameters.count(shape_.tiles);
        if (shape_.unit_count % shape_.units) inside += " && " + channel_ + " < " + number(shape_.channels());
        const std::string per = number(shape_.unit_threads);
        emitter_.open("for (int t = " + slice + " * " + per + " + " + place + "; " + inside + "; t += " + integer(shape_.slices) + " * " + per + ")");
        find_runs(image);
        declare_sums();
        multiply();
        if (shape_.all_channels)
            finish_pixels();
        else
            finish_columns(grid);
        emitter_.close();
        grid.leave(image, slice, channel_, place);
    }

    // [channel][input channel][entry], or where lanes are channels [input channel][entry][channel].
    void stage(const std::string& first, int64_t block_channels, int64_t total) {
        emitter_.open("for (int i = (int)threadIdx.x; i < " + number(total) + "; i += " + number(shape_.threads()) + ")");
        std::string rest = "i", channel;
        auto take = [&](int64_t count) {
            const std::string taken = count == 1 ? "0" : let(rest + " % " + number(count), "k");
            if (count > 1) rest = let(rest + " / " + number(count), "k");
            return taken;
        };
        if (shape_.by_channel) channel = take(block_channels);
        Index index(shape_.axes.size() + 3, Coordinate{"0"});
        std::string inside;
        for (size_t a = shape_.axes.size(); a-- > 0;) {
            const std::vector<int64_t> staged = shape_.windows[a].staged();
            std::string k = take(static_cast<int64_t>(staged.size()));
            if (!shape_.windows[a].fixed()) {
                k = let(emitter_.integer_table(staged) + "[" + k + "]", "tap");
                inside += k + " >= 0 && ";
            }
            index[a + 3] = {k};
        }
        index[1] = {take(shape_.cin)};
        if (!shape_.by_channel) channel = rest;
        channel = let(plus(first, channel), "c");
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

    // Which runs the thread makes: its first outputs, their first inputs and which of those lie inside, where its weights begin.
    void find_runs(const std::string& image) {
        const size_t rank = shape_.axes.size();
        const Sizes& out = graph_[anchor_].type.shape;
        first_output_.assign(rank, ""), inside_.assign(rank, {}), input_.assign(rank, {});
        image_ = image;
        std::string rest = "t", classes = "0";
        int64_t stride = 1;
        for (size_t a = rank; a-- > 0;) {
            const RunWindow& window = shape_.windows[a];
            std::string q = rest;
            if (a > 0) {
                const int64_t extent = (out[a + 2] + window.run() - 1) / window.run();
                const std::string quotient = let(kernel_.parameters.quotient(rest, extent, true), "q");
                q = let(kernel_.parameters.remainder(rest, quotient, extent, true), "q");
                rest = quotient;
            }
            first_output_[a] = let(times(q, number(window.run())), "o");
            const std::string begin = let(window.first_input(q), "i");
            for (int64_t s = 0; s < window.inputs(); ++s) {
                const bool met = window.meets(s);
                input_[a].push_back(met ? let(plus(begin, number(s)), "i") : "");
                inside_[a].push_back(met ? emitter_.let("bool", "(unsigned)" + input_[a].back() + " < (unsigned)" + integer(shape_.axes[a].in), "in") : "");
            }
            if (!window.fixed()) classes = plus(classes, times(window.class_of(q), number(window.class_entries() * stride)));
            stride *= static_cast<int64_t>(window.staged().size());
        }
        weights_ = shape_.by_channel ? plus(own_, times(classes, number(shape_.units * shape_.unit_channels)))
                                     : plus(times(own_, number(shape_.cin * shape_.entries())), classes);
        weights_ = let(weights_, "weights");
    }

    void declare_sums() {
        const std::string columns = number(shape_.columns()), positions = number(shape_.positions()), lanes = number(shape_.lanes);
        body_.line(type_ + " sums[" + columns + "][" + positions + "][" + lanes + "];");
        body_.line("_Pragma(\"unroll\") for (int c = 0; c < " + columns + "; ++c) _Pragma(\"unroll\") for (int p = 0; p < " + positions +
                   "; ++p) _Pragma(\"unroll\") for (int v = 0; v < " + lanes + "; ++v) sums[c][p][v] = 0;");
    }

    // Columns of the same inputs, for all of which a row is loaded once: those of a group.
    int64_t shared_columns() const { return shape_.by_channel ? 1 : shape_.cout; }

    void multiply() {
        const int64_t together = shared_columns(), sets = shape_.columns() / together;
        if (sets > 1) body_.line("#pragma unroll");
        if (sets > 1) emitter_.open("for (int set = 0; set < " + number(sets) + "; ++set)");
        const std::string set = sets > 1 ? "set" : "0";
        if (shape_.cin > 1) body_.line("#pragma unroll 1");
        if (shape_.cin > 1) emitter_.open("for (int ci = 0; ci < " + number(shape_.cin) + "; ++ci)");
        const std::string ci = shape_.cin > 1 ? "ci" : "0";
        const std::string column = plus(channel_, times(set, number(together * (shape_.by_channel ? shape_.lanes : 1))));
        const std::string group = shape_.cout == 1 ? column : "(" + column + " / " + number(shape_.cout) + ")";
        Index at = {{image_}, {let(plus(times(group, number(shape_.cin)), ci), "channel"), shape_.by_channel && shape_.lanes > 1}};
        const std::string weights =
            shape_.by_channel ? let(plus(plus(weights_, times(set, number(shape_.lanes))), times(ci, number(shape_.entries() * block_channels()))), "w")
                              : let(plus(weights_, times(plus(times(set, number(together * shape_.cin)), ci), number(shape_.entries()))), "w");
        std::vector<int64_t> met(shape_.axes.size(), 0);
        rows(0, met, at, weights, set);
        if (shape_.cin > 1) emitter_.close();
        if (sets > 1) emitter_.close();
    }

    int64_t block_channels() const { return shape_.units * shape_.unit_channels; }

    // Every row of inputs: one choice of an input along all axes but the last.
    void rows(size_t axis, std::vector<int64_t>& met, const Index& at, const std::string& weights, const std::string& set) {
        if (axis + 1 < shape_.axes.size()) {
            for (met[axis] = 0; met[axis] < shape_.windows[axis].inputs(); ++met[axis])
                if (shape_.windows[axis].meets(met[axis])) rows(axis + 1, met, at, weights, set);
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
        add_row(met, weights, set);
        emitter_.close();
    }

    void load_row(const Index& row, const std::string& inside) {
        const RunWindow& window = shape_.windows.back();
        const int64_t lanes = shape_.lanes, wide = shape_.by_channel ? lanes : 1;
        body_.line(type_ + " x[" + number(window.inputs()) + "][" + number(wide) + "];");
        for (int64_t s = 0; s < window.inputs(); ++s) {
            const bool vector = shape_.vector_inputs && s + lanes <= window.inputs() && window.aligned(s, lanes) && window.meets(s);
            if (!window.meets(s)) continue;
            const auto at = static_cast<size_t>(s);
            const int64_t count = vector ? lanes : wide;
            auto element = [&](int64_t i) { return vector ? "x[" + number(s + i) + "][0]" : "x[" + number(s) + "][" + number(i) + "]"; };
            for (int64_t i = 0; i < count; ++i) body_.line(element(i) + " = 0;");
            emitter_.open("if (" + inside + inside_.back()[at] + ")");
            Index here = row;
            here.push_back({input_.back()[at], vector});
            const Lanes loaded = emitter_.value(shape_.x, here);
            for (int64_t i = 0; i < count; ++i) body_.line(element(i) + " = (" + type_ + ")" + loaded[static_cast<size_t>(i)] + ";");
            emitter_.close();
            if (vector) s += lanes - 1;
        }
    }

    // The row's products, for all outputs of the tile that meet it.
    void add_row(const std::vector<int64_t>& met, const std::string& weights, const std::string& set) {
        const size_t outer = shape_.axes.size() - 1;
        const RunWindow& along = shape_.windows.back();
        const auto length = static_cast<int64_t>(along.staged().size());
        const int64_t together = shared_columns();
        if (together > 1) body_.line("#pragma unroll");
        if (together > 1) body_.open("for (int j = 0; j < " + number(together) + "; ++j)");
        const std::string column = together > 1 ? plus(times(set, number(together)), "j") : set;
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
                stride *= static_cast<int64_t>(window.staged().size());
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

    void add_outputs(int64_t s, const std::string& column, int64_t p, int64_t entry, const std::string& from) {
        const RunWindow& along = shape_.windows.back();
        const std::string sum = "sums[" + column + "][" + number(p) + "]", x = " * x[" + number(s) + "][0];";
        if (!along.meets(s)) return;
        const bool vector = !along.fixed() && shape_.lanes * (real_ == Real::f64 ? 8 : 4) <= 16;
        if (vector) {
            const std::string pack = "tf_vector<" + type_ + ", " + number(shape_.lanes) + ">";
            body_.line("{ const " + pack + " w = *(const " + pack + "*)(tf_weights + " + plus(from, number(entry + along.entry(s, 0))) + ");");
        }
        for (int64_t v = 0; v < along.run(); ++v)
            if (along.meets(s, v))
                body_.line("  " + sum + "[" + number(v) + "] += " + (vector ? "w.lane[" + number(v) + "]" : "tf_weights[" + plus(from, number(entry + along.entry(s, v))) + "]") + x);
        if (vector) body_.line("}");
    }

    void add_channels(int64_t s, const std::string& column, int64_t p, int64_t entry, const std::string& from) {
        const RunWindow& along = shape_.windows.back();
        const int64_t chunk = std::min<int64_t>(shape_.lanes, real_ == Real::f64 ? 2 : 4);
        const std::string pack = "tf_vector<" + type_ + ", " + number(chunk) + ">";
        for (int64_t v = 0; v < along.run(); ++v) {
            if (!along.meets(s, v)) continue;
            const std::string sum = "sums[" + column + "][" + number(p * along.run() + v) + "]";
            for (int64_t lane = 0; lane < shape_.lanes; lane += chunk) {
                body_.line("{ const " + pack + " w = *(const " + pack + "*)(tf_weights + " + plus(from, number((entry + along.entry(s, v)) * block_channels() + lane)) + ");");
                for (int64_t i = 0; i < chunk; ++i)
                    body_.line("  " + sum + "[" + number(lane + i) + "] += w.lane[" + number(i) + "] * x[" + number(s) + "][" + number(lane + i) + "];");
                body_.line("}");
            }
        }
    }

    // A position's outputs, channel open; opens a scope in which they lie inside.
    Index open_position(int64_t p) {
        const size_t rank = shape_.axes.size();
        Index at = {{image_}, {"0"}};
        at.resize(rank + 2);
        std::string inside;
        for (size_t a = rank; a-- > 0;) {
            const bool along_lanes = !shape_.by_channel && a + 1 == rank;
            const int64_t run = shape_.windows[a].run(), v = along_lanes ? 0 : p % run;
            if (!along_lanes) p /= run;
            at[a + 2] = {v ? let(plus(first_output_[a], number(v)), "o") : first_output_[a], along_lanes && shape_.lanes > 1};
            if (v) inside += (inside.empty() ? "" : " && ") + at[a + 2].text + " < " + integer(graph_[anchor_].type.shape[a + 2]);
        }
        emitter_.open(inside.empty() ? "" : "if (" + inside + ")");
        return at;
    }

    // What the chain starts from at a column of sums.
    void remember_sums(const Index& at, const std::string& column, int64_t p, const Lanes* bias) {
        Lanes lanes{{}, {}, real_};
        for (int64_t v = 0; v < shape_.lanes; ++v) {
            const std::string sum = "sums[" + column + "][" + number(p) + "][" + number(v) + "]";
            lanes.text.push_back(bias ? emitter_.let(type_, sum + " + (" + type_ + ")" + (*bias)[static_cast<size_t>(v)], "v") : sum);
        }
        emitter_.remember(anchor_, at, lanes);
    }

    std::string open_columns(Index& at) {
        const int64_t columns = shape_.columns();
        if (columns > 1) body_.line("#pragma unroll");
        emitter_.open(columns > 1 ? "for (int c = 0; c < " + number(columns) + "; ++c)" : "");
        const std::string column = columns > 1 ? "c" : "0";
        at[1] = {columns > 1 ? let(plus(channel_, times(column, channel_lanes())), "channel") : channel_, shape_.by_channel && shape_.lanes > 1};
        return column;
    }
    std::optional<Lanes> bias_at(const Coordinate& channel) {
        if (shape_.bias < 0) return std::nullopt;
        return emitter_.value(shape_.bias, {channel});
    }

    // Channels on their own: the chain at every position of every column.
    void finish_columns(GroupedSums& grid) {
        Index of(2);
        const std::string column = open_columns(of);
        const std::optional<Lanes> bias = bias_at(of[1]);
        for (int64_t p = 0; p < shape_.positions(); ++p) {
            Index at = open_position(p);
            at[1] = of[1];
            remember_sums(at, column, p, bias ? &*bias : nullptr);
            for (const Sink& sink : sinks_) store(sink, at);
            for (ValueId v : grid.collected()) grid.add(v, column, emitter_.value(graph_[v].args[0], at));
            emitter_.close();
        }
        emitter_.close();
    }

    // Position by position: each reduction is a loop over all channels, which pulls what it reduces; then the stores.
    void finish_pixels() {
        if (shape_.bias >= 0) {
            Index of(2);
            const std::string column = open_columns(of);
            const Lanes bias = *bias_at(of[1]);
            for (int64_t p = 0; p < shape_.positions(); ++p)
                for (int64_t v = 0; v < shape_.lanes; ++v)
                    body_.line("sums[" + column + "][" + number(p) + "][" + number(v) + "] += (" + type_ + ")" + bias[static_cast<size_t>(v)] + ";");
            emitter_.close();
        }
        for (int64_t p = 0; p < shape_.positions(); ++p) {
            const Index at = open_position(p);
            for (ValueId v : shape_.reductions) reduce(v, at, p);
            for (const Sink& sink : sinks_) {
                if (graph_[sink.value].type.shape[1] == 1) {
                    store(sink, at);
                    continue;
                }
                Index here = at;
                remember_columns(here, p);
                store(sink, here);
                emitter_.close();
            }
            emitter_.close();
        }
    }

    // One number a pixel, or a lane of pixels.
    void reduce(ValueId v, const Index& at, int64_t p) {
        const Node& node = graph_[v];
        const ValueId of = node.args[0];
        const int64_t width = shape_.by_channel ? 1 : shape_.lanes;
        const bool many = graph_[of].type.shape[1] > 1;
        auto declare = [&](const std::string& name, const std::string& start) {
            body_.line(type_ + " " + name + "[" + number(width) + "];");
            body_.line("_Pragma(\"unroll\") for (int v = 0; v < " + number(width) + "; ++v) " + name + "[v] = " + start + ";");
        };
        auto each = [&](const auto& line) {
            Index here = at;
            if (many)
                remember_columns(here, p);
            else
                emitter_.open("");
            const Lanes lanes = emitter_.value(of, here);
            for (int64_t i = 0; i < (many ? shape_.lanes : width); ++i) body_.line(line(shape_.by_channel ? 0 : i, "(" + type_ + ")" + lanes[static_cast<size_t>(i)]));
            emitter_.close();
        };
        const std::string name = "value" + number(v) + "_" + number(p);
        auto lane = [](const std::string& array, int64_t i) { return array + "[" + number(i) + "]"; };
        if (node.op == Op::sum || node.op == Op::mean) {
            declare(name, "0");
            each([&](int64_t i, const std::string& x) { return lane(name, i) + " += " + x + ";"; });
            if (node.op == Op::mean && many)
                body_.line("_Pragma(\"unroll\") for (int v = 0; v < " + number(width) + "; ++v) " + name + "[v] *= " + literal(1.0 / static_cast<double>(shape_.channels()), real_) + ";");
        } else {
            const bool least = node.op == Op::amin;
            const std::string peak = node.op == Op::logsumexp ? name + "_peak" : name;
            declare(peak, "(" + type_ + ")" + std::string(least ? "" : "-") + "__int_as_float(0x7f800000)");
            each([&](int64_t i, const std::string& x) { return lane(peak, i) + " = " + (least ? "tf_min(" : "tf_max(") + lane(peak, i) + ", " + x + ");"; });
            if (node.op == Op::logsumexp) {
                declare(name, "0");
                body_.line("_Pragma(\"unroll\") for (int v = 0; v < " + number(width) + "; ++v) if (!(" + peak + "[v] - " + peak + "[v] == 0)) " + peak + "[v] = 0;");
                each([&](int64_t i, const std::string& x) { return lane(name, i) + " += tf_exp_below(" + x + ", " + lane(peak, i) + ");"; });
                body_.line("_Pragma(\"unroll\") for (int v = 0; v < " + number(width) + "; ++v) " + name + "[v] = tf_log(" + name + "[v]) + " + peak + "[v];");
            }
        }
        Lanes lanes{{}, {}, real_};
        for (int64_t i = 0; i < width; ++i) lanes.text.push_back(lane(name, i));
        Index here = at;
        here[1] = {"0"};
        emitter_.remember(v, here, lanes);
    }

    // Opens the loop over columns, in which `here` is at one of them.
    void remember_columns(Index& here, int64_t p) {
        const std::string column = open_columns(here);
        remember_sums(here, column, p, nullptr);
    }

    void store(const Sink& sink, const Index& at) {
        const Sizes& shape = graph_[sink.value].type.shape;
        Index own = at;
        if (shape[1] == 1) own[1] = {"0"};
        const Lanes lanes = emitter_.value(sink.value, own);
        const std::string storage(storage_name(sink.place.storage));
        const std::string pointer = kernel_.parameters.pointer(sink.place.base, storage, false);
        std::string offset = "0", step = "0";
        size_t axis = own.size();
        for (size_t a = 0; a < own.size(); ++a) {
            offset = plus(offset, times(own[a].text, integer(sink.place.strides[a])));
            if (own[a].vector) axis = a, step = integer(sink.place.strides[a]);
        }
        if (axis == own.size()) {
            body_.line("tf_store(" + pointer + " + " + offset + ", " + lanes[0] + ");");
            return;
        }
        if (takes_vectors(sink.place, shape, axis, shape_.lanes)) {
            const std::string pack = "tf_vector<" + storage + ", " + number(shape_.lanes) + ">", name = body_.fresh("pack");
            body_.line(pack + " " + name + ";");
            for (int64_t v = 0; v < shape_.lanes; ++v) body_.line("tf_from(" + name + ".lane[" + number(v) + "], " + lanes[static_cast<size_t>(v)] + ");");
            body_.line("*(" + pack + "*)(" + pointer + " + " + offset + ") = " + name + ";");
            return;
        }
        for (int64_t v = 0; v < shape_.lanes; ++v)
            body_.line("tf_store(" + pointer + " + " + plus(offset, times(number(v), step)) + ", " + lanes[static_cast<size_t>(v)] + ");");
    }

    const Surroundings& s_;
    const Graph& graph_;
    const std::vector<Sink>& sinks_;
    const GroupedShape& shape_;
    const ValueId anchor_;
    const Real real_;
    const std::string type_;
    KernelText kernel_;
    Body& body_;
    Emitter& emitter_;
    std::string own_, channel_, image_, weights_;  // the unit's first channel in the block, in all; …; where its weights begin
    std::vector<std::string> first_output_;                // of each axis
    std::vector<std::vector<std::string>> input_, inside_;  // [axis][s]: an index, and whether it lies in the axis
};

}  // namespace

std::optional<GridProgram> generate_grouped(const Surroundings& surroundings, const Places& places,
                                            const std::vector<Sink>& sinks, std::string* why_not) {
    const std::optional<GroupedShape> shape = grouped_shape(surroundings, sinks, why_not);
    if (!shape) return std::nullopt;
    return GroupedWriter(surroundings, places, sinks, *shape).write();
}

}  // namespace transfuse::cuda
