// The chain on accumulators in a product warp's registers. Per-channel operands are a thread's one or two rows; no step
// reduces over channels.
#pragma once

#include <algorithm>

#include "cuda/dense/read/chain.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

class FragmentChain : public Chain {
public:
    FragmentChain(const Epilogue& epilogue, Lines& lines) : Chain(epilogue, lines, false) {}

    // The chain on accumulators acc[block]: a fragment's two rows, then its columns.
    void on_accumulators(const std::string& block) {
        const std::string value = "v" + num(epilogue_.program().around->pass.anchor);
        t.line("REAL " + value + "[BATCH][VECTOR];");
        loops({true, true});
        t.line(value + "[i][e] = acc[" + block + "][e / 2 * 4 + i * 2 + e % 2];");
        anchor();
        steps(false);
    }

    // The same up to `value`, which then is RESULT(row, column).
    void results(const std::string& block, ValueId value) {
        on_accumulators(block);
        tell_result(value);
    }
    void tell_result(ValueId value) {
        operand(value);
        const Kind of = kind(value);
        t.line("#undef RESULT");
        t.line("#define RESULT(i, e) " + name(value) + (of.c ? "[i]" : "") + (of.x ? "[e]" : ""));
    }

protected:
    void across(const std::string&, Op op, const std::string&) override {
        fail("dense fragments: ", transfuse::name(op), " over channels");
    }
    void load_image_rows(const std::string& name, size_t read) override {
        const std::string id = num(static_cast<int64_t>(read));
        t.unrolled("for (int i = 0; i < BATCH; i++) " + name + "[i] = CHANNEL_OK(i) ? tf_load<REAL>(operands.r" + id +
                   " + (image * operands.rs" + id + ".n + (group * COUT + CHANNEL(i)) * operands.rs" + id +
                   ".c)) : 0.f;");
    }
};

// Whether a thread can have the operands of a step: literals, other steps, values per channel, of all images or of
// each, and those `added` otherwise.
inline bool fragment_operands(const Epilogue& epilogue, ValueId step, const Few<size_t, 4>& added = {}) {
    for (ValueId a : epilogue.graph()[step].args)
        for (size_t k = 0; k < epilogue.reads().size(); ++k)
            if (epilogue.reads()[k].value == a && epilogue.table_of(k) < 0 &&
                (epilogue.image_table_of(k) < 0 || !epilogue.reads()[k].depends[1]) &&
                std::find(added.begin(), added.end(), k) == added.end())
                return false;
    return true;
}

}  // namespace transfuse::cuda
