// Cell u holds the outputs o = up·u + r, one for every phase r. A tap belongs to the phases it reaches, and meets the
// input u + shift there; so a thread loads the few inputs its two cells meet, and for each phase multiplies those by the
// weights of the phase's taps (shared memory, the same for all threads). The chain then has every channel of an output:
// reductions over channels are loops over registers. A pool whose windows are cells collects over the phases. Reductions
// over space are collected over all cells of a thread and leave a slot for each block.
#include "cuda/cells.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "cuda/kernel_text.h"
#include "cuda/variance_beside.h"
#include "plan/fusion.h"

namespace transfuse::cuda {

namespace {

constexpr int64_t threads = 128, resident = 3, cells = 2;
constexpr int64_t most_inputs = 48;    // of a thread, in registers
constexpr int64_t most_channels = 16;  // a sum each, for every cell
constexpr int64_t most_input_channels = 4;  // more of them are tensor cores' work

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

struct PhaseTap {
    int64_t tap, shift;
};

class CellWriter {
public:
    CellWriter(const Surroundings& s, const Places& places, const std::vector<Sink>& sinks)
        : s_(s),
          graph_(s.plan.graph),
          places_(places),
          sinks_(sinks),
          anchor_(s.pass.anchor),
          kernel_(s, places),
          body_(kernel_.body),
          emitter_(kernel_.emitter) {}

    bool arrange(std::string* why_not) {
        auto refuse = [&](const char* why) {
            if (why_not) *why_not = why;
            return false;
        };
        const Node& node = graph_[anchor_];
        x_ = node.args[0], w_ = node.args[1];
        if (node.args.size() > 2) bias_ = node.args[2];
        const Type &x = graph_[x_].type, &w = graph_[w_].type;
        if (x.dtype == DType::f64 || w.dtype == DType::f64) return refuse("float64 products");
        cin_ = w.shape[1], cout_ = w.shape[2];
        if (w.shape[0] != 1 || cin_ > most_input_channels || cout_ > most_channels) return refuse("many channels");
        if (cout_ == 1) return refuse("one channel");
        if (numel(x.shape) >= int64_t{1} << 31 || numel(node.type.shape) >= int64_t{1} << 31)
            return refuse("more than 2^31 elements");
        axes_ = lattices(graph_, anchor_);
        if (axes_.size() < 2) return refuse("one axis");
        int64_t inputs = cin_;
        for (const Lattice& axis : axes_) {
            if (axis.down != 1 || axis.in < 1 || axis.out < 1) return refuse("strides");
            phases_.emplace_back(static_cast<size_t>(axis.up));
            int64_t least = 0, most = 0;
            for (int64_t k = 0; k < axis.taps; ++k)
                for (int64_t r = 0; r < axis.up; ++r) {
                    const int64_t reach = r + axis.offset - axis.dil * k;
                    if (reach % axis.up != 0) continue;
                    phases_.back()[static_cast<size_t>(r)].push_back({k, floor_div(reach, axis.up)});
                    least = std::min(least, floor_div(reach, axis.up)), most = std::max(most, floor_div(reach, axis.up));
                }
            least_.push_back(least);
            reach_.push_back(most - least + 1);
            phase_count_ *= axis.up;
        }
        reach_.back() += cells - 1;
        for (int64_t reach : reach_) inputs *= reach;
        if (inputs > most_inputs) return refuse("many inputs a cell");
        if (phase_count_ == 1) return refuse("no phases");
        if (!read_steps(refuse)) return false;
        // Tensor cores that round their factors are faster, but where channels are reduced (H200: f12 .19 ms against .20).
        auto reduces = [&](ValueId v) { return is_reduction(graph_[v].op); };
        const bool strict = s_.precision == Fp32Precision::strict && x.dtype == DType::f32;
        return strict || std::any_of(early_.begin(), early_.end(), reduces) ||
               std::any_of(late_.begin(), late_.end(), reduces) || refuse("factors that may be rounded");
    }

    GridProgram write() {
        channels_ = (cout_ + 3) / 4 * 4;
        const Sizes& out = graph_[anchor_].type.shape;
        pairs_ = 1;
        for (size_t a = 0; a < axes_.size(); ++a) {
            const int64_t own = (out[a + 2] + axes_[a].up - 1) / axes_[a].up;
            cell_extent_.push_back(a + 1 == axes_.size() ? (own + cells - 1) / cells : own);
            pairs_ *= cell_extent_.back();
        }
        slices_ = s_.target.decide(std::clamp<int64_t>(resident * s_.target.multiprocessors / out[0], 1,
                                                       (pairs_ + threads - 1) / threads));
        GridProgram result;
        int64_t scratch = 0;
        for (ValueId v : grid_)
            if (with_var(v) < 0) place(v, result, scratch);
        for (ValueId v : grid_)
            if (with_var(v) >= 0) result.grid.emplace(v, result.grid.at(with_var(v)));
        for (auto* list : {&grid_, &early_grid_, &late_grid_}) std::erase_if(*list, [&](ValueId v) { return with_var(v) >= 0; });
        write_body();
        result.program.launches.push_back(kernel_.launch(
            "tf_cells", out[0] * slices_, threads,
            "thin product by cells" + to_string(out) + ", " + number(phase_count_) + " phases of " + number(cells) +
                " cells x " + number(cout_) + " channels a thread",
            "", resident));
        result.program.scratch_bytes = static_cast<size_t>(scratch);
        result.program.note = result.program.launches[0].note;
        return result;
    }

private:
    template <class Refuse>
    bool read_steps(const Refuse& refuse) {
        std::set<ValueId> before{anchor_};
        for (const TileStep& step : s_.pass.steps) {
            const Node& node = graph_[step.value];
            if (step.scope == Scope::grid) {
                const Sizes& dims = node.attributes.integers(Key::dims);
                const bool known = node.op == Op::sum || node.op == Op::mean || node.op == Op::var ||
                                   node.op == Op::amax || node.op == Op::amin;
                if (!known || graph_[node.args[0]].type.rank() != graph_[anchor_].type.rank())
                    return refuse("a reduction of its own kind");
                for (int64_t axis = 2; axis < graph_[anchor_].type.rank(); ++axis)
                    if (std::find(dims.begin(), dims.end(), axis) == dims.end()) return refuse("reductions over a part of space");
                if (std::find(dims.begin(), dims.end(), 1) != dims.end()) return refuse("reductions over channels and space");
                const Sizes& of = graph_[node.args[0]].type.shape;
                const Sizes& grid = graph_[pool_ >= 0 && !before.count(node.args[0]) ? pool_ : anchor_].type.shape;
                if (of != grid) return refuse("a reduction of what is broadcast");
                grid_.push_back(step.value);
            } else if (step.scope == Scope::tile && step.value != anchor_) {
                if (is_pointwise(node.op) || is_reduction(node.op)) {
                    const bool known = !is_reduction(node.op) || node.op == Op::sum || node.op == Op::mean ||
                                       node.op == Op::amax || node.op == Op::amin || node.op == Op::logsumexp;
                    if (!known) return refuse("a reduction over channels of its own kind");
                    const bool early = std::any_of(node.args.begin(), node.args.end(), [&](ValueId a) { return before.count(a) > 0; });
                    (early ? early_ : late_).push_back(step.value);
                    if (early) before.insert(step.value);
                } else {
                    const auto pool = tile_pool(graph_, step.value);
                    if (!pool || pool_ >= 0) return refuse("a pool of its own kind");
                    for (size_t a = 0; a < axes_.size(); ++a)
                        if (pool->window[a] != axes_[a].up) return refuse("windows that are no cells");
                    pool_ = step.value;
                    pool_kind_ = *pool;
                }
            }
        }
        // Values that come of reads alone stand where they are used.
        if (pool_ < 0) early_.insert(early_.end(), late_.begin(), late_.end()), late_.clear(), std::sort(early_.begin(), early_.end());
        for (ValueId v : grid_) (pool_ >= 0 && !before.count(graph_[v].args[0]) ? late_grid_ : early_grid_).push_back(v);
        for (const Sink& sink : sinks_) {
            if (std::none_of(s_.pass.steps.begin(), s_.pass.steps.end(),
                             [&](const TileStep& step) { return step.value == sink.value; }))
                return refuse("a store of another shape");
            const bool late = pool_ >= 0 && !before.count(sink.value);
            // Neighbouring threads' cells are far apart in memory. H200: 1.92 ms for a tensor that tensor cores store in 0.77.
            if (!late && has_channels(sink.value)) return refuse("outputs that are stored");
            (late ? late_sinks_ : early_sinks_).push_back(&sink);
            if (graph_[sink.value].type.rank() != graph_[anchor_].type.rank()) return refuse("a store of another rank");
        }
        return true;
    }

    // The var whose sums hold those of a mean; -1: none.
    ValueId with_var(ValueId v) const { return variance_beside(graph_, v, grid_); }

    // A slot a block: sums, sums of squares, extrema, in fp64.
    void place(ValueId v, GridProgram& result, int64_t& scratch) {
        const Node& node = graph_[v];
        const Sizes& dims = node.attributes.integers(Key::dims);
        const bool batch = std::find(dims.begin(), dims.end(), 0) != dims.end(), keepdim = node.attributes.flag(Key::keepdim);
        const int64_t n = graph_[anchor_].type.shape[0];
        Place place;
        place.base = Argument::of_scratch(scratch);
        place.storage = DType::f64;
        place.aligned = true;
        place.read_only = false;
        place.strides.assign(node.type.shape.size(), 0);
        // [component][n][slice][channel]
        if (!batch) place.strides[0] = slices_ * cout_;
        place.strides[batch && !keepdim ? 0 : 1] = 1;
        place.partials = Partials{batch ? n * slices_ : slices_, cout_, n * slices_ * cout_, false};
        result.grid.emplace(v, place);
        slot_at_[v] = scratch;
        scratch += (node.op == Op::var ? 2 : 1) * n * slices_ * cout_ * 8;
    }

    std::string integer(int64_t value) { return kernel_.integer(value); }
    std::string let(const std::string& text, std::string_view prefix) { return kernel_.let(text, prefix); }
    static std::string name_of(ValueId v) { return "value" + number(v); }

    void write_body() {
        const size_t rank = axes_.size();
        int64_t taps = 1;
        for (const Lattice& axis : axes_) taps *= axis.taps;
        body_.line("__shared__ float4 tf_weights[" + number(cin_ * taps * channels_ / 4) + "];  // [input channel][tap][channel]");
        body_.line("__shared__ float tf_bias[" + number(channels_) + "];");
        if (!grid_.empty()) body_.line("__shared__ double tf_parts[" + number(threads / 32) + "][" + number(2 * channels_) + "];");
        body_.line("TF_SEQUENCE();");
        stage_weights(taps);
        const std::string n = let("(int)blockIdx.x / " + integer(slices_), "image"), slice = let("(int)blockIdx.x % " + integer(slices_), "slice");
        for (ValueId v : grid_) declare(v);
        emitter_.open("for (int pair = " + slice + " * " + number(threads) + " + (int)threadIdx.x; pair < " + integer(pairs_) +
                      "; pair += " + integer(slices_) + " * " + number(threads) + ")");
        std::vector<std::string> u(rank);
        std::string rest = "pair";
        for (size_t a = rank; a-- > 0;) {
            if (a == 0) {
                u[a] = rest;
                break;
            }
            const std::string q = let(kernel_.parameters.quotient(rest, cell_extent_[a], true), "q");
            u[a] = let(kernel_.parameters.remainder(rest, q, cell_extent_[a], true), "u");
            rest = q;
        }
        u[rank - 1] = let(u[rank - 1] + " * " + number(cells), "u");
        load_inputs(n, u);
        if (pool_ >= 0) {
            const std::string start = pool_kind_.kind == TilePool::Kind::sum ? "0.0f" : pool_kind_.kind == TilePool::Kind::max ? "-__int_as_float(0x7f800000)" : "__int_as_float(0x7f800000)";
            body_.line("float pool[" + number(cells) + "][" + number(channels_) + "];");
            body_.line("for (int q = 0; q < " + number(cells) + "; ++q) for (int c = 0; c < " + number(channels_) + "; ++c) pool[q][c] = " + start + ";");
        }
        body_.line("#pragma unroll 1");
        emitter_.open("for (int phase = 0; phase < " + number(phase_count_) + "; ++phase)");
        body_.line("asm volatile(\"\" ::: \"memory\");  // weights are loaded here and not kept: there are too many");
        body_.line("float sums[" + number(cells) + "][" + number(channels_) + "] = {};");
        body_.open("switch (phase)");
        for (int64_t phase = 0; phase < phase_count_; ++phase) multiply(phase);
        body_.close();
        std::vector<std::string> r(rank);
        std::string of = "phase";
        for (size_t a = rank; a-- > 0;) {
            r[a] = axes_[a].up == 1 ? "0" : a == 0 ? of : let(of + " % " + number(axes_[a].up), "r");
            if (axes_[a].up > 1 && a > 0) of = let(of + " / " + number(axes_[a].up), "r");
        }
        body_.line("#pragma unroll");
        emitter_.open("for (int q = 0; q < " + number(cells) + "; ++q)");
        Index at = {{n}, {"0"}};
        std::string inside;
        for (size_t a = 0; a < rank; ++a) {
            const std::string cell = a + 1 == rank ? "(" + u[a] + " + q)" : u[a];
            at.push_back({let(plus(times(cell, number(axes_[a].up)), r[a]), "o")});
            inside += (a ? " && " : "") + at.back().text + " < " + integer(axes_[a].out);
        }
        emitter_.open("if (" + inside + ")");
        chain(anchor_, "sums[q][c] + tf_bias[c]", early_, early_grid_, early_sinks_, at);
        if (pool_ >= 0) collect(at);
        emitter_.close();
        emitter_.close();
        emitter_.close();
        if (pool_ >= 0) finish_pool(n, u);
        emitter_.close();
        for (ValueId v : grid_) leave(v, n, slice);
    }

    void stage_weights(int64_t taps) {
        emitter_.open("for (int i = (int)threadIdx.x; i < " + number(cin_ * taps * channels_) + "; i += " + number(threads) + ")");
        const std::string channel = let("i % " + number(channels_), "channel");
        std::string rest = let("i / " + number(channels_), "k");
        Index index(axes_.size() + 3, Coordinate{"0"});
        for (size_t a = axes_.size(); a-- > 0;) {
            if (axes_[a].taps == 1) continue;
            index[a + 3] = {let(rest + " % " + number(axes_[a].taps), "k")};
            rest = let(rest + " / " + number(axes_[a].taps), "k");
        }
        index[1] = {rest}, index[2] = {channel};
        body_.line("float weight = 0.0f;");
        if (cout_ % 4) emitter_.open("if (" + channel + " < " + number(cout_) + ")");
        body_.line("weight = (float)" + emitter_.value(w_, index)[0] + ";");
        if (cout_ % 4) emitter_.close();
        body_.line("((float*)tf_weights)[i] = weight;");
        emitter_.close();
        emitter_.open("if ((int)threadIdx.x < " + number(channels_) + ")");
        body_.line("float bias = 0.0f;");
        if (bias_ >= 0) {
            emitter_.open("if ((int)threadIdx.x < " + number(cout_) + ")");
            body_.line("bias = (float)" + emitter_.value(bias_, {{"(int)threadIdx.x"}})[0] + ";");
            emitter_.close();
        }
        body_.line("tf_bias[threadIdx.x] = bias;");
        emitter_.close();
        body_.line("__syncthreads();");
    }

    // All inputs the two cells meet.
    void load_inputs(const std::string& n, const std::vector<std::string>& u) {
        const size_t rank = axes_.size();
        std::string extents = "[" + number(cin_) + "]";
        for (int64_t reach : reach_) extents += "[" + number(reach) + "]";
        body_.line("float x" + extents + ";");
        std::string element = "x[ci]";
        body_.line("#pragma unroll");
        emitter_.open("for (int ci = 0; ci < " + number(cin_) + "; ++ci)");
        Index at = {{n}, {"ci"}};
        std::string inside;
        for (size_t a = 0; a < rank; ++a) {
            const std::string s = "s" + number(static_cast<int64_t>(a));
            body_.line("#pragma unroll");
            emitter_.open("for (int " + s + " = 0; " + s + " < " + number(reach_[a]) + "; ++" + s + ")");
            at.push_back({let(plus(u[a], s) + " + " + number(least_[a]), "i")});
            inside += (a ? " && " : "") + at.back().text + " >= 0 && " + at.back().text + " < " + integer(axes_[a].in);
            element += "[" + s + "]";
        }
        body_.line(element + " = 0.0f;");
        emitter_.open("if (" + inside + ")");
        body_.line(element + " = (float)" + emitter_.value(x_, at)[0] + ";");
        emitter_.close();
        for (size_t a = 0; a <= rank; ++a) emitter_.close();
    }

    void multiply(int64_t phase) {
        const size_t rank = axes_.size();
        std::vector<const std::vector<PhaseTap>*> own(rank);
        int64_t rest = phase;
        for (size_t a = rank; a-- > 0;) {
            own[a] = &phases_[a][static_cast<size_t>(rest % axes_[a].up)];
            rest /= axes_[a].up;
        }
        body_.open("case " + number(phase) + ":");
        int64_t taps = 1, count = 1;
        for (const Lattice& axis : axes_) taps *= axis.taps;
        for (const auto* list : own) count *= static_cast<int64_t>(list->size());
        if (count > 0) {
            body_.line("#pragma unroll");
            body_.open("for (int ci = 0; ci < " + number(cin_) + "; ++ci)");
            body_.line("#pragma unroll");
            body_.open("for (int c = 0; c < " + number(channels_ / 4) + "; ++c)");
            for (int64_t i = 0; i < count; ++i) {
                int64_t at = i, tap = 0;
                std::vector<PhaseTap> met(rank);
                for (size_t a = rank; a-- > 0;) {
                    met[a] = (*own[a])[static_cast<size_t>(at) % own[a]->size()];
                    at /= static_cast<int64_t>(own[a]->size());
                }
                std::string x = "x[ci]";
                for (size_t a = 0; a < rank; ++a) {
                    tap = tap * axes_[a].taps + met[a].tap;
                    x += "[" + number(met[a].shift - least_[a]) + (a + 1 == rank ? " + q]" : "]");
                }
                body_.line("{ const float4 v = tf_weights[(ci * " + number(taps) + " + " + number(tap) + ") * " +
                           number(channels_ / 4) + " + c];");
                body_.line("  _Pragma(\"unroll\") for (int q = 0; q < " + number(cells) + "; ++q) { const float y = " + x +
                           "; sums[q][4 * c] += v.x * y; sums[q][4 * c + 1] += v.y * y; sums[q][4 * c + 2] += v.z * y; "
                           "sums[q][4 * c + 3] += v.w * y; } }");
            }
            body_.close();
            body_.close();
        }
        body_.line("break;");
        body_.close();
    }

    std::string each_channel() const { return "_Pragma(\"unroll\") for (int c = 0; c < " + number(cout_) + "; ++c)"; }
    Index with_channel(Index at, ValueId v) const {
        at[1] = {graph_[v].type.rank() == static_cast<int64_t>(at.size()) && graph_[v].type.shape[1] == 1 ? "0" : "c"};
        return at;
    }
    // A value's index: the last axes of its grid's.
    Index own_index(ValueId v, const Index& at) const {
        Index own = with_channel(at, v);
        const auto rank = static_cast<size_t>(graph_[v].type.rank());
        own.erase(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(own.size() - rank));
        const Sizes& shape = graph_[v].type.shape;
        for (size_t a = 0; a < rank; ++a)
            if (shape[a] == 1) own[a] = {"0"};
        return own;
    }
    bool has_channels(ValueId v) const {
        const Sizes& shape = graph_[v].type.shape;
        const size_t rank = axes_.size() + 2;
        return shape.size() + 1 >= rank && shape[shape.size() + 1 - rank] != 1;
    }

    // Steps one after another on all channels of an output, then what is collected and stored of them.
    void chain(ValueId first, const std::string& start, const std::vector<ValueId>& steps, const std::vector<ValueId>& grid,
               const std::vector<const Sink*>& sinks, const Index& at) {
        std::vector<ValueId> known{first};
        body_.line("float " + name_of(first) + "[" + number(cout_) + "];");
        body_.line(each_channel() + " " + name_of(first) + "[c] = " + start + ";");
        auto remember = [&] {
            for (ValueId v : known)
                emitter_.remember(v, own_index(v, at), Lanes{{name_of(v) + (has_channels(v) ? "[c]" : "")}, {}, Real::f32});
        };
        for (ValueId v : steps) {
            const Node& node = graph_[v];
            if (is_reduction(node.op)) {
                over_channels(v);
            } else if (has_channels(v)) {
                body_.line("float " + name_of(v) + "[" + number(cout_) + "];");
                emitter_.open(each_channel());
                remember();
                body_.line(name_of(v) + "[c] = (float)" + emitter_.value(v, own_index(v, at))[0] + ";");
                emitter_.close();
            } else {
                body_.line("float " + name_of(v) + ";");
                emitter_.open("");
                remember();
                body_.line(name_of(v) + " = (float)" + emitter_.value(v, own_index(v, at))[0] + ";");
                emitter_.close();
            }
            known.push_back(v);
        }
        for (ValueId v : grid) add(v);
        for (const Sink* sink : sinks) {
            const std::string pointer = kernel_.parameters.pointer(sink->place.base, std::string(storage_name(sink->place.storage)), false);
            emitter_.open(has_channels(sink->value) ? each_channel() : std::string());
            remember();
            const Index own = own_index(sink->value, at);
            std::string offset = "0";
            for (size_t a = 0; a < own.size(); ++a) offset = plus(offset, times(own[a].text, integer(sink->place.strides[a])));
            body_.line("tf_store(" + pointer + " + " + offset + ", " + emitter_.value(sink->value, own)[0] + ");");
            emitter_.close();
        }
    }

    void over_channels(ValueId v) {
        const Node& node = graph_[v];
        const std::string name = name_of(v), of = name_of(node.args[0]) + (has_channels(node.args[0]) ? "[c]" : "");
        const std::string loop = has_channels(node.args[0]) ? each_channel() + " " : "";
        const std::string infinity = "__int_as_float(0x7f800000)";
        if (node.op == Op::sum || node.op == Op::mean) {
            body_.line("float " + name + " = 0.0f;");
            body_.line(loop + name + " += " + of + ";");
            if (node.op == Op::mean && !loop.empty()) body_.line(name + " *= " + literal(1.0 / static_cast<double>(cout_), Real::f32) + ";");
            return;
        }
        const bool least = node.op == Op::amin;
        const std::string peak = node.op == Op::logsumexp ? name + "_peak" : name;
        body_.line("float " + peak + " = " + (least ? "" : "-") + infinity + ";");
        body_.line(loop + peak + " = " + (least ? "tf_min(" : "tf_max(") + peak + ", " + of + ");");
        if (node.op != Op::logsumexp) return;
        body_.line("float " + name + " = 0.0f;");
        body_.line("const float " + name + "_pivot = " + peak + " - " + peak + " == 0.0f ? " + peak + " : 0.0f;");
        body_.line(loop + name + " += tf_exp(" + of + " - " + name + "_pivot);");
        body_.line(name + " = logf(" + name + ") + " + name + "_pivot;");
    }

    void collect(const Index&) {
        const std::string of = name_of(graph_[pool_].args[0]) + "[c]";
        const std::string joined = pool_kind_.kind == TilePool::Kind::sum   ? "pool[q][c] + " + of
                                   : pool_kind_.kind == TilePool::Kind::max ? "tf_max(pool[q][c], " + of + ")"
                                                                            : "tf_min(pool[q][c], " + of + ")";
        body_.line(each_channel() + " pool[q][c] = " + joined + ";");
    }

    void finish_pool(const std::string& n, const std::vector<std::string>& u) {
        const size_t rank = axes_.size();
        const Sizes& shape = graph_[pool_].type.shape;
        body_.line("#pragma unroll");
        emitter_.open("for (int q = 0; q < " + number(cells) + "; ++q)");
        Index at = {{n}, {"0"}};
        std::string inside;
        for (size_t a = 0; a < rank; ++a) {
            at.push_back({a + 1 == rank ? let(u[a] + " + q", "o") : u[a]});
            inside += (a ? " && " : "") + at.back().text + " < " + integer(shape[a + 2]);
        }
        emitter_.open("if (" + inside + ")");
        const std::string start = pool_kind_.kind == TilePool::Kind::sum ? "pool[q][c] * " + literal(pool_kind_.scale, Real::f32) : "pool[q][c]";
        chain(pool_, start, late_, late_grid_, late_sinks_, at);
        emitter_.close();
        emitter_.close();
    }

    // Sums of a thread, about its own first value: short, and small where values are near each other.
    void declare(ValueId v) {
        const std::string name = "grid" + number(v), C = "[" + number(cout_) + "]";
        const Op op = graph_[v].op;
        if (op == Op::amax || op == Op::amin) {
            body_.line("float " + name + C + ";");
            body_.line(each_channel() + " " + name + "[c] = " + (op == Op::amax ? "-" : "") + "__int_as_float(0x7f800000);");
            return;
        }
        body_.line("float " + name + C + " = {}, " + name + "_pivot" + C + " = {};");
        if (op == Op::var) body_.line("float " + name + "_squares" + C + " = {};");
        body_.line("int " + name + "_count = 0;");
    }
    void add(ValueId v) {
        const std::string name = "grid" + number(v), of = name_of(graph_[v].args[0]) + "[c]";
        const Op op = graph_[v].op;
        if (op == Op::amax || op == Op::amin) {
            body_.line(each_channel() + " " + name + "[c] = " + (op == Op::amax ? "tf_max(" : "tf_min(") + name + "[c], " + of + ");");
            return;
        }
        body_.line("if (" + name + "_count == 0) { " + each_channel() + " " + name + "_pivot[c] = " + of + "; }");
        body_.line("++" + name + "_count;");
        body_.line(each_channel() + " { const float d = " + of + " - " + name + "_pivot[c]; " + name + "[c] += d;" +
                   (op == Op::var ? " " + name + "_squares[c] += d * d;" : "") + " }");
    }
    // From threads to the block's slot, in fp64 and in a fixed order.
    void leave(ValueId v, const std::string& n, const std::string& slice) {
        const std::string name = "grid" + number(v);
        const Op op = graph_[v].op;
        const bool extremum = op == Op::amax || op == Op::amin;
        const int64_t components = op == Op::var ? 2 : 1;
        body_.line("#pragma unroll");
        body_.open("for (int c = 0; c < " + number(cout_) + "; ++c)");
        std::vector<std::string> parts = {name + "_0", name + "_1"};
        if (extremum) {
            body_.line("double " + parts[0] + " = (double)" + name + "[c];");
        } else {
            body_.line("const double pivot = (double)" + name + "_pivot[c], count = (double)" + name + "_count;");
            body_.line("double " + parts[0] + " = (double)" + name + "[c] + pivot * count;");
            if (components > 1)
                body_.line("double " + parts[1] + " = (double)" + name + "_squares[c] + pivot * (2.0 * (double)" + name + "[c] + pivot * count);");
        }
        const std::string join = op == Op::amax ? "tf_max(" : "tf_min(";
        for (int64_t i = 0; i < components; ++i) {
            const std::string& part = parts[static_cast<size_t>(i)];
            body_.line("for (int k = 16; k > 0; k /= 2) { const double other = __shfl_down_sync(0xffffffffu, " + part + ", k); " + part + " = " +
                       (extremum ? join + part + ", other)" : part + " + other") + "; }");
            body_.line("if (threadIdx.x % 32 == 0) tf_parts[threadIdx.x / 32][c + " + number(i * channels_) + "] = " + part + ";");
        }
        body_.close();
        body_.line("__syncthreads();");
        const std::string pointer = kernel_.parameters.pointer(Argument::of_scratch(slot_at_.at(v)), "double", false);
        body_.open("if ((int)threadIdx.x < " + number(components * cout_) + ")");
        body_.line("const int part = (int)threadIdx.x / " + number(cout_) + ", c = (int)threadIdx.x % " + number(cout_) + ";");
        body_.line("double whole = tf_parts[0][part * " + number(channels_) + " + c];");
        body_.line("for (int i = 1; i < " + number(threads / 32) + "; ++i) { const double other = tf_parts[i][part * " + number(channels_) +
                   " + c]; whole = " + (extremum ? join + "whole, other)" : "whole + other") + "; }");
        body_.line(pointer + "[((long long)part * " + integer(graph_[anchor_].type.shape[0]) + " + " + n + ") * (" +
                   integer(slices_) + " * " + number(cout_) + ") + " + slice + " * " + number(cout_) + " + c] = whole;");
        body_.close();
        body_.line("__syncthreads();");
    }

    const Surroundings& s_;
    const Graph& graph_;
    const Places& places_;
    const std::vector<Sink>& sinks_;
    const ValueId anchor_;
    KernelText kernel_;
    Body& body_;
    Emitter& emitter_;
    ValueId x_ = -1, w_ = -1, bias_ = -1, pool_ = -1;
    TilePool pool_kind_{};
    std::vector<Lattice> axes_;
    std::vector<std::vector<std::vector<PhaseTap>>> phases_;  // [axis][phase]
    std::vector<int64_t> least_, reach_, cell_extent_;       // of each axis: the least shift, how many inputs, how many cells
    std::vector<ValueId> early_, late_, grid_, early_grid_, late_grid_;  // before the pool and behind it
    std::vector<const Sink*> early_sinks_, late_sinks_;
    std::unordered_map<ValueId, int64_t> slot_at_;
    int64_t cin_ = 1, cout_ = 1, channels_ = 4, phase_count_ = 1, pairs_ = 1, slices_ = 1;
};

}  // namespace

std::optional<GridProgram> generate_cells(const Surroundings& surroundings, const Places& places,
                                          const std::vector<Sink>& sinks, std::string* why_not) {
    CellWriter writer(surroundings, places, sinks);
    if (!writer.arrange(why_not)) return std::nullopt;
    return writer.write();
}

}  // namespace transfuse::cuda
