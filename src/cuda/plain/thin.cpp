// A thread makes R outputs, one below the other along h, of a block of channels: R·B sums in registers. For each input
// channel and tap along d and w it loads the R + taps - 1 inputs of its column, then every weight vector (shared
// memory, the same for all threads) serves R outputs. Threads count over all (n, d, rows of R, w), so neighbours store
// neighbours.
#include "cuda/plain/thin.h"

#include <algorithm>
#include <numeric>

#include "cuda/general/around_product.h"
#include "cuda/general/kernel_text.h"
#include "cuda/plain/figures.h"
#include "cuda/plain/thin_bias.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

using namespace figures::thin;

namespace {

constexpr int threads = 256;

class ThinWriter : AroundProduct {
public:
    ThinWriter(const Surroundings& s, const Places& places, const std::vector<Sink>& sinks)
        : AroundProduct(s, sinks), places_(places) {}

    // True where the pass is one of these; else a sentence says why not.
    bool arrange(std::string* why_not) {
        auto refuse = [&](const std::string& why) {
            if (why_not) *why_not = why;
            return false;
        };
        if (const std::string why = unfit(); !why.empty()) return refuse(why);
        if (std::any_of(axes_.begin(), axes_.end(), [](const Lattice& axis) { return axis.up != 1; }))
            return refuse("phases");
        const bool thin = cin_ * taps_ * cout_ <= s_.plan.machine.thin_work;
        if (!thin && !is_few()) return refuse("more than a thin product");
        for (const TileStep& step : s_.pass.steps) {
            if (step.scope != Scope::tile && step.scope != Scope::prologue) return refuse("reductions");
            if (step.value != anchor_ && !is_pointwise(graph_[step.value].op))
                return refuse("more than a pointwise chain");
        }
        block_ = std::min<int64_t>(most_block, (cout_ + 3) / 4 * 4);
        at_once_ = thin ? cin_ : std::min(cin_, std::max<int64_t>(1, most_terms / taps_));
        rows_ = std::min<int64_t>(sums / block_ / (at_once_ < cin_ ? 2 : 1), 8);
        const int64_t most_rows = rows_;
        while (rows_ > 1 && rows_ / 2 >= axes_[axes_.size() - 2].out) rows_ /= 2;
        // Few pixels: more threads, and more channels under way in each.
        const int64_t pixels = numel(graph_[anchor_].type.shape) / cout_;
        while (rows_ > 1 && pixels / rows_ < threads * s_.target.multiprocessors) rows_ /= 2;
        if (s_.target.any_size && rows_ < most_rows) rows_ = 1;
        return true;
    }

    FamilyProgram write() {
        FamilyProgram result;
        if (bias_in_parts()) result.pack = pack_bias(s_, bias_), result.packed_bytes = packed_bias_bytes(cout_);
        result.program.launches.push_back(write_kernel());
        result.program.note = result.program.launches[0].note;
        return result;
    }

private:
    Launch write_kernel() {
        KernelText kernel(s_, places_);
        body_ = &kernel.body, emitter_ = &kernel.emitter, parameters_ = &kernel.parameters;
        const int64_t blocks = (cout_ + block_ - 1) / block_;
        const Sizes& out = graph_[anchor_].type.shape;
        int64_t total = (out[out.size() - 2] + rows_ - 1) / rows_;
        for (size_t a = 0; a < out.size(); ++a)
            if (a != 1 && a + 2 != out.size()) total *= out[a];
        write_body(blocks, total);
        return kernel.launch(
            "tf_thin", (total + threads - 1) / threads * blocks, threads,
            "thin product" + to_string(out) + ", " + number(rows_) + " rows x " + number(block_) + " channels a thread",
            "", 2);
    }

    // Few channels of many pixels, which tensor cores would multiply in strict fp32 (as PyTorch does though TF32 is
    // allowed).
    bool is_few() const {
        const Sizes& out = graph_[anchor_].type.shape;
        const bool strict =
            graph_[x_].type.dtype == DType::f32 && (s_.precision == Fp32Precision::strict || axes_.size() == 2);
        return strict && cout_ <= most_few && taps_ <= most_terms &&
               numel(out) / (8 * out[1]) >= enough_threads * s_.target.multiprocessors;
    }

    std::string integer(int64_t value) { return parameters_->integer(value, true); }
    std::string let(const std::string& text, std::string_view prefix) { return emitter_->let("int", text, prefix); }

    bool in_parts() const { return at_once_ < cin_; }

    void write_body(int64_t blocks, int64_t total) {
        Body& body = *body_;
        body.line("__shared__ float4 tf_weights[" + number(at_once_ * taps_ * block_ / 4) +
                  "];  // [input channel][tap][channel]");
        body.line("TF_SEQUENCE();");
        const std::string block = "(int)blockIdx.x";
        const std::string pixels = blocks == 1 ? block : let(block + " / " + number(blocks), "pixels");
        const std::string first =
            blocks == 1 ? "0" : let(block + " % " + number(blocks) + " * " + number(block_), "first");
        if (!in_parts()) write_weights(first, "", number(cin_ * taps_ * block_));
        const std::string t = let(pixels + " * " + number(threads) + " + (int)threadIdx.x", "t"),
                          inside = t + " < " + parameters_->count(total);
        if (!in_parts()) emitter_->open("if (" + inside + ")");
        place_outputs(t);
        body.line("float sums[" + number(rows_) + "][" + number(block_) + "];");
        body.line(each_sum() + "sums[r][c] = 0.0f;");
        if (in_parts())
            multiply_in_parts(first, inside);
        else
            multiply("", number(cin_));
        finish(first);
        emitter_->close();
    }

    std::string each_sum() const {
        return "for (int r = 0; r < " + number(rows_) + "; ++r) for (int c = 0; c < " + number(block_) + "; ++c) ";
    }

    // Where this thread's outputs begin: n, d, h, w, some of them absent.
    void place_outputs(const std::string& t) {
        const Sizes& out = graph_[anchor_].type.shape;
        at_.assign(out.size(), Coordinate{"0"});
        std::string rest = t;
        for (size_t a = out.size(); a-- > 2;) {
            const bool along_rows = a + 2 == out.size();
            const int64_t extent = along_rows ? (out[a] + rows_ - 1) / rows_ : out[a];
            const std::string q = let(parameters_->quotient(rest, extent, true), "q");
            const std::string r = let(parameters_->remainder(rest, q, extent, true), "o");
            at_[a] = {along_rows ? let(times(r, number(rows_)), "o") : r};
            rest = q;
        }
        at_[0] = {rest};
    }

    // A long sum in parts, whose weights lie in shared memory together; leaves the test open that a thread has outputs.
    void multiply_in_parts(const std::string& first, const std::string& inside) {
        Body& body = *body_;
        body.line("float totals[" + number(rows_) + "][" + number(block_) + "];");
        body.line(each_sum() + "totals[r][c] = 0.0f;");
        body.line("#pragma unroll 1");
        emitter_->open("for (int part = 0; part < " + number(cin_) + "; part += " + number(at_once_) + ")");
        const std::string count = let("min(" + number(at_once_) + ", " + number(cin_) + " - part)", "count");
        body.line("if (part > 0) __syncthreads();");
        write_weights(first, "part", count + " * " + number(taps_ * block_));
        emitter_->open("if (" + inside + ")");
        multiply("part", count);
        emitter_->close();
        body.line(each_sum() + "totals[r][c] += sums[r][c], sums[r][c] = 0.0f;");
        emitter_->close();
        body.line(each_sum() + "sums[r][c] = totals[r][c];");
        emitter_->open("if (" + inside + ")");
    }

    // `count` weights, of the input channels from `part` on.
    void write_weights(const std::string& first, const std::string& part, const std::string& count) {
        stage_weights(*emitter_, w_, axes_, {block_, cout_, threads, first, part}, count);
        body_->line("__syncthreads();");
    }

    // i = down·o + offset - dil·k along an axis, and whether it lies inside.
    std::pair<std::string, std::string> met(size_t axis, const std::string& o, const std::string& k) {
        const Lattice& lattice = axes_[axis];
        const std::string i = let(
            minus(plus(times(number(lattice.down), o), number(lattice.offset)), times(number(lattice.dil), k)), "i");
        return {i, i + " >= 0 && " + i + " < " + integer(lattice.in)};
    }

    // The inputs of a column along h that a thread meets, relative to the first output's: down·r - dil·k over all rows
    // r and taps k, from the last tap's on, in steps of their common divisor.
    struct Column {
        int64_t step, before, count;
    };
    Column column() const {
        const Lattice& along = axes_[axes_.size() - 2];
        const int64_t step = std::gcd(along.down, along.dil), before = along.dil * (along.taps - 1);
        return {step, before, (along.down * (rows_ - 1) + before) / step + 1};
    }

    void multiply(const std::string& part, const std::string& channels) {
        Body& body = *body_;
        const size_t h = axes_.size() - 2, w = axes_.size() - 1;
        body.line("#pragma unroll " + number(std::max<int64_t>(1, 4 / rows_)));
        emitter_->open("for (int ci = 0; ci < " + channels + "; ++ci)");
        std::string inside, tap = "ci";
        Index at_x = {at_[0], {part.empty() ? "ci" : plus(part, "ci")}};
        for (size_t a = 0; a < h; ++a) {
            std::string k = "0";
            if (axes_[a].taps > 1) {
                k = body.fresh("k");
                body.line("#pragma unroll 1");
                emitter_->open("for (int " + k + " = 0; " + k + " < " + number(axes_[a].taps) + "; ++" + k + ")");
            }
            const auto [i, in] = met(a, at_[a + 2].text, k);
            inside += (inside.empty() ? "" : " && ") + in;
            at_x.push_back({i});
            tap = plus(times(tap, number(axes_[a].taps)), k);
        }
        if (!inside.empty()) emitter_->open("if (" + inside + ")");
        const int64_t offset = axes_[h].offset - column().before;
        const std::string first = times(number(axes_[h].down), at_[h + 2].text);
        const std::string top = let(offset < 0 ? minus(first, number(-offset)) : plus(first, number(offset)), "i");
        body.line("#pragma unroll");
        emitter_->open("for (int kw = 0; kw < " + number(axes_[w].taps) + "; ++kw)");
        load_column(std::move(at_x), top);
        multiply_column(tap);
        emitter_->close();
        if (!inside.empty()) emitter_->close();
        for (size_t a = 0; a < h; ++a)
            if (axes_[a].taps > 1) emitter_->close();
        emitter_->close();
    }

    // From row `top` on.
    void load_column(Index at_x, const std::string& top) {
        Body& body = *body_;
        const Column own = column();
        const auto [w, in_row] = met(axes_.size() - 1, at_.back().text, "kw");
        // In memory a step goes from row to row: of places found each by itself the compiler keeps as many.
        ValueId source = x_;  // widened as it is loaded
        while (!places_.contains(source) && graph_[source].op == Op::cast &&
               bytes(graph_[graph_[source].args[0]].type.dtype) < bytes(graph_[source].type.dtype))
            source = graph_[source].args[0];
        const auto place = places_.find(source);
        const bool steps = place != places_.end() && !place->second.partials && !place->second.in_parts() &&
                           numel(graph_[x_].type.shape) < int64_t{1} << 31;
        if (steps) {
            Index first = at_x;
            first.push_back({top}), first.push_back({w});
            body.line("int from = " + offset(first, place->second) + ";");
        }
        body.line("float x[" + number(own.count) + "];");
        body.line("#pragma unroll");
        emitter_->open("for (int j = 0; j < " + number(own.count) + "; ++j)");
        const std::string i = let(plus(top, times(number(own.step), "j")), "i");
        body.line("x[j] = 0.0f;");
        emitter_->open("if (" + in_row + " && (unsigned)" + i + " < (unsigned)" + integer(axes_[axes_.size() - 2].in) +
                       ")");
        if (steps) {
            const std::string type = "const " + std::string(storage_name(place->second.storage));
            body.line("x[j] = tf_load<float>(" +
                      parameters_->pointer(place->second.base, type, place->second.read_only) + " + from);");
            emitter_->close();
            const int64_t stride = place->second.strides[at_x.size()];
            body.line("from += " + times(number(own.step), integer(stride)) + ";");
        } else {
            at_x.push_back({i}), at_x.push_back({w});
            body.line("x[j] = (float)" + emitter_->value(x_, at_x)[0] + ";");
            emitter_->close();
        }
        emitter_->close();
    }

    std::string offset(const Index& index, const Place& place) {
        std::string text = "0";
        for (size_t a = 0; a < index.size(); ++a) text = plus(text, times(index[a].text, integer(place.strides[a])));
        return text;
    }

    // sums[r][c] += weights[tap, kh, kw][c] · x[r, kh]; where sums are long, those over kh are made first.
    void multiply_column(const std::string& tap) {
        Body& body = *body_;
        const Lattice& along = axes_[axes_.size() - 2];
        const Column own = column();
        const bool apart = along.taps > 1 && !in_parts() && cin_ * taps_ > most_chain;
        const int64_t lanes = std::min<int64_t>(4, cout_);
        auto over = [&](const std::string& name, int64_t end) {
            body.line("#pragma unroll");
            body.open("for (int " + name + " = 0; " + name + " < " + number(end) + "; ++" + name + ")");
        };
        const std::string of_tap = plus(times(tap, number(along.taps)), "kh");
        const std::string vector = times(plus(times(of_tap, number(axes_.back().taps)), "kw"), number(block_ / 4));
        const std::string first =
            minus(times("r", number(along.down / own.step)), times("kh", number(along.dil / own.step)));
        if (!apart) over("kh", along.taps);
        over("c", block_ / 4);
        if (apart) {
            body.line("float part[" + number(rows_) + "][" + number(lanes) + "] = {};");
            over("kh", along.taps);
        }
        body.line("const float4 v = tf_weights[" + plus(vector, "c") + "];");
        over("r", rows_);
        body.line("const float here = x[" + plus(first, number(own.before / own.step)) + "];");
        for (int64_t lane = 0; lane < lanes; ++lane) {
            const std::string to = apart ? "part[r][" + number(lane) : "sums[r][" + plus("4 * c", number(lane));
            body.line(to + "] += v." + "xyzw"[lane] + " * here;");
        }
        body.close();
        if (apart) {
            body.close();
            over("r", rows_);
            over("lane", lanes);
            body.line("sums[r][4 * c + lane] += part[r][lane];");
            body.close();
        }
        body.close();
        body.close();
    }

    // The chain on each sum, and the stores. What varies with the channel alone is read once for all rows.
    void finish(const std::string& first) {
        Body& body = *body_;
        const size_t rank = at_.size(), h = rank - 2;
        body.line("#pragma unroll");
        emitter_->open("for (int c = 0; c < " + number(block_) + "; ++c)");
        const std::string channel = let(plus(first, "c"), "channel");
        if (cout_ % block_) emitter_->open("if (" + channel + " < " + number(cout_) + ")");
        Index at = at_;
        at[1] = {channel};
        const std::string shift = shift_of(channel);
        for (const TileStep& step : s_.pass.steps)
            for (ValueId arg : graph_[step.value].args)
                if (step.scope == Scope::tile && step.value != anchor_ && varies_with_channel_alone(arg)) {
                    Index of(graph_[arg].type.shape.size(), Coordinate{"0"});
                    if (of.size() + 1 >= rank)
                        of[of.size() + 1 - rank] = {graph_[arg].type.shape[of.size() + 1 - rank] == 1 ? "0" : channel};
                    emitter_->value(arg, of);
                }
        body.line("#pragma unroll");
        emitter_->open("for (int r = 0; r < " + number(rows_) + "; ++r)");
        const std::string row = let(plus(at_[h].text, "r"), "row");
        at[h] = {row};
        emitter_->open("if (" + row + " < " + integer(graph_[anchor_].type.shape[h]) + ")");
        const std::string sum = emitter_->let("float", "sums[r][c]" + shift, "v");
        emitter_->remember(anchor_, at, Lanes{{sum}, {}, Real::f32});
        for (const Sink& sink : sinks_) {
            const Lanes lanes = emitter_->value(sink.value, at);
            const std::string pointer =
                parameters_->pointer(sink.place.base, std::string(storage_name(sink.place.storage)), false);
            std::string offset = "0";
            for (size_t a = 0; a < rank; ++a) offset = plus(offset, times(at[a].text, integer(sink.place.strides[a])));
            body.line("tf_store(" + pointer + " + " + offset + ", " + lanes[0] + ");");
        }
        emitter_->close();
        emitter_->close();
        if (cout_ % block_) emitter_->close();
        emitter_->close();
    }

    bool bias_in_parts() const { return bias_ >= 0 && loses_as_float(s_, bias_); }

    // What is added to the sums of a channel: nothing, the bias, or its parts, the small one first.
    std::string shift_of(const std::string& channel) {
        if (bias_ < 0) return "";
        if (!bias_in_parts()) return " + (float)" + emitter_->value(bias_, {{channel}})[0];
        const std::string parts = parameters_->pointer(Argument::of_packed(s_.number), "const float", false);
        const std::string low = body_->fresh("low"), high = body_->fresh("high");
        body_->line("const float " + low + " = " + parts + "[" + plus(number(cout_), channel) + "], " + high + " = " +
                    parts + "[" + channel + "];");
        return " + " + low + " + " + high;
    }

    bool varies_with_channel_alone(ValueId v) const {
        if (is_literal(graph_, v) || !places_.contains(view_root(s_.plan, v))) return false;
        const Sizes& shape = graph_[v].type.shape;
        for (size_t a = 0; a < shape.size(); ++a)
            if (a + at_.size() != shape.size() + 1 && shape[a] != 1) return false;
        return true;
    }

    const Places& places_;
    int64_t block_ = 4, rows_ = 1;
    int64_t at_once_ =
        1;      // input channels whose weights lie in shared memory together, and whose products are added first
    Index at_;  // of the thread's first output; the channel is open
    Body* body_ = nullptr;
    Emitter* emitter_ = nullptr;
    Parameters* parameters_ = nullptr;
};

}  // namespace

void stage_weights(Emitter& emitter, ValueId w, const Lattices& axes, const WeightBlock& block,
                   const std::string& count) {
    Body& body = emitter.body();
    auto let = [&](const std::string& text, std::string_view prefix) { return emitter.let("int", text, prefix); };
    emitter.open("for (int i = (int)threadIdx.x; i < " + count + "; i += " + number(block.threads) + ")");
    const std::string channel = let(plus(block.first, "(i % " + number(block.channels) + ")"), "channel");
    std::string rest = let("i / " + number(block.channels), "k");
    Index index(axes.size() + 3, Coordinate{"0"});
    for (size_t a = axes.size(); a-- > 0;) {
        if (axes[a].taps == 1) continue;
        index[a + 3] = {let(rest + " % " + number(axes[a].taps), "k")};
        rest = let(rest + " / " + number(axes[a].taps), "k");
    }
    index[1] = {block.first_input.empty() ? rest : plus(rest, block.first_input)}, index[2] = {channel};
    body.line("float weight = 0.0f;");
    const bool cut = block.all_channels % block.channels != 0;
    if (cut) emitter.open("if (" + channel + " < " + number(block.all_channels) + ")");
    body.line("weight = (float)" + emitter.value(w, index)[0] + ";");
    if (cut) emitter.close();
    body.line("((float*)tf_weights)[i] = weight;");
    emitter.close();
}

std::optional<Offer> offer_thin(const Surroundings& surroundings, const Places& places, const std::vector<Sink>& sinks,
                                std::string* why_not) {
    for (const Sink& sink : sinks)
        if (surroundings.plan.graph[sink.value].type.shape !=
            surroundings.plan.graph[surroundings.pass.anchor].type.shape) {
            if (why_not) *why_not = "a store of another shape";
            return std::nullopt;
        }
    const auto writer = std::make_shared<ThinWriter>(surroundings, places, sinks);
    if (!writer->arrange(why_not)) return std::nullopt;
    return Offer{.write = [writer] { return writer->write(); }};
}

}  // namespace transfuse::cuda
