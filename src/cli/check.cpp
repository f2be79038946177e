// The graph as written, evaluated plainly in float64, against its plan and the engines found here.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <random>

#include "cli/commands.h"
#include "cli/storage.h"
#include "reference/element.h"
#include "transfuse/algebra.h"
#include "transfuse/engine.h"
#include "transfuse/error.h"

namespace transfuse::cli {

namespace {

// Inputs in [0, scale); vectors of parameters (biases, norms' weights, variances) in [0.25, 1.25); weights around zero,
// small enough that a convolution neither grows nor dies.
std::vector<std::vector<double>> random_leaves(const Graph& graph, uint64_t seed, double scale) {
    std::mt19937_64 bits(seed);
    std::uniform_real_distribution<double> uniform(0.0, 1.0);
    std::vector<std::vector<double>> leaves;
    for (ValueId leaf : graph.leaves()) {
        const Node& node = graph[leaf];
        const Sizes& shape = node.type.shape;
        double low = 0, high = scale;
        if (node.op == Op::param && shape.size() < 3) {
            low = 0.25 * scale;
            high = 1.25 * scale;
        } else if (node.op == Op::param) {
            const double terms =
                static_cast<double>(numel(shape)) / static_cast<double>(std::max<int64_t>({shape[0], shape[1], 1}));
            high = scale * std::sqrt(3.0 / std::max(terms, 1.0));
            low = -high;
        }
        std::vector<double> values(static_cast<size_t>(numel(shape)));
        for (double& value : values) value = reference::rounded(low + (high - low) * uniform(bits), node.type.dtype);
        leaves.push_back(std::move(values));
    }
    return leaves;
}

// max |a − b| / max |b| over all outputs, each by its own scale; equal non-finite values agree.
double relative_error(const std::vector<std::vector<double>>& got, const std::vector<std::vector<double>>& expected) {
    double worst = 0;
    for (size_t output = 0; output < expected.size(); ++output) {
        require(got[output].size() == expected[output].size(), "output ", output, " has the wrong number of elements.");
        double scale = 0, error = 0;
        for (size_t i = 0; i < expected[output].size(); ++i) {
            const double a = got[output][i], b = expected[output][i];
            if (std::isfinite(b)) scale = std::max(scale, std::abs(b));
            if (a == b || (std::isnan(a) && std::isnan(b))) continue;
            error = std::isfinite(a) && std::isfinite(b) ? std::max(error, std::abs(a - b)) : INFINITY;
        }
        worst = std::max(worst, error == 0 ? 0 : error / (scale > 0 ? scale : 1));
    }
    return worst;
}

// A comparison of nothing but NaN and infinity would say nothing.
void require_finite(const std::vector<std::vector<double>>& outputs) {
    for (size_t output = 0; output < outputs.size(); ++output) {
        const auto& values = outputs[output];
        require(values.empty() ||
                    std::any_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); }),
                "check: output ", output,
                " has no finite value on this data; try another --seed or a smaller --scale.");
    }
}

std::vector<std::vector<double>> run(Executable& executable, const Graph& graph,
                                     const std::vector<std::vector<double>>& leaves) {
    std::vector<Storage> in, out;
    for (size_t i = 0; i < leaves.size(); ++i) in.emplace_back(graph[graph.leaves()[i]].type, leaves[i]);
    for (ValueId output : graph.outputs()) out.emplace_back(graph[output].type);  // filled with NaN
    std::vector<TensorView> leaf_views, output_views;
    for (Storage& storage : in) leaf_views.push_back(storage.view());
    for (Storage& storage : out) output_views.push_back(storage.view());
    AlignedBytes workspace(executable.workspace_bytes());
    RunContext context;
    context.workspace = workspace.data();
    executable.run(leaf_views, output_views, context);
    std::vector<std::vector<double>> results;
    for (Storage& storage : out) results.push_back(storage.values());
    return results;
}

// What an engine may differ from float64 for the coarsest dtype in the graph.
double engine_tolerance(const Graph& graph) {
    double tolerance = 1e-12;
    for (const Node& node : graph.nodes()) {
        if (node.op == Op::scalar) continue;
        const DType dtype = node.type.dtype;
        tolerance = std::max(tolerance, dtype == DType::f64   ? 1e-12
                                        : dtype == DType::f32 ? 1e-4
                                        : dtype == DType::f16 ? 2e-2
                                                              : 1e-1);
    }
    return tolerance;
}

class Report {
public:
    void line(const std::string& what, double error, double tolerance) {
        const bool fine = error <= tolerance;
        std::cout << "  " << std::left << std::setw(34) << what << "max relative error " << std::scientific
                  << std::setprecision(1) << error << (fine ? "  ok" : "  WRONG") << std::defaultfloat << "\n";
        failed_ = failed_ || !fine;
    }
    bool failed() const { return failed_; }

private:
    bool failed_ = false;
};

void print_sizes(const Graph& written, const Graph& checked, const std::string& file) {
    std::cout << file << ": ";
    const char* separator = "";
    for (size_t i = 0; i < written.leaves().size(); ++i) {
        const Node& now = checked[checked.leaves()[i]];
        const Node& then = written[written.leaves()[i]];
        if (now.op != Op::input) continue;
        std::cout << separator << now.name << " " << to_string(now.type);
        if (now.type != then.type) std::cout << " (cut from " << to_string(then.type.shape) << ")";
        separator = ", ";
    }
    std::cout << "\n";
}

}  // namespace

int check(const std::vector<std::string>& arguments) {
    const Options options = read_options("check", arguments, {"--seed", "--scale", "--flops", "--machine"}, {"--full"});
    const uint64_t seed = static_cast<uint64_t>(options.integer("--seed", 0));
    const double scale = options.number("--scale", 1.0);
    const Graph written = read_graph(options.file);
    const Graph graph = options.has("--full") ? written : shrink(written, options.number("--flops", 2e7));
    print_sizes(written, graph, options.file);

    const auto leaves = random_leaves(graph, seed, scale);
    const auto expected = evaluate(graph, leaves);
    require_finite(expected);
    const Derivation derivation = rewrite(graph);
    const Plan chosen = plan(derivation.rewritten, machine_named(options.text("--machine", "")));
    Report report;
    report.line("rewritten graph (reference, f64)", relative_error(evaluate(derivation.rewritten, leaves), expected),
                1e-11);
    report.line("plan (reference, f64)", relative_error(evaluate(chosen, leaves), expected), 1e-11);
#ifdef TRANSFUSE_CPU_ENGINE
    const Plan on_cpu = plan(derivation.rewritten, machine_named("cpu"));
    report.line("CPU engine", relative_error(run(*compile_cpu(on_cpu), on_cpu.graph, leaves), expected),
                engine_tolerance(graph));
#else
    report.line("reference engine", relative_error(run(*compile_reference(chosen), chosen.graph, leaves), expected),
                engine_tolerance(graph));
#endif
    return report.failed() ? 1 : 0;
}

}  // namespace transfuse::cli
