// What is done to a tile program when all its steps stand: planes get registers.
#include <algorithm>
#include <map>

#include "cpu/tiles/tile_program.h"

namespace transfuse::cpu {

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
