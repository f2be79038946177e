// Of every C++ test: where a case fails it says how to run that case alone.
#include <gtest/gtest.h>

#include <cstdio>

#include "thorough.h"

namespace {

class Alone final : public testing::EmptyTestEventListener {
public:
    explicit Alone(const char* program) : program_(program) {}
    void OnTestEnd(const testing::TestInfo& test) override {
        if (!test.result()->Failed()) return;
        std::printf("To run it alone: %s%s --gtest_filter='%s.%s'\n",
                    transfuse::tests::thorough() ? "TRANSFUSE_TESTS=long " : "", program_, test.test_suite_name(),
                    test.name());
        std::fflush(stdout);
    }

private:
    const char* const program_;
};

}  // namespace

int main(int count, char** words) {
    testing::InitGoogleTest(&count, words);
    testing::UnitTest::GetInstance()->listeners().Append(new Alone(words[0]));
    return RUN_ALL_TESTS();
}
