#include "cuda/kernel/warpgroup_code.h"

#include "cuda/kernel/text.h"

namespace transfuse::cuda {

namespace {

constexpr std::string_view ptx =
#include "cuda/device/machine/ptx.cuh"
    ;
constexpr std::string_view hopper =
#include "cuda/device/machine/hopper.cuh"
    ;

// What the two kinds of products spell differently; an instruction's operands are numbered behind its sums.
struct Spelling {
    std::string declared, parameters, predicate, factors, transposes, inputs, on_host;
};

Spelling spelling(int64_t sums, LeftFactor left, bool tf32) {
    auto operand = [&](int64_t i) { return "%" + number(sums + i); };
    if (left == LeftFactor::registers)
        return {"TF_PTX void",
                "const unsigned (&a)[4], unsigned long long b",
                "setp.eq.u32 p, 0, 0",
                "{" + operand(0) + ", " + operand(1) + ", " + operand(2) + ", " + operand(3) + "}, " + operand(4),
                "",
                "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b)",
                "multiply_rows(d, a, b)"};
    return {"static __device__ __forceinline__ void",
            "unsigned long long a, unsigned long long b, int accumulate",
            "setp.ne.b32 p, " + operand(2) + ", 0",
            operand(0) + ", " + operand(1),
            tf32 ? "" : ", 0, 0",
            "\"l\"(a), \"l\"(b), \"r\"(accumulate)",
            "multiply_group<ELEMENT>(d, a, b, accumulate, [](ELEMENT e) { return tf_to<float>(e); })"};
}

// d[64][N] += a[64][K] · b[K][N]: m64nNk8 of TF32, m64nNk16 of 16 bits.
std::string product(const std::string& type, int64_t sums, LeftFactor left) {
    const bool tf32 = type == "tf32";
    const Spelling text = spelling(sums, left, tf32);
    std::string registers, outputs;
    for (int64_t i = 0; i < sums; ++i) {
        registers += (i ? ",%" : "%") + number(i);
        outputs += (i ? ",\"+f\"(d[" : "\"+f\"(d[") + number(i) + "])";
    }
    return text.declared + " product(float (&d)[" + number(sums) + "], " + text.parameters +
           ") {\n#ifdef __CUDACC__\n    asm volatile(\"{\\n.reg .pred p;\\n" + text.predicate +
           ";\\nwgmma.mma_async.sync.aligned.m64n" + number(2 * sums) + (tf32 ? "k8" : "k16") + ".f32." + type + "." +
           type + " {" + registers + "}, " + text.factors + ", p, 1, 1" + text.transposes +
           ";\\n}\"\n        : " + outputs + " : " + text.inputs + ");\n#else\n    " + text.on_host + ";\n#endif\n}\n";
}

}  // namespace

std::string_view ptx_code() { return ptx; }

std::string warpgroup_code(const std::string& type, int64_t sums, LeftFactor left) {
    return std::string(hopper) + product(type, sums, left);
}

}  // namespace transfuse::cuda
