// docs/ops.md names every op with exactly its attributes.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/schema.h"

namespace transfuse {
namespace {

std::vector<std::string> split(const std::string& line, char separator) {
    std::vector<std::string> parts(1);
    for (char c : line)
        if (c == separator)
            parts.emplace_back();
        else
            parts.back() += c;
    return parts;
}

// What may be a key: runs of lower-case letters and '_'.
std::set<std::string> words(const std::string& text) {
    std::set<std::string> found;
    std::string word;
    for (char c : text + ' ')
        if ((c >= 'a' && c <= 'z') || c == '_')
            word += c;
        else if (!word.empty())
            found.insert(std::exchange(word, {}));
    return found;
}

// op -> the attribute column of its rows: "| ● `conv` | x, w | stride=1 … | … |"; a row without an op continues the
// last.
std::map<std::string, std::string> rows_of_the_page() {
    std::ifstream page(TRANSFUSE_SOURCE_DIR "/docs/ops.md");
    EXPECT_TRUE(page.good());
    std::map<std::string, std::string> rows;
    std::string line, op;
    while (std::getline(page, line)) {
        const auto columns = split(line, '|');
        if (columns.size() < 5) continue;
        const auto quoted = split(columns[1], '`');
        if (quoted.size() == 3) op = quoted[1];
        rows[op] += columns[3];
    }
    return rows;
}

TEST(OpsPage, NamesEveryOpAndAttribute) {
    const auto rows = rows_of_the_page();
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
        for (const std::string& word : words(column))
            if (key_named(word)) said.insert(word);
        for (const AttributeSchema& attribute : schema.attributes) known.insert(std::string(name(attribute.key)));
        EXPECT_EQ(said, known) << schema.name;
    }
}

}  // namespace
}  // namespace transfuse
