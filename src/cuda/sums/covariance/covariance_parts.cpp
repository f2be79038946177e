#include "cuda/sums/covariance/covariance_parts.h"

#include <algorithm>
#include <numeric>

#include "algebra/lattice/integer.h"
#include "cuda/sums/covariance/figures.h"

namespace transfuse::cuda {

using namespace figures::covariance;

namespace {

constexpr int64_t gather_threads = 128;
constexpr const char* edges[] = {"tf_deep", "tf_high", "tf_wide"};  // of the segments, by axis

// What the pairs of one axis' taps need: lag, segments; none where no output meets both.
std::vector<int64_t> words_of(const AxisLags& axis) {
    std::vector<int64_t> words;
    for (const TapPair& pair : axis.pairs)
        words.insert(words.end(), {pair.lag, pair.first, pair.beyond, pair.inner, pair.inner_beyond});
    return words;
}

std::string pairs(KernelText& k, const AxisLags& axis) { return k.emitter.integer_table(words_of(axis)); }

bool alike(const AxisLags& one, const AxisLags& other) { return words_of(one) == words_of(other); }

}  // namespace

CovarianceParts::CovarianceParts(const Surroundings& s, const Places& places, DType slots, bool centred)
    : s_(s), graph_(s.plan.graph), places_(places), id_(s.pass.anchor), x_(graph_[id_].args[0]), slots_(slots) {
    const Type& type = graph_[x_].type;
    groups_ = graph_[id_].attributes.integer(Key::groups);
    channels_ = type.shape[1] / groups_;
    batch_ = type.shape[0];
    Lattices axes(static_cast<size_t>(5 - type.rank()));
    for (const Lattice& axis : lattices(graph_, id_)) axes.push_back(axis);
    int64_t parts = 1;
    for (const Lattice& axis : axes) parts *= lags(axis, true).segments();
    centred_ = centred && type.dtype != DType::f64 && parts <= most_parts;
    for (const Lattice& axis : axes) {
        axes_.push_back(lags(axis, centred_));
        extent_.push_back(axis.in);
    }
    segments_ = axes_[2].segments();
}

FamilyProgram CovarianceParts::program() {
    FamilyProgram result;
    result.program.launches = {sum(), fold(), gather()};
    result.program.scratch_bytes = static_cast<size_t>(means_at() + groups_ * channels_ * 8);
    result.program.note = result.program.launches[0].note;
    Place place;
    place.base = Argument::of_scratch(result_at());
    place.storage = DType::f64;
    place.strides = contiguous_strides(graph_[id_].type.shape);
    place.aligned = true;
    place.read_only = false;
    result.places.emplace(id_, place);
    return result;
}

Launch CovarianceParts::fold() {
    KernelText kernel(s_, places_);
    write_fold(kernel);
    return kernel.launch("tf_covariance_fold", tiles_ * groups_ * parts() * chunks(), fold_slices_ * 32,
                         "sums of " + number(blocks_) + " blocks in " + number(parts()) + " parts", runs_code());
}

Launch CovarianceParts::gather() {
    KernelText kernel(s_, places_);
    write_gather(kernel);
    return kernel.launch("tf_covariance_gather", ceil_div(elements(), gather_threads / gather_lanes()), gather_threads,
                         "covariance" + to_string(graph_[id_].type.shape));
}

int64_t CovarianceParts::gather_lanes() const { return elements() < few_elements ? 8 : 1; }

std::string CovarianceParts::run_of(const std::string& part) const {
    return "(" + part + " / " + number(axes_[0].segments() * high_runs_) + " + 1) % " + number(runs_);
}

std::string CovarianceParts::tall_of(const std::string& part) const {
    return "(" + part + " / " + number(axes_[0].segments()) + " + 1) % " + number(high_runs_);
}

void CovarianceParts::share(const Work& work_of, int64_t resident, double most) {
    std::vector<double> work;
    for (int64_t run = 1; run <= runs_; ++run)
        for (int64_t tall = 1; tall <= high_runs_; ++tall)
            for (int64_t d = 0; d < axes_[0].segments(); ++d)
                work.push_back(work_of(d, tall % high_runs_, run % runs_));
    const double fair = std::accumulate(work.begin(), work.end(), 0.0) * static_cast<double>(tiles_ * groups_) /
                        static_cast<double>(resident * s_.target.multiprocessors);
    const int64_t wanted = resident * s_.target.multiprocessors / (tiles_ * groups_);
    std::vector<int64_t> shares;
    for (double own : work) shares.push_back(own == 0 ? 0 : std::max<int64_t>(1, static_cast<int64_t>(own / most)));
    // The next block to the part whose blocks have most to do.
    auto busy = [&](size_t i) { return shares[i] ? work[i] / static_cast<double>(shares[i]) : 0; };
    for (int64_t given = std::accumulate(shares.begin(), shares.end(), int64_t{0});; ++given) {
        size_t most_busy = 0;
        for (size_t i = 1; i < work.size(); ++i)
            if (busy(i) > busy(most_busy)) most_busy = i;
        if (given >= wanted && busy(most_busy) <= busiest * fair) break;
        ++shares[most_busy];
    }
    for (int64_t share : shares) {
        first_block_.push_back(blocks_);
        blocks_ += share;
    }
    first_block_.push_back(blocks_);
    fold_slices_ = blocks_ >= many_blocks ? 16 : 4;
}

Index CovarianceParts::at(const std::string& n, const std::string& channel, const std::string& d, const std::string& h,
                          const std::string& w) const {
    const std::string space[] = {d, h, w};
    Index index = {{n}, {channel}};
    const auto rank = static_cast<size_t>(graph_[x_].type.rank());
    for (size_t a = 5 - rank; a < 3; ++a) index.push_back({space[a]});
    return index;
}

void CovarianceParts::table(KernelText& kernel, const std::string& name, const std::vector<int64_t>& values) {
    kernel.body.line("__shared__ int " + name + "[" + number(static_cast<int64_t>(values.size())) + "];");
    kernel.body.open("if (threadIdx.x == 0)");
    for (size_t i = 0; i < values.size(); ++i)
        kernel.body.line(name + "[" + number(static_cast<int64_t>(i)) + "] = " + kernel.size(values[i]) + ";");
    kernel.body.close();
}

// The sums of the blocks of each part, in the order of the blocks: 32 values of a tile and part, as many warps as its
// blocks are worth.
void CovarianceParts::write_fold(KernelText& k) const {
    Body& body = k.body;
    const std::string S = number(segments_), V = number(values());
    table(k, "tf_first", first_block_);
    write_runs(k);
    body.line("__shared__ double tf_parts[" + number(fold_slices_) + "][" + number(32) + "];");
    body.line("__syncthreads();");
    body.line("TF_SEQUENCE();");
    const std::string from =
        k.parameters.pointer(Argument::of_scratch(0), "const " + std::string(real_name(real_of(slots_))), false);
    const std::string to = k.parameters.pointer(Argument::of_scratch(parts_at()), "double", false);
    body.line("const int chunk = (int)blockIdx.x % " + number(chunks()) + ", q = (int)blockIdx.x / " +
              number(chunks()) + ", part = q % " + number(parts()) + ", tile = q / " + number(parts()) + ";");
    const std::string H = number(axes_[1].segments()), slots = number(slot_segments());
    body.line("const int wide = part % " + S + ", high = part / " + S + " % " + H + ", deep = part / (" + S + " * " +
              H + ");");
    body.line("const int lane = (int)threadIdx.x % 32, slice = (int)threadIdx.x / 32, value = min(chunk * 32 + lane, " +
              V + " - 1);");
    body.line("double sum = 0.0;");
    const std::string D = number(axes_[0].segments()), all = number(axes_[0].segments() * high_runs_ * runs_);
    body.open("for (int at = deep; at < " + all + "; at += " + D + ")");
    body.line("const int run = " + run_of("at") + ", tall = " + tall_of("at") +
              ", first = tf_first[at], end = tf_first[at + 1];");
    body.line("const int s = wide - tf_run_segment[2 * run], t = high - tf_tall_segment[2 * tall];");
    body.line(
        "if (s < 0 || s >= tf_run_segment[2 * run + 1] || t < 0 || t >= tf_tall_segment[2 * tall + 1]) continue;");
    body.line("#pragma unroll 8");
    body.line("for (int block = first + slice; block < end; block += " + number(fold_slices_) + ") sum += " + from +
              "[(((long long)tile * " + k.size(blocks_) + " + block) * " + slots + " + t * " + S + " + s) * " + V +
              " + value];");
    body.close();
    body.line("tf_parts[slice][lane] = sum;");
    body.line("__syncthreads();");
    body.open("if (slice == 0 && chunk * 32 + lane < " + V + ")");
    body.line("for (int i = 1; i < " + number(fold_slices_) + "; ++i) sum += tf_parts[i][lane];");
    body.line(to + "[(long long)q * " + V + " + value] = sum;");
    body.close();
}

// A thread, or eight where there are few, an element: they add the parts that the pair of taps takes. Where sums are of
// d = x − m, Σ x·x' = Σ d·d' + m'·Σ d + m·Σ d' + m·m'·count, the last three over places whose partner lies inside x.
void CovarianceParts::write_gather(KernelText& k) const {
    Body& body = k.body;
    const Sizes& shape = graph_[id_].type.shape;
    const AxisLags &deep = axes_[0], &high = axes_[1], &wide = axes_[2];
    const std::string of_deep = pairs(k, deep), of_high = alike(high, deep) ? of_deep : pairs(k, high);
    const std::array<std::string, 3> tables = {of_deep, of_high, alike(wide, high) ? of_high : pairs(k, wide)};
    for (size_t axis = 0; axis < 3; ++axis) table(k, edges[axis], axes_[axis].edges);
    body.line("__syncthreads();");
    body.line("TF_SEQUENCE();");
    const std::string from = k.parameters.pointer(Argument::of_scratch(parts_at()), "const double", false);
    const std::string to = k.parameters.pointer(Argument::of_scratch(result_at()), "double", false);
    const std::string means = k.parameters.pointer(Argument::of_scratch(means_at()), "const double", false);
    const int64_t share = gather_lanes();
    const std::string lanes = number(share), P = number(points()), C = number(channels_);
    body.line("const int all = (int)blockIdx.x * " + number(gather_threads / share) + " + (int)threadIdx.x / " + lanes +
              ", place = min(all, " + number(elements() - 1) + "), lane = (int)threadIdx.x % " + lanes + ";");
    // Neighbours have the same taps: what they add lies together.
    body.line("const int row = place / " + C + " % " + C + " * " + P + " + place / (" + C + " * " + C + ") % " + P +
              ", column = place % " + C + " * " + P + " + place / (" + C + " * " + C + " * " + P + ") % " + P +
              ", group = place / (" + C + " * " + C + " * " + P + " * " + P + ");");
    body.line("const int element = row * " + number(shape[1]) + " + group * " + number(shape[0] - 1) + " + column;");
    // Sums over pairs (a, b): of products; of a alone; of b alone. Then each with itself: sums alone.
    body.line("double product = 0.0, mean[2];");
    body.line("const double count = " + counted(k) + ";");
    body.line("#pragma unroll");
    body.open("for (int pair = 0; pair < 3; ++pair)");
    body.line("int a = pair == 2 ? column : row, b = pair == 1 ? row : column;");
    body.line("int lag[3], range[2][3][2], inner[2][3][2];");
    body.line("double met;");
    write_pair(k, tables);
    write_sums(k, from);
    if (centred_)
        body.line("const double first = " + means + "[group * " + number(channels_) + " + a / " + P +
                  "], second = " + means + "[group * " + number(channels_) + " + b / " + P + "];");
    else
        body.line("const double first = 0.0, second = 0.0;");
    body.line("if (pair == 0) product = sums[0] + second * sums[1] + first * sums[2] + first * second * met;");
    body.line("else mean[pair - 1] = (sums[1] + first * met) / count;");
    body.close();
    body.open("if (lane == 0 && all == place)");
    body.line(to + "[element] = product / count - mean[0] * mean[1];");
    body.line("if (row == 0) " + to + "[element + " + number(elements()) + "] = mean[1];");
    body.close();
}

// Of δ and −δ the first kernel summed one: a and b change places where it was the other.
void CovarianceParts::write_pair(KernelText& k, const std::array<std::string, 3>& tables) const {
    Body& body = k.body;
    const AxisLags &deep = axes_[0], &high = axes_[1], &wide = axes_[2];
    const std::string P = number(points());
    body.open("for (int turn = 0; turn < 2; ++turn)");
    body.line("met = " + k.size(batch_) + ";");
    body.open("for (int side = 0; side < 2; ++side)");
    body.line("const int p = side ? b : a, q = side ? a : b;");
    auto of_axis = [](const std::string& d, const std::string& h, const std::string& w) {
        return d == h && h == w ? d : "(axis == 0 ? " + d + " : axis == 1 ? " + h + " : " + w + ")";
    };
    const std::string taps = of_axis(number(deep.taps), number(high.taps), number(wide.taps));
    auto tap = [&](const std::string& of) { return of + " % " + P + " / below % " + taps; };
    body.line("#pragma unroll");
    body.open("for (int axis = 0; axis < 3; ++axis)");
    body.line("const int below = " + of_axis(number(high.taps * wide.taps), number(wide.taps), "1") + ";");
    body.line("const int *words = " + of_axis(tables[0], tables[1], tables[2]) + " + (" + tap("p") + " * " + taps +
              " + " + tap("q") + ") * 5, *edges = " + of_axis(edges[0], edges[1], edges[2]) + ";");
    body.line("for (int i = 0; i < 2; ++i) range[side][axis][i] = words[1 + i], inner[side][axis][i] = words[3 + i];");
    body.line("if (side == 0) lag[axis] = words[0], met *= edges[words[4]] - edges[words[3]];");
    body.close();
    body.close();
    body.line("const int line = lag[0] * " + number(wide.count()) + " + lag[2];");
    body.line("if (line > 0 || (line == 0 && lag[1] >= 0)) break;");
    body.line("const int swapped = a; a = b; b = swapped;");
    body.close();
}

// What the pair's parts add up to: of products, of the first factor, of the second.
void CovarianceParts::write_sums(KernelText& k, const std::string& from) const {
    Body& body = k.body;
    const int64_t share = gather_lanes();
    const std::string lanes = number(share), P = number(points());
    const std::string H = number(axes_[1].segments()), W = number(axes_[2].segments());
    body.line("double sums[3] = {};");
    body.line("#pragma unroll");
    body.open("for (int what = 0; what < 3; ++what)");
    body.line("if (pair > 0 && what != 1) continue;");
    body.line("const int ca = (what == 2 ? b : a) / " + P + ", cb = b / " + P + ", which = what;");
    body.line("if (what > 0) lag[0] = lag[1] = lag[2] = 0;");
    write_slot(body);
    body.line("const int (*in)[2] = what == 0 ? range[0] : inner[what - 1];");
    body.line("#pragma unroll 4");
    body.open("for (int part = lane; part < " + number(parts()) + "; part += " + lanes + ")");
    body.line("const int d = part / (" + H + " * " + W + "), h = part / " + W + " % " + H + ", w = part % " + W + ";");
    body.line(
        "const bool taken = d >= in[0][0] && d < in[0][1] && h >= in[1][0] && h < in[1][1] && w >= in[2][0] "
        "&& "
        "w < in[2][1];");
    body.line("if (taken) sums[what] += " + from + "[((long long)tile * " + number(parts()) + " + part) * " +
              number(values()) + " + value];");
    body.close();
    if (share > 1)
        body.line("for (int i = " + number(share / 2) +
                  "; i > 0; i /= 2) sums[what] += __shfl_down_sync(0xffffffffu, sums[what], i, " + lanes + ");");
    body.close();
}

// How many outputs: a product of sizes.
std::string CovarianceParts::counted(KernelText& k) const {
    std::string text = "(double)" + k.size(batch_);
    for (int64_t out : graph_[id_].attributes.integers(Key::out)) text += " * (double)" + k.size(out);
    return text;
}

}  // namespace transfuse::cuda
