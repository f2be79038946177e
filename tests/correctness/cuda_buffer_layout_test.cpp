// Buffers between dense passes: which lie channels last, and that the passes at both ends agree.
#include "cuda/memory/buffer_layout.h"
#include "cuda_host/cases.h"

namespace transfuse::cuda {
namespace {

std::string chain(int width, const char* between = "%r = relu(%y)") {
    return "graph g {\n  %x = input f32[3,32,5," + std::to_string(width) +
           "]\n  %w = param f32[40,32,3,3]\n  %b = param f32[40]\n  %u = param f32[40,48,2,2]\n  %v = param "
           "f32[8,48,1,1]\n  %y "
           "= conv(%x, %w, %b) padding=[1,1]\n  " +
           between +
           "\n  %z = conv_transpose(%r, %u) stride=[2,2]\n  %s = gelu(%z)\n  %o = conv(%s, %v)\n  return %o\n}\n";
}

Plan planned(const std::string& text) { return plan(rewrite(parse(text)).rewritten, Machine::h200()); }

int64_t count(const Plan& p) {
    int64_t found = 0;
    for (bool last : channels_last_buffers(p)) found += last;
    return found;
}

TEST(BufferLayout, follows_the_length_of_rows) {
    EXPECT_EQ(count(planned(chain(7))), 2);   // rows of 7, then of 14 floats
    EXPECT_EQ(count(planned(chain(14))), 1);  // of 14; those of 28 floats begin on 16 bytes
    EXPECT_EQ(count(planned(chain(16))), 0);
}

TEST(BufferLayout, is_contiguous_where_another_pass_wants_more_than_to_convolve_it) {
    EXPECT_EQ(count(planned(chain(7, "%n = amax(%y) dims=[2,3] keepdim=1\n  %r = sub(%y, %n)"))), 1);  // read in both
    Plan p = planned(chain(7));
    for (Pass& pass : p.passes)
        if (pass.kind == PassKind::dense) pass.kind = PassKind::library;
    EXPECT_EQ(count(p), 0);
}

TEST(BufferLayout, is_the_same_for_those_who_store_and_who_read) {
    std::vector<HostCase> cases;
    Target target;
    target.multiprocessors = 3;
    uint64_t seed = 5;
    for (const char* dtype : {"f32", "f16"})
        for (int width : {7, 14, 9}) {
            const Graph graph = parse(with(chain(width), "f32", dtype));
            cases.push_back(
                make(graph, random_leaves(graph, ++seed), false, true, target, Fp32Precision::tf32, "dense"));
        }
    check(cases, 6e-3);
}

}  // namespace
}  // namespace transfuse::cuda
