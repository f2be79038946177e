// docs/ops.md names every op with exactly its attributes.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "graph/schema.h"

namespace transfuse {
namespace {

// op -> the attribute column(s) of its rows.
std::map<std::string, std::string> rows_of_the_page() {
    std::ifstream page(TRANSFUSE_SOURCE_DIR "/docs/ops.md");
    EXPECT_TRUE(page.good());
    std::map<std::string, std::string> rows;
    std::string line, op;
    const std::regex row(R"(\| (?:● )?(`\w+`)? ?\|([^|]*)\|([^|]*)\|.*)");
    while (std::getline(page, line)) {
        std::smatch match;
        if (!std::regex_match(line, match, row)) continue;
        if (match[1].matched) op = match[1].str().substr(1, match[1].length() - 2);
        rows[op] += " " + match[3].str();
    }
    return rows;
}

TEST(OpsPage, NamesEveryOpAndAttribute) {
    const auto rows = rows_of_the_page();
    const std::regex word(R"([a-z_]+)");
    for (Op op = Op::input; op <= Op::box_spread; op = static_cast<Op>(static_cast<int>(op) + 1)) {
        const Schema& schema = transfuse::schema(op);
        EXPECT_EQ(schema.op, op);
        EXPECT_EQ(op_named(schema.name), op);
        const auto found = rows.find(std::string(schema.name));
        if (found == rows.end()) {
            ADD_FAILURE() << schema.name << " is not on the page";
            continue;
        }
        std::string column = found->second;
        if (column.find("as max_pool") != std::string::npos) column = rows.at("max_pool");
        std::set<std::string> said, known;
        for (std::sregex_iterator at(column.begin(), column.end(), word), end; at != end; ++at)
            if (key_named(at->str())) said.insert(at->str());
        for (const AttributeSchema& attribute : schema.attributes) known.insert(std::string(name(attribute.key)));
        EXPECT_EQ(said, known) << schema.name;
    }
}

}  // namespace
}  // namespace transfuse
