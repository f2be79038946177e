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
        Launch launch = kernel_.launch("tf_grouped", out[0] * shape_.unit_blocks() * shape_.block_classes() * shape_.slices, shape_.threads(),
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
        const int64_t total = shape_.block_channels() * shape_.cin * shape_.entries();
        body_.line("alignas(16) __shared__ " + type_ + " tf_weights[" + number(total) + "];");
        if (!shape_.grid.empty()) grid.declare_shared();
        body_.line("TF_SEQUENCE();");
        std::string rest = let("(int)blockIdx.x / " + integer(shape_.slices), "plane");
        const std::string slice = let("(int)blockIdx.x - " + times(rest, integer(shape_.slices)), "slice");
        auto take = [&](int64_t count, std::string_view prefix) {
            if (count == 1) return std::string("0");
            const std::string taken = let(rest + " % " + number(count), prefix);
            rest = let(rest + " / " + number(count), "plane");
            return taken;
        };
        class_.assign(shape_.axes.size(), "0");
        std::string slot = "0";
        for (size_t a = 0; a + 1 < shape_.axes.size(); ++a) {
            class_[a] = take(shape_.windows[a].classes(), "of_class");
            slot = plus(times(slot, number(shape_.windows[a].classes())), class_[a]);
        }
        const std::string first = let(times(take(shape_.unit_blocks(), "units"), number(shape_.block_channels())), "first");
        image_ = rest;
        stage(first, total);
        const std::string of = number(shape_.team > 1 ? shape_.team : shape_.by_channel ? shape_.units : shape_.unit_threads);
        const std::string fast = let("(int)threadIdx.x % " + of, "fast"), slow = let("(int)threadIdx.x / " + of, "slow");
        const std::string &own = shape_.by_channel ? fast : slow, &place = shape_.by_channel ? slow : fast;
        own_ = let(times(own, number(shape_.by_channel ? shape_.lanes : shape_.unit_channels)), "own");
        channel_ = let(plus(first, own_), "channel");
        if (shape_.team > 1)
            body_.line("const unsigned team = " + (shape_.team == 32 ? "0xffffffffu" : number((int64_t{1} << shape_.team) - 1) + "u << (threadIdx.x % 32 / " + of + " * " + of + ")") + ";");
        grid.declare();
        std::string inside = "t < " + kernel_.parameters.count(shape_.tiles);
        if (shape_.unit_count % shape_.units) inside += " && " + channel_ + " < " + number(shape_.channels());
        const std::string per = number(shape_.unit_threads / shape_.team);
        emitter_.open("for (int t = " + slice + " * " + per + " + " + place + "; " + inside + "; t += " + integer(shape_.slices) + " * " + per + ")");
        find_runs();
        if (shape_.held) {
            declare_sums(shape_.columns());
            multiply();
        }
        if (shape_.all_channels)
            finish_pixels();
        else
            finish_columns(grid);
        emitter_.close();
        grid.leave(image_, plus(times(slot, integer(shape_.slices)), slice), channel_, place);
    }

    // [channel][input channel][entry], or where lanes are channels [input channel][entry][channel].
    void stage(const std::string& first, int64_t total) {
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
                k = let(emitter_.integer_table(window.staged()) + "[" + plus(k, times(class_[a], number(window.class_entries()))) + "]", "tap");
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
    void find_runs() {
        const size_t rank = shape_.axes.size();
        const Sizes& out = graph_[anchor_].type.shape;
        first_output_.assign(rank, ""), inside_.assign(rank, {}), input_.assign(rank, {});
        std::string rest = "t";
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
            if (a + 1 == rank) last_ = q;
            const std::string begin = let(window.first_input(q), "i");
            for (int64_t s = 0; s < window.inputs(); ++s) {
                const bool met = window.meets(s);
                input_[a].push_back(met ? let(plus(begin, number(s)), "i") : "");
                inside_[a].push_back(met ? emitter_.let("bool", "(unsigned)" + input_[a].back() + " < (unsigned)" + integer(shape_.axes[a].in), "in") : "");
            }
        }
        const RunWindow& along = shape_.windows.back();
        const std::string of_class = times(along.class_of(last_), number(along.class_entries()));
        weights_ = shape_.by_channel ? plus(own_, times(of_class, number(shape_.block_channels())))
                                     : plus(times(own_, number(shape_.cin * shape_.entries())), of_class);
        weights_ = let(weights_, "weights");
    }

    void declare_sums(int64_t count) {
        const std::string columns = number(count), positions = number(shape_.positions()), lanes = number(shape_.lanes);
        body_.line(type_ + " sums[" + columns + "][" + positions + "][" + lanes + "];");
        body_.line("_Pragma(\"unroll\") for (int c = 0; c < " + columns + "; ++c) _Pragma(\"unroll\") for (int p = 0; p < " + positions +
                   "; ++p) _Pragma(\"unroll\") for (int v = 0; v < " + lanes + "; ++v) sums[c][p][v] = 0;");
    }

    // Columns of the same inputs, for all of which a row is loaded once: those of a group.
    int64_t shared_columns() const { return shape_.by_channel ? 1 : shape_.cout; }

    void multiply() {
        const int64_t sets = shape_.columns() / shared_columns();
        if (sets > 1) body_.line("#pragma unroll");
        emitter_.open(sets > 1 ? "for (int set = 0; set < " + number(sets) + "; ++set)" : "");
        const std::string set = sets > 1 ? "set" : "0";
        if (shape_.ragged()) emitter_.open("if (" + channel_of(set) + " < " + number(shape_.channels()) + ")");
        multiply_set(set, times(set, number(shared_columns())));
        if (shape_.ragged()) emitter_.close();
        emitter_.close();
    }

    std::string channel_of(const std::string& column) const { return plus(channel_, times(column, number(shape_.column_step()))); }

    // The products of the columns that share inputs, into sums from `column` on.
    void multiply_set(const std::string& set, const std::string& column) {
        if (shape_.cin > 1) body_.line("#pragma unroll 1");
        if (shape_.cin > 1) emitter_.open("for (int ci = 0; ci < " + number(shape_.cin) + "; ++ci)");
        const std::string ci = shape_.cin > 1 ? "ci" : "0", first = channel_of(times(set, number(shared_columns())));
        const std::string group = shape_.cout == 1 ? first : "(" + first + " / " + number(shape_.cout) + ")";
        const Index at = {{image_}, {let(plus(times(group, number(shape_.cin)), ci), "channel"), shape_.by_channel && shape_.lanes > 1}};
        const std::string weights =
            shape_.by_channel
                ? plus(times(set, number(shape_.column_step())), times(ci, number(shape_.entries() * shape_.block_channels())))
                : times(plus(times(set, number(shared_columns() * shape_.cin)), ci), number(shape_.entries()));
        std::vector<int64_t> met(shape_.axes.size(), 0);
        rows(0, met, at, let(plus(weights_, weights), "w"), column);
        if (shape_.cin > 1) emitter_.close();
    }

    // Every row of inputs: one choice of an input along all axes but the last.
    void rows(size_t axis, std::vector<int64_t>& met, const Index& at, const std::string& weights, const std::string& first) {
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
    void add_row(const std::vector<int64_t>& met, const std::string& weights, const std::string& first) {
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
                body_.line("{ const " + pack + " w = *(const " + pack + "*)(tf_weights + " + plus(from, number((entry + along.entry(s, v)) * shape_.block_channels() + lane)) + ");");
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
            if (v || (a + 1 < rank && !shape_.windows[a].fixed())) inside += (inside.empty() ? "" : " && ") + at[a + 2].text + " < " + integer(graph_[anchor_].type.shape[a + 2]);
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

    // A loop over columns; where sums are not held, it makes them. `at` is then at one column's channels.
    std::string open_columns(Index& at) {
        const int64_t together = shared_columns(), sets = shape_.held ? shape_.columns() : shape_.columns() / together;
        if (sets > 1) body_.line(shape_.held ? "#pragma unroll" : "#pragma unroll 2");
        emitter_.open(sets > 1 ? "for (int c = 0; c < " + number(sets) + "; ++c)" : "");
        std::string column = sets > 1 ? "c" : "0", channel = column;
        if (!shape_.held) {
            declare_sums(together);
            multiply_set(column, "0");
            if (together > 1) body_.line("#pragma unroll");
            emitter_.open(together > 1 ? "for (int j = 0; j < " + number(together) + "; ++j)" : "");
            channel = together > 1 ? plus(times(column, number(together)), "j") : column;
            column = together > 1 ? "j" : "0";
        }
        at[1] = {let(channel_of(channel), "channel"), shape_.by_channel && shape_.lanes > 1};
        if (shape_.ragged()) emitter_.open("if (" + at[1].text + " < " + number(shape_.channels()) + ")");
        return column;
    }
    void close_columns() {
        for (int scopes = 1 + !shape_.held + shape_.ragged(); scopes > 0; --scopes) emitter_.close();
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
        close_columns();
    }

    // Position by position: each reduction is a loop over all channels, which pulls what it reduces; then the stores.
    void finish_pixels() {
        if (shape_.bias >= 0 && shape_.held) {
            Index of(2);
            const std::string column = open_columns(of);
            const Lanes bias = *bias_at(of[1]);
            for (int64_t p = 0; p < shape_.positions(); ++p)
                for (int64_t v = 0; v < shape_.lanes; ++v)
                    body_.line("sums[" + column + "][" + number(p) + "][" + number(v) + "] += (" + type_ + ")" + bias[static_cast<size_t>(v)] + ";");
            close_columns();
        }
        for (int64_t p = 0; p < shape_.positions(); ++p) {
            const Index at = open_position(p);
            for (ValueId v : shape_.reductions) reduce(v, at, p);
            for (const Sink& sink : sinks_) {
                Index here = at;
                if (graph_[sink.value].type.shape[1] > 1)
                    remember_columns(here, p);
                else
                    emitter_.open(shape_.team > 1 ? "if (" + channel_ + " == 0)" : "");
                store(sink, here);
                if (graph_[sink.value].type.shape[1] > 1)
                    close_columns();
                else
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
        // Every term into the array, then what the others of the team have.
        auto each = [&](const std::string& array, const auto& joined, const auto& term) {
            Index here = at;
            if (many)
                remember_columns(here, p);
            else
                emitter_.open("");
            const Lanes lanes = emitter_.value(of, here);
            for (int64_t i = 0; i < (many ? shape_.lanes : width); ++i) {
                const std::string to = array + "[" + number(shape_.by_channel ? 0 : i) + "]";
                body_.line(to + " = " + joined(to, term(shape_.by_channel ? 0 : i, "(" + type_ + ")" + lanes[static_cast<size_t>(i)])) + ";");
            }
            if (many)
                close_columns();
            else
                emitter_.close();
            if (many && shape_.team > 1)
                body_.line("_Pragma(\"unroll\") for (int k = " + number(shape_.team / 2) + "; k > 0; k /= 2) { const " + type_ + " other = __shfl_xor_sync(team, " + array + "[0], k); " + array + "[0] = " + joined(array + "[0]", "other") + "; }");
        };
        const std::string name = "value" + number(v) + "_" + number(p);
        auto lane = [](const std::string& array, int64_t i) { return array + "[" + number(i) + "]"; };
        const std::string lanes_loop = "_Pragma(\"unroll\") for (int v = 0; v < " + number(width) + "; ++v) ";
        auto plain = [](int64_t, const std::string& x) { return x; };
        auto sum = [](const std::string& a, const std::string& b) { return a + " + " + b; };
        if (node.op == Op::sum || node.op == Op::mean) {
            declare(name, "0");
            each(name, sum, plain);
            if (node.op == Op::mean && many)
                body_.line(lanes_loop + name + "[v] *= " + literal(1.0 / static_cast<double>(shape_.channels()), real_) + ";");
        } else {
            const bool least = node.op == Op::amin;
            const std::string peak = node.op == Op::logsumexp ? name + "_peak" : name;
            declare(peak, "(" + type_ + ")" + std::string(least ? "" : "-") + "__int_as_float(0x7f800000)");
            each(peak, [&](const std::string& a, const std::string& b) { return (least ? "tf_min(" : "tf_max(") + a + ", " + b + ")"; }, plain);
            if (node.op == Op::logsumexp) {
                declare(name, "0");
                body_.line(lanes_loop + "if (!(" + peak + "[v] - " + peak + "[v] == 0)) " + peak + "[v] = 0;");
                each(name, sum, [&](int64_t i, const std::string& x) { return "tf_exp_below(" + x + ", " + lane(peak, i) + ")"; });
                body_.line(lanes_loop + name + "[v] = tf_log(" + name + "[v]) + " + peak + "[v];");
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
        const std::optional<Lanes> bias = shape_.held ? std::nullopt : bias_at(here[1]);
        remember_sums(here, column, p, bias ? &*bias : nullptr);
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
    std::string own_, channel_;             // the thread's first channel, in the block and in all
    std::string image_, last_, weights_;    // …, its run along the last axis, where its weights begin
    std::vector<std::string> class_;        // of each axis but the last: the block's
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
