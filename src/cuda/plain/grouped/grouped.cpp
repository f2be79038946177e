// A thread makes a small tile of outputs of one unit of channels: it goes through the input rows the tile meets, holds
// a row in registers and adds its products to every sum that wants them. Weights lie in shared memory, staged once a
// block, as the runs of outputs along each axis want them (grouped_window.h). The chain is pulled from the sums in
// registers; reductions over channels are loops over the sums of a thread that holds all channels. Reductions over
// space are collected over all tiles of a thread and leave a slot for each block.
#include "cuda/plain/grouped/grouped.h"

#include "cuda/general/kernel_text.h"
#include "cuda/kernel/shares.h"
#include "cuda/plain/grouped/grouped_product.h"
#include "cuda/plain/grouped/grouped_sums.h"

namespace transfuse::cuda {

namespace {

class GroupedWriter {
public:
    GroupedWriter(const Surroundings& s, const Places& places, const std::vector<Sink>& sinks,
                  const GroupedShape& shape)
        : graph_(s.plan.graph),
          sinks_(sinks),
          shape_(shape),
          anchor_(s.pass.anchor),
          real_(real_of(graph_[anchor_].type.dtype)),
          type_(real_name(real_)),
          kernel_(s, places, static_cast<int>(shape.lanes)),
          body_(kernel_.body),
          emitter_(kernel_.emitter),
          product_(graph_, anchor_, shape, kernel_) {}

    FamilyProgram write() {
        FamilyProgram result;
        GroupedSums sums(graph_, anchor_, shape_, kernel_);
        int64_t scratch = 0;
        result.places = sums.place(scratch);
        write_body(sums);
        const Sizes& out = graph_[anchor_].type.shape;
        std::string runs;
        for (const RunWindow& window : shape_.windows) runs += (runs.empty() ? "" : "x") + number(window.run());
        Launch launch = kernel_.launch(
            "tf_grouped", out[0] * shape_.unit_blocks() * shape_.block_classes() * shape_.slices, shape_.threads(),
            "grouped product" + to_string(out) + ", " + runs + " outputs of " + number(shape_.unit_channels) +
                " channels a thread" + (shape_.by_channel ? ", channels together" : ""));
        result.program.note = launch.note;
        result.program.launches.push_back(std::move(launch));
        result.program.scratch_bytes = static_cast<size_t>(scratch);
        return result;
    }

private:
    std::string integer(int64_t value) { return kernel_.integer(value); }
    std::string let(const std::string& text, std::string_view prefix) { return kernel_.let(text, prefix); }

    void write_body(GroupedSums& grid) {
        body_.line("alignas(16) __shared__ " + type_ + " tf_weights[" +
                   number(shape_.block_channels() * shape_.cin * shape_.entries()) + "];");
        if (!shape_.grid.empty()) grid.declare_shared();
        body_.line("TF_SEQUENCE();");
        product_.begin();
        const std::string of = number(shape_.team > 1     ? shape_.team
                                      : shape_.by_channel ? shape_.units
                                                          : shape_.unit_threads);
        const std::string fast = let("(int)threadIdx.x % " + of, "fast"),
                          slow = let("(int)threadIdx.x / " + of, "slow");
        const std::string &own = shape_.by_channel ? fast : slow, &place = shape_.by_channel ? slow : fast;
        product_.take_channels(let(times(own, number(shape_.by_channel ? shape_.lanes : shape_.unit_channels)), "own"));
        if (shape_.team > 1)
            body_.line("const unsigned team = " +
                       (shape_.team == 32 ? "0xffffffffu"
                                          : number((int64_t{1} << shape_.team) - 1) + "u << (threadIdx.x % 32 / " + of +
                                                " * " + of + ")") +
                       ";");
        grid.declare();
        std::string inside = "t < " + kernel_.parameters.count(shape_.tiles);
        if (shape_.unit_count % shape_.units) inside += " && " + product_.channel() + " < " + number(shape_.channels());
        const std::string per = number(shape_.unit_threads / shape_.team);
        emitter_.open("for (int t = " + product_.slice() + " * " + per + " + " + place + "; " + inside +
                      "; t += " + integer(shape_.slices) + " * " + per + ")");
        product_.find_runs();
        if (shape_.held) {
            product_.declare_sums(shape_.columns());
            product_.multiply();
        }
        if (shape_.all_channels)
            finish_pixels();
        else
            finish_columns(grid);
        emitter_.close();
        grid.leave(product_.image(), product_.slot(), product_.channel(), place);
    }

    // A position's outputs, channel open; opens a scope in which they lie inside.
    Index open_position(int64_t p) {
        const size_t rank = shape_.axes.size();
        Index at = {{product_.image()}, {"0"}};
        at.resize(rank + 2);
        std::string inside;
        for (size_t a = rank; a-- > 0;) {
            const bool along_lanes = !shape_.by_channel && a + 1 == rank;
            const int64_t run = shape_.windows[a].run(), v = along_lanes ? 0 : p % run;
            if (!along_lanes) p /= run;
            at[a + 2] = {v ? let(plus(product_.first_output(a), number(v)), "o") : product_.first_output(a),
                         along_lanes && shape_.lanes > 1};
            if (v || (a + 1 < rank && !shape_.windows[a].fixed()))
                inside += (inside.empty() ? "" : " && ") + at[a + 2].text + " < " +
                          integer(graph_[anchor_].type.shape[a + 2]);
        }
        emitter_.open(inside.empty() ? "" : "if (" + inside + ")");
        return at;
    }

    // What the chain starts from at a column of sums.
    void remember_sums(const Index& at, const std::string& column, int64_t p, const Lanes* bias) {
        Lanes lanes{{}, {}, real_};
        for (int64_t v = 0; v < shape_.lanes; ++v) {
            const std::string sum = "sums[" + column + "][" + number(p) + "][" + number(v) + "]";
            lanes.text.push_back(
                bias ? emitter_.let(type_, sum + " + (" + type_ + ")" + (*bias)[static_cast<size_t>(v)], "v") : sum);
        }
        emitter_.remember(anchor_, at, lanes);
    }

    // A loop over columns; where sums are not held, it makes them. `at` is then at one column's channels.
    std::string open_columns(Index& at) {
        const int64_t together = product_.shared_columns(),
                      sets = shape_.held ? shape_.columns() : shape_.columns() / together;
        if (sets > 1) body_.line(shape_.held ? "#pragma unroll" : "#pragma unroll 2");
        emitter_.open(sets > 1 ? "for (int c = 0; c < " + number(sets) + "; ++c)" : "");
        std::string column = sets > 1 ? "c" : "0", channel = column;
        if (!shape_.held) {
            product_.declare_sums(together);
            product_.multiply_set(column, "0");
            if (together > 1) body_.line("#pragma unroll");
            emitter_.open(together > 1 ? "for (int j = 0; j < " + number(together) + "; ++j)" : "");
            channel = together > 1 ? plus(times(column, number(together)), "j") : column;
            column = together > 1 ? "j" : "0";
        }
        at[1] = {let(product_.channel_of(channel), "channel"), shape_.by_channel && shape_.lanes > 1};
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
                    body_.line("sums[" + column + "][" + number(p) + "][" + number(v) + "] += (" + type_ + ")" +
                               bias[static_cast<size_t>(v)] + ";");
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
                    emitter_.open(shape_.team > 1 ? "if (" + product_.channel() + " == 0)" : "");
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
        const bool many = graph_[of].type.shape[1] > 1, shares = has_shares(graph_, v);
        auto declare = [&](const std::string& name, const std::string& start) {
            body_.line(type_ + " " + name + "[" + number(width) + "];");
            body_.line("_Pragma(\"unroll\") for (int v = 0; v < " + number(width) + "; ++v) " + name +
                       "[v] = " + start + ";");
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
                body_.line(
                    to + " = " +
                    joined(to, term(shape_.by_channel ? 0 : i, "(" + type_ + ")" + lanes[static_cast<size_t>(i)])) +
                    ";");
            }
            if (many)
                close_columns();
            else
                emitter_.close();
            if (many && shape_.team > 1)
                body_.line("_Pragma(\"unroll\") for (int k = " + number(shape_.team / 2) + "; k > 0; k /= 2) { const " +
                           type_ + " other = __shfl_xor_sync(team, " + array + "[0], k); " + array +
                           "[0] = " + joined(array + "[0]", "other") + "; }");
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
                body_.line(lanes_loop + name +
                           "[v] *= " + literal(1.0 / static_cast<double>(shape_.channels()), real_) + ";");
        } else {
            const bool least = node.op == Op::amin;
            const std::string peak = node.op == Op::logsumexp ? name + "_peak" : name;
            declare(peak, "(" + type_ + ")" + std::string(least ? "" : "-") + "__int_as_float(0x7f800000)");
            each(
                peak,
                [&](const std::string& a, const std::string& b) {
                    return (least ? "tf_min(" : "tf_max(") + a + ", " + b + ")";
                },
                plain);
            if (node.op == Op::logsumexp) {
                declare(name, "0");
                // A peak of ∞ makes the sum NaN, and so the shares.
                const std::string infinity = "__int_as_float(0x7f800000)", at_peak = peak + "[v]";
                const std::string whole = node.attributes.flag(Key::finite) ? "" : at_peak + " == " + infinity + " ? ";
                body_.line(lanes_loop + "if (" + at_peak + " == -" + infinity + ") " + at_peak + " = 0;");
                each(name, sum,
                     [&](int64_t i, const std::string& x) { return "tf_exp_below(" + x + ", " + lane(peak, i) + ")"; });
                if (shares) {
                    body_.line(type_ + " " + name + "_inverse[" + number(width) + "];");
                    body_.line(lanes_loop + name + "_inverse[v] = " + whole + (whole.empty() ? "" : "0 : ") + "1 / " +
                               name + "[v];");
                }
                body_.line(lanes_loop + name + "[v] = " + whole + (whole.empty() ? "" : at_peak + " : ") + "tf_log(" +
                           name + "[v]) + " + at_peak + ";");
            }
        }
        Lanes lanes{{}, {}, real_};
        for (int64_t i = 0; i < width; ++i) {
            lanes.text.push_back(lane(name, i));
            if (!shares) continue;
            lanes.pivot.push_back(lane(name + "_peak", i));
            lanes.inverse.push_back(lane(name + "_inverse", i));
        }
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
            const std::string pack = "tf_vector<" + storage + ", " + number(shape_.lanes) + ">",
                              name = body_.fresh("pack");
            body_.line(pack + " " + name + ";");
            for (int64_t v = 0; v < shape_.lanes; ++v)
                body_.line("tf_from(" + name + ".lane[" + number(v) + "], " + lanes[static_cast<size_t>(v)] + ");");
            body_.line("*(" + pack + "*)(" + pointer + " + " + offset + ") = " + name + ";");
            return;
        }
        for (int64_t v = 0; v < shape_.lanes; ++v)
            body_.line("tf_store(" + pointer + " + " + plus(offset, times(number(v), step)) + ", " +
                       lanes[static_cast<size_t>(v)] + ");");
    }

    const Graph& graph_;
    const std::vector<Sink>& sinks_;
    const GroupedShape& shape_;
    const ValueId anchor_;
    const Real real_;
    const std::string type_;
    KernelText kernel_;
    Body& body_;
    Emitter& emitter_;
    GroupedProduct product_;
};

}  // namespace

std::optional<Offer> offer_grouped(const Surroundings& surroundings, const Places& places,
                                   const std::vector<Sink>& sinks, std::string* why_not) {
    const std::optional<GroupedShape> shape = grouped_shape(surroundings, sinks, why_not);
    if (!shape) return std::nullopt;
    return Offer{.write = [&surroundings, &places, sinks, shape] {
        return GroupedWriter(surroundings, places, sinks, *shape).write();
    }};
}

}  // namespace transfuse::cuda
