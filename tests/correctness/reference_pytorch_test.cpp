// The reference engine against PyTorch: reference_cases.txt holds what PyTorch computes in float64, one case a line,
// written by tests/python/reference_cases.py. PyTorch itself is not needed here.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "one_statement.h"
#include "random_graphs.h"
#include "transfuse/engine.h"

namespace transfuse {
namespace {

struct Case {
    std::string inputs, statement, type;
    double projections[3];
};

std::vector<Case> cases() {
    std::ifstream file(TRANSFUSE_SOURCE_DIR "/tests/correctness/reference_cases.txt");
    std::vector<Case> list;
    std::string line;
    while (std::getline(file, line)) {
        std::istringstream columns(line);
        Case c;
        std::getline(columns, c.inputs, '|');
        std::getline(columns, c.statement, '|');
        std::getline(columns, c.type, '|');
        for (double& projection : c.projections) columns >> projection;
        EXPECT_TRUE(columns) << line;
        c.inputs.pop_back();  // the space before '|'
        c.type = c.type.substr(1, c.type.size() - 2);
        list.push_back(std::move(c));
    }
    return list;
}

std::vector<double> elements(uint64_t seed, const Node& leaf) {
    Random random(seed);
    std::vector<double> values(static_cast<size_t>(numel(leaf.type.shape)));
    for (double& value : values) {
        const double u = random.uniform();
        value = leaf.name.starts_with("positive") ? 0.5 + u : -1 + 2 * u;
    }
    return values;
}

TEST(ReferenceEngine, ComputesWhatPyTorchDoes) {
    const std::vector<Case> list = cases();
    ASSERT_GT(list.size(), 250u);
    for (size_t i = 0; i < list.size(); ++i) {
        SCOPED_TRACE(list[i].statement);
        const Graph graph = parse(one_statement(list[i].inputs, list[i].statement));
        EXPECT_EQ(to_string(graph[graph.outputs()[0]].type), list[i].type);
        std::vector<std::vector<double>> leaves;
        for (size_t j = 0; j < graph.leaves().size(); ++j)
            leaves.push_back(elements(100 * i + j, graph[graph.leaves()[j]]));
        const std::vector<double> result = evaluate(graph, leaves)[0];
        for (int k = 0; k < 3; ++k) {
            double projection = 0, size = 1;
            for (size_t at = 0; at < result.size(); ++at) {
                projection += result[at] * std::sin(0.7 * (k + 1) * static_cast<double>(at) + k);
                size += std::fabs(result[at]);
            }
            EXPECT_NEAR(projection, list[i].projections[k], 1e-12 * size) << "projection " << k;
        }
    }
}

}  // namespace
}  // namespace transfuse
