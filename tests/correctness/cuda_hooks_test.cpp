// Hooks of the roles' texts: what stands there, or what a configuration says instead.
#include <gtest/gtest.h>

#include "cuda/kernel/hooks.h"
#include "transfuse/error.h"

namespace transfuse::cuda {
namespace {

TEST(CudaHooks, StandOrGiveWay) {
    const char* text = "int u[4]/*{fields*//*}*/; at(/*{box*/box/*}*/, /*{box*/box/*}*/);  // u";
    EXPECT_EQ(hooked(text), "int u[4]; at(box, box);  // u");
    EXPECT_EQ(hooked(text, {{"fields", ", start"}}), "int u[4], start; at(box, box);  // u");
    EXPECT_EQ(hooked(text, {{"box", "box_of(box)"}, {"fields", ""}}), "int u[4]; at(box_of(box), box_of(box));  // u");
    EXPECT_EQ(hooked("/* a comment */ x"), "/* a comment */ x");
}

TEST(CudaHooks, EveryOneThatIsNamedIsThere) {
    EXPECT_THROW(hooked("at(/*{box*/box/*}*/)", {{"boxes", ""}}), Error);
    EXPECT_THROW(hooked("at(/*{box*/box)"), Error);
}

}  // namespace
}  // namespace transfuse::cuda
