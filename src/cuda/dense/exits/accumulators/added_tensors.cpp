#include "cuda/dense/exits/accumulators/added_tensors.h"

#include <algorithm>

namespace transfuse::cuda {

namespace {

constexpr std::string_view added =
#include "cuda/device/exits/added.cuh"
    ;

}  // namespace

bool lies_in_boxes(const Operand& tensor, const Problem& problem) {
    const int64_t vector = 16 / bytes(tensor.dtype);
    if (tensor.strides[1] != 1 || tensor.offset % vector != 0 || problem.cout % vector != 0) return false;
    for (size_t a = 0; a < 4; ++a)
        if (problem.axes[a].out > 1 && tensor.strides[a == 0 ? 0 : a + 1] % vector != 0) return false;
    return true;
}

Few<size_t, 4> added_tensors(const Epilogue& epilogue) {
    const Problem& problem = epilogue.problem();
    const auto& reads = epilogue.reads();
    Few<size_t, 4> list;
    if (epilogue.stores().empty()) return list;
    for (size_t k = 0; k < reads.size(); ++k) {
        const Operand& o = reads[k];
        const auto& steps = epilogue.program().steps;
        const bool read = std::any_of(steps.begin(), steps.end(), [&](ValueId v) {
            const auto& args = epilogue.graph()[v].args;
            return std::find(args.begin(), args.end(), o.value) != args.end();
        });
        if (!read || epilogue.table_of(k) >= 0 || epilogue.image_table_of(k) >= 0 || o.root < 0) continue;
        bool everywhere = o.depends[1];
        for (size_t a = 0; a < 4; ++a) {
            const size_t axis = a == 0 ? 0 : a + 1;
            everywhere = everywhere && (problem.axes[a].out == 1 || (o.depends[axis] && o.strides[axis] > 0));
        }
        if (everywhere && bytes(o.dtype) == bytes(epilogue.stores()[0].dtype) && lies_in_boxes(o, problem))
            list.push_back(k);
    }
    return list;
}

std::string_view added_code() { return added; }

Hooks asked_while_multiplying() { return {{"multiplied", "\n            if (k == 0) fragments.ask(at);"}}; }

}  // namespace transfuse::cuda
