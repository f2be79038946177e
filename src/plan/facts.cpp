#include "plan/facts.h"

#include <algorithm>

#include "plan/figures.h"

namespace transfuse {

namespace {

// Tensor cores and vector units take channels in groups; a product with fewer pays for the whole group.
double padding_of(int64_t channels) {
    constexpr int64_t granule = figures::plan::granule;
    return static_cast<double>((channels + granule - 1) / granule * granule) / static_cast<double>(channels);
}

// A machine with matrix units multiplies so many rows at a time. Fewer channels leave rows to other phases, side by
// side along the innermost axis, then along the others: then every window that one of them meets is multiplied for all.
// Rows of products over those that are asked for.
double row_padding(const Graph& graph, ValueId v, int64_t channels) {
    constexpr int64_t rows = figures::plan::rows, fewest = figures::plan::fewest_rows;
    int64_t own = fewest;
    while (own < channels && own < rows) own *= 2;
    int64_t together = rows / own;  // phases
    double made = static_cast<double>((channels + own - 1) / own),
           asked = static_cast<double>(channels) / static_cast<double>(own);
    const Lattices axes = lattices(graph, v);
    for (size_t a = axes.size(); a-- > 0;) {
        const std::vector<Phase> phases = axes[a].phases();
        const auto beside = std::min<int64_t>(together, static_cast<int64_t>(phases.size()));
        double products = 0, windows = 0;
        for (size_t first = 0; first < phases.size(); first += static_cast<size_t>(beside)) {
            Few<int64_t, 32> shifts;
            for (size_t r = first; r < std::min(phases.size(), first + static_cast<size_t>(beside)); ++r)
                for (const PhaseTap& tap : phases[r].taps) products += 1, shifts.push_back(tap.shift);
            std::sort(shifts.begin(), shifts.end());
            const auto different = static_cast<size_t>(std::unique(shifts.begin(), shifts.end()) - shifts.begin());
            windows += static_cast<double>(different * static_cast<size_t>(beside));
        }
        together /= beside;
        made *= windows, asked *= products;
    }
    return asked > 0 ? std::max(1.0, made * static_cast<double>(together) / asked) : 1;
}

double product_padding(const Graph& graph, ValueId v, const Machine& machine) {
    const bool lattice = graph[v].op == Op::lattice;
    const Sizes& w = lattice ? graph[graph[v].args[1]].type.shape : graph[v].type.shape;
    if (graph[v].op == Op::covariance || w.size() < 3 || w[1] * w[2] == 0) return 1;
    return padding_of(w[1]) * (lattice && machine.tile_flops > 0 ? row_padding(graph, v, w[2]) : padding_of(w[2]));
}

// Groups of few channels have no matrices. A machine with matrix units (tile programs run beside them) has ordinary
// arithmetic for these, and it makes what is asked for and no more.
bool is_ordinary(const Graph& graph, ValueId v, const Machine& machine) {
    if (graph[v].op != Op::lattice || machine.tile_flops == 0) return false;
    const Sizes& w = graph[graph[v].args[1]].type.shape;
    return w[0] > 1 && (w[1] * w[2] < 16 || (w[1] <= 8 && w[2] <= 8));
}

// A product may be a tail step where it is one small matrix product (the collapsed convolution), or next to nothing.
bool small_product(const Graph& graph, ValueId v, double flops) {
    if (graph[v].op == Op::covariance) return false;
    if (flops <= figures::plan::next_to_nothing) return true;
    if (graph[v].op != Op::lattice) return false;
    const Sizes& x = graph[graph[v].args[0]].type.shape;
    const Sizes& y = graph[v].type.shape;
    for (size_t axis = 2; axis < y.size(); ++axis)
        if (x[axis] != 1 || y[axis] != 1) return false;
    return true;
}

}  // namespace

Facts::Facts(const Graph& graph, const Machine& machine)
    : graph(graph), machine(machine), parameter(parameter_values(graph)) {
    const size_t n = static_cast<size_t>(graph.size());
    literal.resize(n);
    output.resize(n);
    elements.resize(n);
    flops.resize(n);
    product.resize(n);
    small_.resize(n);
    padding.assign(n, 1);
    ordinary.resize(n);
    first_user_.assign(n + 1, 0);
    for (ValueId v : graph.outputs()) output[at(v)] = true;
    for (ValueId v = 0; v < graph.size(); ++v) {
        const Node& node = graph[v];
        literal[at(v)] = node.op == Op::scalar || node.op == Op::full;
        product[at(v)] = node.op == Op::lattice || node.op == Op::correlate || node.op == Op::covariance;
        count(v);
        for (ValueId a : node.args) ++first_user_[at(a) + 1];
    }
    for (size_t i = 0; i < n; ++i) first_user_[i + 1] += first_user_[i];
    users_.resize(first_user_[n]);
    std::vector<size_t> next(first_user_.begin(), first_user_.end() - 1);
    for (ValueId v = 0; v < graph.size(); ++v)
        for (ValueId a : graph[v].args) users_[next[at(a)]++] = v;
}

void Facts::count(ValueId v) {
    const Node& node = graph[v];
    elements[at(v)] = numel(node.type.shape);
    if (!is_leaf(node.op) && !is_constant(node.op)) flops[at(v)] = cost(graph, v).flops;
    if (product[at(v)]) {
        ordinary[at(v)] = is_ordinary(graph, v, machine);
        padding[at(v)] = ordinary[at(v)] ? machine.flops / machine.pointwise_flops : product_padding(graph, v, machine);
    }
    small_[at(v)] = elements[at(v)] <= machine.tail_elements && flops[at(v)] <= machine.tail_flops &&
                    (!product[at(v)] || small_product(graph, v, flops[at(v)]));
}

bool Facts::takes_elements(ValueId product) const {
    constexpr int64_t most_elements = (int64_t{1} << 31) - 1, most_taps = 64;
    const Node& node = graph[product];
    const Sizes &w = shape(node.args[1]), &up = node.attributes.integers(Key::up);
    const bool whole = up.size() > 1 && std::ranges::all_of(up, [](int64_t u) { return u == 1; });
    const bool depthwise = ordinary[at(product)] && w[1] == 1 && w[2] == 1;
    return whole &&
           (depthwise ? numel(Sizes(w.begin() + 3, w.end())) <= most_taps
                      : w[0] == 1 && numel(w) <= machine.thin_work) &&
           elements[at(node.args[0])] <= most_elements && elements[at(product)] <= most_elements;
}

// Seconds that are saved where readers make a value in the place of reading it: patches overlap, so that a prologue is
// evaluated more than once on some elements.
double Facts::gain(const Moved& moved) const {
    using figures::plan::overlap;
    const ValueId v = moved.made.front();
    const double k = static_cast<double>(moved.readers);
    double once = 0, reads = 0, kept = 0;
    for (const ValueId a : moved.made) once += work(a);
    for (const ValueId a : moved.read) reads += read_bytes(a);
    for (const ValueId a : moved.kept) kept += bytes(a);
    const double moves = (k + 1) * bytes(v) - k * reads - kept + (moved.stays ? 0 : reads);
    const double more = k * overlap * once - (moved.stays ? 0 : once);
    double gain = moves / machine.bandwidth + (moved.stays ? 0 : machine.launch) - more / machine.pointwise_flops;
    for (const ValueId anchor : moved.products) gain -= delay(overlap * once, v, anchor);
    return gain;
}

// How much longer a product takes with `work` done on its input: where tile programs run beside the product, those who
// load do so as well, at a share of their rate, and once for every so many output channels. What the product or its
// memory takes longer hides it.
double Facts::delay(double work, ValueId x, ValueId anchor) const {
    const size_t y = at(anchor);
    if (machine.tile_flops == 0 || ordinary[y]) return 0;
    using figures::plan::loaded_for;
    const auto loads = static_cast<double>((shape(anchor)[1] + loaded_for - 1) / loaded_for);
    const double own = std::max(flops[y] * padding[y] / machine.flops, (bytes(x) + bytes(anchor)) / machine.bandwidth);
    return std::max(0.0, loads * work / (figures::plan::loading_share * machine.tile_flops) - own);
}

double Facts::weight(Op op) {
    switch (op) {
        case Op::exp:
        case Op::log:
        case Op::sin:
        case Op::cos:
        case Op::erf:
        case Op::tanh:
        case Op::sigmoid:
        case Op::elu:
        case Op::selu:
        case Op::gelu:
        case Op::silu:
        case Op::mish:
        case Op::softplus:
        case Op::pow:
        case Op::logsumexp:
            return 10;
        case Op::sqrt:
        case Op::rsqrt:
        case Op::reciprocal:
        case Op::div:
            return 4;
        default:
            return 1;
    }
}

bool broadcasts_to(const Sizes& shape, const Sizes& grid) {
    if (shape.size() > grid.size()) return false;
    const size_t skip = grid.size() - shape.size();
    for (size_t i = 0; i < shape.size(); ++i)
        if (shape[i] != 1 && shape[i] != grid[i + skip]) return false;
    return true;
}

bool splits_only(const Sizes& from, const Sizes& to) {
    size_t j = 0;
    for (int64_t extent : from) {
        if (extent == 0) return false;
        if (extent == 1) continue;
        int64_t product = 1;
        while (j < to.size() && product < extent) product *= to[j++];
        if (product != extent) return false;
    }
    while (j < to.size() && to[j] == 1) ++j;
    return j == to.size();
}

bool is_view_op(Op op) {
    return op == Op::slice || op == Op::permute || op == Op::expand || op == Op::flip || op == Op::reshape;
}

}  // namespace transfuse
