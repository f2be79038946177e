#include "cuda/dense/exits/accumulators/reductions.h"

#include <algorithm>
#include <functional>

#include "cuda/dense/exits/accumulators/fragment_chain.h"
#include "cuda/kernel/expression.h"
#include "cuda/kernel/hooks.h"
#include "graph/has.h"

namespace transfuse::cuda {

namespace {

// A lane has sixteen columns of two rows; over the other rows lanes and warps meet.
class MeetingChain : public FragmentChain {
public:
    MeetingChain(const Epilogue& epilogue, Lines& lines) : FragmentChain(epilogue, lines) {}

protected:
    void across(const std::string& result, Op op, const std::string& term) override { meet(result, op, term, "one"); }

    // The exponents' reference and the shares are made where one lane has the column, once.
    void exponentials(const std::string& v, const std::string& term, Kind x) override {
        const std::string below = ref(v + "_below", x), share = ref(v + "_share", x);
        meet(v + "_below", Op::amax, term, "one == " + identity(Op::amax) + " ? 0.f : one * -1.44269504089f");
        t.line("REAL " + v + "_exp[BATCH][VECTOR];");
        loops({true, true});
        t.line(v + "_exp[i][e] = tf_exp2(fmaf(" + term + ", 1.44269504089f, " + below + "));");
        meet(v + "_share", Op::sum, v + "_exp[i][e]", "tf_quotient((REAL)1, one)");
        t.line("REAL " + v + "_top" + dims(x) + ", " + v + "_mass" + dims(x) + ";");
        loops(x);
        t.line(ref(v + "_top", x) + " = " + below + " * -0.69314718056f, " + ref(v + "_mass", x) +
               " = tf_quotient((REAL)1, " + share + ");");
    }

private:
    // result[pixel] = `finish` of `one`, which is `op` of `term` over all channels; declares it.
    void meet(const std::string& result, Op op, const std::string& term, const std::string& finish) {
        const Kind x{false, true};
        const std::string to = ref(result, x);
        t.line("REAL " + result + dims(x) + ";");
        for (int i = 0; i < 2; ++i) {
            t.line("{");
            t.line("constexpr int i = " + num(i) + ";");
            loops(x);
            if (i == 0)
                t.line(to + " = CHANNEL_OK(i) ? " + term + " : " + identity(op) + ";");
            else
                t.line("if (CHANNEL_OK(i)) " + to + " = " + combined(op, to, term) + ";");
            t.line("}");
        }
        t.line("meet(" + result + ", [](REAL a, REAL b) { return " + combined(op, "a", "b") +
               "; }, [](REAL one) { return " + finish + "; });");
    }
};

constexpr std::string_view channel_reductions =
#include "cuda/device/exits/channel_reductions.cuh"
    ;

}  // namespace

std::string reduction_program(const Epilogue& epilogue) {
    const TileProgram& program = epilogue.program();
    Lines t, steps;
    t.constants({{"EXCHANGE_AT", epilogue.slots_at() + epilogue.exchange_at()}});
    MeetingChain chain(epilogue, steps);
    const std::string value = "v" + num(program.around->pass.anchor);
    steps.line("REAL " + value + "[BATCH][VECTOR];");
    chain.loops({true, true});
    steps.line(value + "[i][e] = IS_THERE(e) ? PLACE(i, e) : 0.f;");
    chain.anchor();
    chain.steps(false);
    chain.tell_result(epilogue.leaving().handed);
    return t.str() + hooked(channel_reductions, {{"chain", steps.str()}});
}

}  // namespace transfuse::cuda
