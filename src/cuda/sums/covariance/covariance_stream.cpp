#include "cuda/sums/covariance/covariance_stream.h"

#include <algorithm>

#include "algebra/lattice/integer.h"
#include "cuda/sums/covariance/figures.h"

namespace transfuse::cuda {

using namespace figures::covariance;

void CovarianceStream::divide(int64_t channel_block, int64_t most_lags) {
    const AxisLags &deep = axes_[0], &high = axes_[1], &wide = axes_[2];
    channel_block_ = channel_block;
    channel_blocks_ = ceil_div(channels_, channel_block_);
    sides_ = channel_blocks_ > 1 ? 2 : 1;
    // Of δ and −δ one: in the order of d, w, h those from zero on.
    const int64_t half = (deep.count() * wide.count() * high.count() + 1) / 2;
    lag_groups_ = ceil_div(half, most_lags);
    lags_ = ceil_div(half, lag_groups_);
    first_lag_ = wide.most * high.count() + high.most;
    last_lag_ = first_lag_ + half - 1;
    sums_ = lags_ * channel_block_ * channel_block_;
    tiles_ = channel_blocks_ * channel_blocks_ * lag_groups_;
}

void CovarianceStream::stage(int64_t rows, int64_t columns, bool fragments) {
    const AxisLags &deep = axes_[0], &high = axes_[1], &wide = axes_[2];
    rows_ = rows, chunk_ = columns;
    rows_before_ = deep.most > 0 || wide.most > 0 ? high.most * high.step : 0;
    columns_before_ = deep.most > 0 ? wide.most * wide.step : 0;
    reach_ = deep.most * deep.step;
    staged_rows_ = rows_before_ + rows_ + high.most * high.step;
    staged_columns_ = columns_before_ + chunk_ + wide.most * wide.step;
    if (fragments)
        staged_columns_ =
            (staged_columns_ + 3) / 8 * 8 + 4;  // odd multiples of four: rows of fragments touch every bank once
    plane_ = staged_rows_ * both() * staged_columns_;
    ring_ = reach_ + 2;  // one more than is read, so that nobody waits for those who still read
}

double CovarianceStream::column_work(int64_t deep_segment) const {
    const auto i = static_cast<size_t>(deep_segment);
    return static_cast<double>(axes_[0].edges[i + 1] - axes_[0].edges[i] + reach_);
}

void CovarianceStream::write_slot(Body& body) const {
    const AxisLags &high = axes_[1], &wide = axes_[2];
    const std::string C = number(channel_block_), B = number(channel_blocks_), L = number(lags_);
    body.line("const int which_lag = which ? 0 : (lag[0] * " + number(wide.count()) + " + lag[2]) * " +
              number(high.count()) + " + lag[1];");
    body.line("const int tile = ((group * " + B + " + ca / " + C + ") * " + B + " + (which ? 0 : cb / " + C + ")) * " +
              number(lag_groups_) + " + which_lag / " + L + ";");
    body.line("const int value = which ? " + number(sums_) + " + ca % " + C + " : (which_lag % " + L + " * " + C +
              " + ca % " + C + ") * " + C + " + cb % " + C + ";");
}

std::string CovarianceStream::tile() const {
    return "(((group * " + number(channel_blocks_) + " + first_block) * " + number(channel_blocks_) +
           " + second_block) * " + number(lag_groups_) + " + lag_group)";
}

void CovarianceStream::write_block(KernelText& k) const {
    Body& body = k.body;
    table(k, "tf_deep", axes_[0].edges), table(k, "tf_first", first_block_);
    write_runs(k);
    body.line("__shared__ " + element() + " tf_mean[" + number(both()) + "];");
    body.line("__syncthreads();");
    std::string rest = "(int)blockIdx.x";
    auto take = [&](int64_t extent, const char* name) {
        body.line("const int " + std::string(name) + " = " + rest + " % " + number(extent) + ";");
        rest = k.let(rest + " / " + number(extent), "q");
    };
    take(lag_groups_, "lag_group"), take(channel_blocks_, "second_block"), take(channel_blocks_, "first_block");
    take(groups_, "group");
    body.line("const int block = " + rest + ";");
    body.line("__shared__ int tf_part;");
    body.line("for (int i = (int)threadIdx.x; i < " + number(static_cast<int64_t>(first_block_.size()) - 1) +
              "; i += " + number(threads()) + ") if (tf_first[i] <= block && block < tf_first[i + 1]) tf_part = i;");
    body.line("__syncthreads();");
    body.line("const int part = tf_part, run = " + run_of("part") + ", tall = " + tall_of("part") +
              ", deep_segment = part % " + number(axes_[0].segments()) + ";");
    body.line("const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;");
    body.line("const int first_lag = " + number(first_lag_) + " + lag_group * " + number(lags_) + ";");
    body.line("const int first_d = tf_deep[deep_segment], planes = tf_deep[deep_segment + 1] - first_d;");
    body.line("const int stacks = (tf_tall_end[tall] - tf_tall_begin[tall] + " + number(rows_ - 1) + ") / " +
              number(rows_) + ", strips = (tf_run_end[run] - tf_run_begin[run] + " + number(chunk_ - 1) + ") / " +
              number(chunk_) + ";");
    body.line("const int steps = planes * stacks * strips * " + k.size(batch_) +
              ", blocks = tf_first[part + 1] - tf_first[part];");
    body.line("TF_SEQUENCE();");  // so far nothing was read that a kernel before this one writes
    if (centred_) write_means(k);
    body.line("int at = (int)((long long)steps * (block - tf_first[part]) / blocks);");
    body.line("const int end = (int)((long long)steps * (block - tf_first[part] + 1) / blocks);");
}

// Where the places of a column lie: its planes are steps that follow one another.
void CovarianceStream::write_column(Body& body, const std::string& n, const std::string& h,
                                    const std::string& w) const {
    body.line("const int place = column % strips, above = column / strips, stack = above % stacks;");
    body.line(n + " = above / stacks, " + h + " = tf_tall_begin[tall] + stack * " + number(rows_) + ", " + w +
              " = tf_run_begin[run] + place * " + number(chunk_) + ";");
}

// A cursor goes through the planes of the block's columns; from its step `position` on they are those of one column,
// from d to before `stop`, with what the last of them meet.
struct CovarianceStream::Cursor {
    std::string position, d, plane, stop, n, h, w;
};

// Functions of the kernel: where a cursor stands in the column of its step, which column that is, and where it lies.
void CovarianceStream::write_cursors(Body& body) const {
    body.line("auto column_of = [&](int step, int& d, int& plane, int& stop) {");
    body.line("d = plane = step % planes, stop = min(planes, d + end - step) + " + number(reach_) + ";");
    body.line("return step / planes;");
    body.line("};");
    body.line("auto lies_at = [&](int column, int& n, int& h, int& w) {");
    write_column(body, "n", "h", "w");
    body.line("};");
}

void CovarianceStream::write_locate(Body& body, const Cursor& c) const {
    const std::string column = "column_of(" + c.position + ", " + c.d + ", " + c.plane + ", " + c.stop + ")";
    body.line((c.n.empty() ? column : "lies_at(" + column + ", " + c.n + ", " + c.h + ", " + c.w + ")") + ";");
}

void CovarianceStream::write_advance(Body& body, const Cursor& c) const {
    body.open("if (++" + c.plane + " == " + c.stop + ")");
    body.line(c.position + " += " + c.stop + " - " + number(reach_) + " - " + c.d + ";");
    write_locate(body, c);
    body.close();
}

// A plane that has come is staged, then the one that now has all its partners is multiplied, while others are on their
// way.
void CovarianceStream::write_steps(KernelText& k, int64_t most_terms) {
    Body& body = k.body;
    const bool placed = products_read_places();
    const Cursor own = {"at", "d", "plane", "stop", placed ? "own_n" : "", "own_h", "own_w"},
                 next = {"next", "next_d", "next_plane", "next_stop", "n", "h", "w"};
    const int64_t batch = std::min(numbers(), most_early());
    const bool copies = copies_, early = copies || numbers() <= most_early();
    if (!copies) body.line(element() + " loaded[" + number(batch) + "];");
    write_places(k);
    body.line("int d, plane, stop, " + std::string(placed ? "own_n, own_h, own_w, " : "") +
              "next = at, next_d, next_plane, next_stop, n, h, w, slot = 0;");
    write_cursors(body);
    write_locate(body, placed ? own : Cursor{"at", "d", "plane", "stop", "n", "h", "w"});
    body.line("next_d = d, next_plane = plane, next_stop = stop" +
              std::string(placed ? ", n = own_n, h = own_h, w = own_w;" : ";"));
    auto issue = [&] {
        k.emitter.open("if (next < end)");
        if (copies)
            write_copies(k, "to");
        else
            write_load(k, "0", batch);
        write_advance(body, next);
        k.emitter.close();
    };
    if (copies) {
        body.line("auto bring = [&](int to) {");
        issue();
        body.line("tf_copy_commit();");
        body.line("};");
        body.line("int stage = 0;");
        body.line("#pragma unroll 1");
        body.line("for (int early = 0; early < " + number(stages) + "; ++early) bring(early);");
    } else if (early) {
        body.line("auto bring = [&]() {");
        issue();
        body.line("};");
        body.line("bring();");
    }
    if (most_terms) body.open("for (bool again = false; !again || at < end; again = true)");
    k.emitter.open(most_terms ? "for (int terms = 0; at < end && terms < " + number(most_terms) + ";)"
                              : std::string("while (at < end)"));
    if (copies) {
        body.line("tf_copy_wait<" + number(stages - 1) + ">();");
        write_copied(k);
        body.line("bring(stage);");
        body.line("stage = stage + 1 == " + number(stages) + " ? 0 : stage + 1;");
    } else if (early) {
        write_store(k, "0", batch);
        body.line("bring();");
    } else {
        body.line("#pragma unroll 1");
        k.emitter.open("for (int first = 0; first < " + number(numbers()) + "; first += " + number(batch) + ")");
        write_load(k, "first", batch), write_store(k, "first", batch);
        k.emitter.close();
        write_advance(body, next);
    }
    body.line("__syncthreads();");
    k.emitter.open("if (plane - " + number(reach_) + " >= d)");
    if (most_terms) body.line("++terms;");
    write_products(k);
    k.emitter.close();
    body.line("slot = slot + 1 == " + number(ring_) + " ? 0 : slot + 1;");
    write_advance(body, own);
    k.emitter.close();
    write_finish(k);
    if (most_terms) body.close();
}

// What a thread brings of every plane are the same places of it. Where they lie is found once: how far from the plane's
// corner in memory, and row, channel and column; negative where there is none.
void CovarianceStream::write_places(KernelText& k) const {
    Body& body = k.body;
    const std::string columns = number(staged_columns_), all = number(both());
    body.open("for (int i = 0; i < " + number(numbers()) + "; ++i)");
    body.line("const int e = i * " + number(threads()) + " + (int)threadIdx.x, line = e / " + columns +
              ", r = line / " + all + ", c = line % " + all + ", column = e % " + columns + ";");
    body.line("const int own = " + own_channel("c") + ";");
    std::string there = "e < " + number(plane_);
    if (channels_ % channel_block_) there += " && own < " + number(channels_);
    body.line("tf_places[2 * e] = " + (in_memory() ? offset(k, at("", "own", "", "r", "column")) : "own") + ";");
    body.line("tf_places[2 * e + 1] = " + there + " ? r << 24 | c << 16 | column : -1 << 24;");
    body.close();
}

// Of the thread's number i of a plane: its row and column, and whether that lies inside x.
void CovarianceStream::write_place(Body& body, const std::string& first) const {
    const std::string e =
        (first == "0" ? std::string("i") : "(" + first + " + i)") + " * " + number(threads()) + " + (int)threadIdx.x";
    body.line("const int e = " + e + ", from = tf_places[2 * e], packed = tf_places[2 * e + 1];");
    body.line("const int h2 = corner_h + (packed >> 24 & 255), w2 = corner_w + (packed & 0xffff);");
    body.line("const bool inside = packed >= 0 && (unsigned)h2 < rows_met && (unsigned)w2 < columns_met;");
}

void CovarianceStream::write_plane_met(KernelText& k) const {
    Body& body = k.body;
    body.line("const int d2 = first_d + next_plane, corner_h = h - " + number(rows_before_) + ", corner_w = w - " +
              number(columns_before_) + ";");
    body.line("const unsigned rows_met = d2 < " + k.size(extent_[0]) + " ? " + k.size(extent_[1]) +
              " : 0, columns_met = " + k.size(extent_[2]) + ";");
}

std::string CovarianceStream::offset(KernelText& k, const Index& index) const {
    std::string text = "0";
    for (size_t a = 0; a < index.size(); ++a)
        if (!index[a].text.empty()) text = plus(text, times(index[a].text, k.integer(places_.at(x_).strides[a])));
    return text;
}

void CovarianceStream::write_load(KernelText& k, const std::string& first, int64_t batch) const {
    Body& body = k.body;
    write_plane_met(k);
    if (in_memory()) write_corner(k);
    body.line("#pragma unroll");
    k.emitter.open("for (int i = 0; i < " + number(batch) + "; ++i)");
    if (numbers() % batch) k.emitter.open("if (" + first + " + i < " + number(numbers()) + ")");
    write_place(body, first);
    body.line(centred_ ? "loaded[i] = tf_mean[packed >> 16 & 255];" : "tf_from(loaded[i], 0.0f);");
    k.emitter.open("if (inside)");
    if (in_memory()) {
        const Place& place = places_.at(x_);
        body.line("loaded[i] = " + k.parameters.pointer(place.base, "const " + element(), place.read_only) +
                  "[corner + from];");
    } else {
        const std::string channel = k.let("group * " + number(channels_) + " + from", "channel");
        body.line("loaded[i] = " + k.emitter.value(x_, at("n", channel, "d2", "h2", "w2"))[0] + ";");
    }
    k.emitter.close();
    if (numbers() % batch) k.emitter.close();
    k.emitter.close();
}

// Takes the mean away. (Not when it is loaded: a load that is used at once, if only to widen it, would be waited for
// before the products that it comes along with.)
void CovarianceStream::write_store(KernelText& k, const std::string& first, int64_t batch) const {
    Body& body = k.body;
    body.line("#pragma unroll");
    body.open("for (int i = 0; i < " + number(batch) + "; ++i)");
    body.line("const int e = " + (first == "0" ? std::string("i") : "(" + first + " + i)") + " * " + number(threads()) +
              " + (int)threadIdx.x;");
    const std::string mean = centred_ ? " - " + wide("tf_mean[tf_places[2 * e + 1] >> 16 & 255]") : "";
    body.line("if (e < " + number(plane_) + ") tf_ring[slot * " + number(plane_) +
              " + e] = " + staged(wide("loaded[i]") + mean) + ";");
    body.close();
}

bool CovarianceStream::in_memory() const {
    const auto place = places_.find(x_);
    return place != places_.end() && !place->second.partials && numel(graph_[x_].type.shape) < int64_t{1} << 31;
}

// x as it lies in memory; else as it is computed.
std::string CovarianceStream::element() const {
    return std::string(in_memory() ? storage_name(places_.at(x_).storage) : real_name(real_of(graph_[x_].type.dtype)));
}

std::string CovarianceStream::wide(const std::string& number) const {
    const std::string real(real_name(real_of(graph_[x_].type.dtype)));
    return element() == real ? number : "tf_to<" + real + ">(" + number + ")";
}

// Where the plane's corner lies, which may be outside x.
void CovarianceStream::write_corner(KernelText& k) const {
    k.body.line("const int corner = " +
                offset(k, at("n", "(group * " + number(channels_) + ")", "d2", "corner_h", "corner_w")) + ";");
}

// fp32 that lies in memory comes by copies that no register waits for, several planes ahead, to places of its thread;
// what lies outside x has the mean there.
bool CovarianceStream::copyable() const {
    return in_memory() && places_.at(x_).storage == DType::f32 && graph_[x_].type.dtype == DType::f32;
}

void CovarianceStream::write_copies(KernelText& k, const std::string& stage) const {
    Body& body = k.body;
    write_plane_met(k);
    write_corner(k);
    const Place& place = places_.at(x_);
    const std::string x = k.parameters.pointer(place.base, "const " + element(), place.read_only);
    body.line("float* const own = tf_coming + " + stage + " * " + number(numbers() * threads()) +
              " + (int)threadIdx.x;");
    body.line("#pragma unroll");
    body.open("for (int i = 0; i < " + number(numbers()) + "; ++i)");
    write_place(body, "0");
    body.line("if (inside) tf_copy(own + i * " + number(threads()) + ", " + x + " + corner + from);");
    body.line("else own[i * " + number(threads()) + "] = " + (centred_ ? "tf_mean[packed >> 16 & 255];" : "0.0f;"));
    body.close();
}

void CovarianceStream::write_copied(KernelText& k) const {
    Body& body = k.body;
    body.line("const float* const come = tf_coming + stage * " + number(numbers() * threads()) +
              " + (int)threadIdx.x;");
    body.line("#pragma unroll");
    body.open("for (int i = 0; i < " + number(numbers()) + "; ++i)");
    body.line("const int e = i * " + number(threads()) + " + (int)threadIdx.x;");
    const std::string mean = centred_ ? " - tf_mean[tf_places[2 * e + 1] >> 16 & 255]" : "";
    body.line(std::string(plane_ % threads() ? "if (e < " + number(plane_) + ") " : "") + "tf_ring[slot * " +
              number(plane_) + " + e] = " + staged("come[i * " + number(threads()) + "]" + mean) + ";");
    body.close();
}

int64_t CovarianceStream::numbers() const { return ceil_div(plane_, threads()); }
int64_t CovarianceStream::coming_numbers() const { return (copies_ ? stages : 0) * numbers() * threads(); }
int64_t CovarianceStream::place_numbers() const { return 2 * numbers() * threads(); }

std::string CovarianceStream::staging_code(int64_t floats) {
    static constexpr std::string_view text =
#include "cuda/device/values/staging.cuh"
        ;
    return "#define TF_FLOATS " + number(floats) + "\n" + std::string(text);
}

std::string CovarianceStream::plane_at(const std::string& ahead) const {
    return "(slot + " + number(ring_ - reach_) + " + " + ahead + ") % " + number(ring_) + " * " + number(plane_);
}

void CovarianceStream::write_lag(Body& body) const {
    const AxisLags &deep = axes_[0], &high = axes_[1], &wide = axes_[2];
    body.line("const int ahead = lag / " + number(high.count() * wide.count()) + " * " + number(deep.step) +
              ", below = (lag % " + number(high.count()) + " - " + number(high.most) + ") * " + number(high.step) +
              ", right = (lag / " + number(high.count()) + " % " + number(wide.count()) + " - " + number(wide.most) +
              ") * " + number(wide.step) + ";");
}

std::string CovarianceStream::own_channel(const std::string& c) const {
    const std::string C = number(channel_block_);
    if (sides_ == 1) return c;
    return "(" + c + " < " + C + " ? first_block : second_block) * " + C + " + " + c + " % " + C;
}

std::string CovarianceStream::inside(KernelText& k, const std::string& d, const std::string& h,
                                     const std::string& w) const {
    return d + " < " + k.size(extent_[0]) + " && " + h + " >= 0 && " + h + " < " + k.size(extent_[1]) + " && " + w +
           " >= 0 && " + w + " < " + k.size(extent_[2]);
}

// Of every channel about the mean: that of some numbers all over x, the same for all blocks.
void CovarianceStream::write_means(KernelText& k) const {
    Body& body = k.body;
    Emitter& emitter = k.emitter;
    const std::string all = number(both());
    body.line("#pragma unroll 4");
    emitter.open("for (int first = 0; first < " + all + "; first += " + number(threads() / 32) + ")");
    body.line("const int which = first + warp, own = " + own_channel("which") + ";");
    body.line("double mean = 0.0;");
    emitter.open("if (which < " + all + " && own < " + number(channels_) + ")");
    body.line("#pragma unroll");
    emitter.open("for (int i = 0; i < " + number(samples / 32) + "; ++i)");
    // One of each part of x, not all at the same distance from its end.
    body.line("const int sample = i * 32 + lane, column0 = sample * 37 % " + k.size(extent_[2]) +
              ", row0 = sample * 29 % " + k.size(extent_[1]) + ", plane0 = sample * 23 % " + k.size(extent_[0]) +
              ", image0 = sample * 19 % " + k.size(batch_) + ";");
    const std::string channel = k.let("group * " + number(channels_) + " + own", "channel");
    body.line("mean += (double)" + emitter.value(x_, at("image0", channel, "plane0", "row0", "column0"))[0] + ";");
    emitter.close();
    emitter.close();
    body.line("for (int i = 16; i > 0; i /= 2) mean += __shfl_down_sync(0xffffffffu, mean, i);");
    body.open("if (lane == 0 && which < " + all + ")");
    // Of few bits: what is left of numbers of few bits is exact. And an element as x has them, for what lies outside.
    body.line("tf_from(tf_mean[which], __uint_as_float(__float_as_uint((float)(mean / " + number(samples) +
              ".0)) & 0xfffc0000u));");
    const std::string means = k.parameters.pointer(Argument::of_scratch(means_at()), "double", false);
    body.line("if (which < " + number(channel_block_) +
              " && lag_group == 0 && second_block == 0 && block == tf_first[part] && own < " + number(channels_) +
              ") " + means + "[group * " + number(channels_) + " + own] = (double)" + wide("tf_mean[which]") + ";");
    body.close();
    emitter.close();
    body.line("__syncthreads();");
}

}  // namespace transfuse::cuda
