// What is done to a tile program when all its steps stand: a softmax takes its exponentials once, planes get registers.
#include <algorithm>
#include <map>

#include "cpu/tile_program.h"

namespace transfuse::cpu {

void TileProgram::fuse_softmax() {
    for (size_t stage = 0; stage + 1 < steps_.size(); ++stage)
        for (Step& reduce : steps_[stage].barrier)
            if (reduce.kind == Step::Kind::reduce && reduce.reduction == Op::logsumexp)
                reduce.leaves = fuse_softmax(reduce, stage);
}

// exp(x − logsumexp(x)) needs each exponential once: the reduction leaves exp(x − top) where x was and yields 1/Σ. And
// x − logsumexp(x) is as exact as its result is small: the reduction leaves x − top and yields log Σ. Only where
// nothing else reads x afterwards, the logarithm, or, of the first, the difference.
TileProgram::Step::Leaves TileProgram::fuse_softmax(Step& reduce, size_t stage) {
    const int x = reduce.args[0], sum = reduce.slot;
    Step *difference = nullptr, *exponential = nullptr;
    int uses_of_x = 0, uses_of_sum = 0, uses_of_difference = 0;
    auto meet = [&](Step& step, int a) {
        if (&step != &reduce && step.args[a] == x) ++uses_of_x;
        if (step.args[a] == sum) ++uses_of_sum;
        if (difference && step.args[a] == difference->slot) {
            ++uses_of_difference;
            if (step.function.op == RowOp::exp) exponential = &step;
        }
        if (a == 1 && step.kind == Step::Kind::pointwise && step.function.op == RowOp::sub && step.args[0] == x &&
            step.args[1] == sum)
            difference = &step;
    };
    for (size_t s = stage; s < steps_.size(); ++s)
        for (std::vector<Step>* list : {&steps_[s].once, &steps_[s].channel, &steps_[s].barrier}) {
            if (s == stage && list != &steps_[s].barrier) continue;
            for (Step& step : *list)
                for (int a = 0; a < step.arg_count; ++a) meet(step, a);
        }
    if (!difference || uses_of_x != 1 || uses_of_sum != 1 || has_sinks(sum)) return Step::Leaves::operand;
    if (!exponential || uses_of_difference != 1 || has_sinks(difference->slot)) return Step::Leaves::differences;
    // The exponential becomes the product exp(x − top) · 1/Σ; the difference goes.
    exponential->function = {RowOp::mul, {0, 0}};
    exponential->args[0] = x;
    exponential->args[1] = sum;
    exponential->arg_count = 2;
    for (Stage& later : steps_) std::erase_if(later.channel, [&](const Step& s) { return &s == difference; });
    return Step::Leaves::exponentials;
}

bool TileProgram::has_sinks(int slot) const {
    const Slot& s = slots_[static_cast<size_t>(slot)];
    return !s.store_sinks.empty() || !s.grid_sinks.empty();
}

void TileProgram::assign_registers() {
    registers_ = 0;
    for (const Stage& stage : steps_) registers_ = std::max(registers_, assign_registers(stage));
}

// Within a stage, a plane is free again after its last use; what is computed once keeps its own. How many it takes.
int TileProgram::assign_registers(const Stage& stage) {
    std::map<int, size_t> last;
    for (size_t i = 0; i < stage.channel.size(); ++i)
        for (int a = 0; a < stage.channel[i].arg_count; ++a) last[stage.channel[i].args[a]] = i;
    std::vector<int> free;
    int used = 0;
    const auto take = [&](int s) {
        Slot& slot = slots_[static_cast<size_t>(s)];
        if (!takes_register(slot)) return;
        if (free.empty()) free.push_back(used++);
        slot.reg = free.back();
        free.pop_back();
    };
    const auto give_back = [&](int s) {
        const Slot& slot = slots_[static_cast<size_t>(s)];
        if (takes_register(slot)) free.push_back(slot.reg);
    };
    for (size_t i = 0; i < stage.channel.size(); ++i) {
        const Step& step = stage.channel[i];
        const bool in_place = step.kind != Step::Kind::pool;  // a pool reads windows
        if (!in_place) take(step.slot);
        for (int a = 0; a < step.arg_count; ++a) {
            const int s = step.args[a];
            const bool again = a > 0 && (step.args[0] == s || (a > 1 && step.args[1] == s));
            if (!again && last[s] == i) give_back(s);
        }
        if (in_place) take(step.slot);
        if (!last.contains(step.slot)) give_back(step.slot);
    }
    return used;
}

bool TileProgram::takes_register(const Slot& slot) {
    return !slot.uniform && !slot.once && !slot.resident && !slot.given && !slot.literal;
}

}  // namespace transfuse::cpu
