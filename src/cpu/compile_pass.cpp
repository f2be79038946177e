#include "cpu/pass.h"

namespace transfuse::cpu {

std::unique_ptr<CompiledPass> compile_pass(const Plan& plan, const Pass& pass) { return compile_steps(plan, pass); }

}  // namespace transfuse::cpu
