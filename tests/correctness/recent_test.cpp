// A table that forgets keeps what was used last, within what it may hold.
#include "transfuse/recent.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <thread>

namespace transfuse {
namespace {

std::set<int> keys(const Recent<int, int>& table) {
    std::set<int> found;
    table.each([&](int key, int) { found.insert(key); });
    return found;
}

TEST(Recent, WhatWasUsedLastStays) {
    Recent<int, int> table(8);
    for (int key = 0; key < 100; ++key) {
        for (int dropped : table.put(key, 10 * key, 1)) EXPECT_NE(dropped, 0);
        ASSERT_NE(table.find(0), nullptr) << key;  // met again and again
        EXPECT_EQ(*table.find(key), 10 * key);
        EXPECT_LE(table.weight(), 8U);
        EXPECT_EQ(table.size(), table.weight());
    }
    EXPECT_TRUE(keys(table).contains(98) && keys(table).contains(97));
    EXPECT_EQ(table.find(50), nullptr);
}

TEST(Recent, WhatIsDroppedIsGiven) {
    Recent<int, int> table(8);
    std::set<int> seen;
    for (int key = 0; key < 40; ++key)
        for (int dropped : table.put(key, key, 1)) EXPECT_TRUE(seen.insert(dropped).second);
    for (int key : keys(table)) EXPECT_TRUE(seen.insert(key).second);
    EXPECT_EQ(seen.size(), 40U);
}

TEST(Recent, TheFirstUnderAKeyStays) {
    Recent<int, int> table(8);
    EXPECT_TRUE(table.put(1, 10, 3).empty());
    EXPECT_TRUE(table.put(1, 20, 3).empty());
    EXPECT_EQ(*table.find(1), 10);
    EXPECT_EQ(table.weight(), 3U);
}

// Two that take turns must not drop each other at every turn, though neither leaves room.
TEST(Recent, AFewStayWhateverTheyWeigh) {
    Recent<int, int> table(8, 2);
    EXPECT_TRUE(table.put(1, 1, 100).empty());
    EXPECT_TRUE(table.put(2, 2, 100).empty());
    ASSERT_NE(table.find(1), nullptr);
    const std::vector<int> dropped = table.put(3, 3, 100);
    EXPECT_EQ(dropped, std::vector<int>{2});
    EXPECT_EQ(keys(table), (std::set<int>{1, 3}));
    EXPECT_EQ(table.weight(), 200U);
}

TEST(Recent, HeavyOnesMakeRoom) {
    Recent<int, int> table(100, 1);
    for (int key = 0; key < 50; ++key) EXPECT_TRUE(table.put(key, key, 2).empty());
    EXPECT_FALSE(table.put(50, 50, 60).empty());
    EXPECT_LE(table.weight(), 100U);
    EXPECT_NE(table.find(50), nullptr);
    EXPECT_NE(table.find(49), nullptr);
    EXPECT_EQ(table.find(0), nullptr);
}

TEST(Recent, WhatIsTakenOutIsGone) {
    Recent<int, int> table(100);
    for (int key = 0; key < 10; ++key) EXPECT_TRUE(table.put(key, key, 2).empty());
    EXPECT_EQ(table.take_if([](int key, int) { return key % 2 == 0; }).size(), 5U);
    EXPECT_EQ(keys(table), (std::set<int>{1, 3, 5, 7, 9}));
    EXPECT_EQ(table.weight(), 10U);
}

// Those who look share a lock.
TEST(Recent, ManyMayLookAtOnce) {
    Recent<std::string, std::shared_ptr<const int>> table(1000);
    for (int key = 0; key < 100; ++key)
        EXPECT_TRUE(table.put(std::to_string(key), std::make_shared<const int>(key), 1).empty());
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 10000; ++i) EXPECT_EQ(**table.find(std::to_string(i % 100)), i % 100);
        });
    for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace transfuse
