#include "cpu/pass/pass.h"

namespace transfuse::cpu {

std::unique_ptr<CompiledPass> compile_pass(const Plan& plan, const Pass& pass) {
    std::unique_ptr<CompiledPass> compiled;
    if (pass.kind == PassKind::dense) compiled = compile_dense(plan, pass);
    if (pass.kind == PassKind::moments) compiled = compile_moments(plan, pass);
    if (pass.kind == PassKind::pointwise) compiled = compile_pointwise(plan, pass);
    if (!compiled) compiled = compile_steps(plan, pass);
    return compiled;
}

}  // namespace transfuse::cpu
