// Any bytes: the parser either refuses them with an Error, or gives a graph whose text reads back as the same graph.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "transfuse/error.h"
#include "transfuse/graph.h"

namespace {

void require_equal(const std::string& expected, const std::string& got, const char* what) {
    if (expected == got) return;
    std::fprintf(stderr, "%s:\n%s\n---\n%s\n", what, expected.c_str(), got.c_str());
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace transfuse;
    Graph graph;
    try {
        graph = parse({reinterpret_cast<const char*>(data), size});
    } catch (const Error&) {
        return 0;
    }
    const std::string text = print(graph);
    require_equal(text, print(parse(text)), "printed and read again");
    std::vector<Type> types;
    for (ValueId leaf : graph.leaves()) types.push_back(graph[leaf].type);
    require_equal(text, print(graph.with_leaf_types(types)), "built again");
    uses(graph);
    parameter_values(graph);
    return 0;
}
