R"cuda(
#define TF_FUNCTION static __device__ __forceinline__
struct tf_half { unsigned short bits; };
struct tf_bfloat { unsigned short bits; };

#ifdef __CUDACC_RTC__
TF_FUNCTION float tf_half_to_float(unsigned short h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
TF_FUNCTION unsigned short tf_float_to_half(float f) { unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
// As one of a pair: alone it would take the pipe of exponentials, a quarter as fast.
TF_FUNCTION unsigned short tf_float_to_bfloat(float f) { unsigned h; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(h) : "f"(0.0f), "f"(f)); return (unsigned short)h; }
// min and max that pass NaN through, in one instruction.
TF_FUNCTION float tf_max(float a, float b) { float c; asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c; }
TF_FUNCTION float tf_min(float a, float b) { float c; asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c; }
TF_FUNCTION float tf_quotient(float a, float b) { float c; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(c) : "f"(b)); return a * c; }  // 2 ulp; |b| >= 1
TF_FUNCTION float tf_exp2(float a) { float c; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(c) : "f"(a)); return c; }
#else
TF_FUNCTION float tf_half_to_float(unsigned short h) { return tf_host_half_to_float(h); }
TF_FUNCTION unsigned short tf_float_to_half(float f) { return tf_host_float_to_half(f); }
TF_FUNCTION unsigned short tf_float_to_bfloat(float f) { return tf_host_float_to_bfloat(f); }
TF_FUNCTION float tf_max(float a, float b) { return a != a ? a : b != b ? b : a > b ? a : b; }
TF_FUNCTION float tf_min(float a, float b) { return a != a ? a : b != b ? b : a < b ? a : b; }
TF_FUNCTION float tf_quotient(float a, float b) { return a / b; }
TF_FUNCTION float tf_exp2(float a) { return exp2f(a); }
#endif
TF_FUNCTION double tf_max(double a, double b) { return a != a ? a : b != b ? b : a > b ? a : b; }
TF_FUNCTION double tf_min(double a, double b) { return a != a ? a : b != b ? b : a < b ? a : b; }
TF_FUNCTION float tf_bfloat_to_float(unsigned short h) { return __uint_as_float((unsigned)h << 16); }

template <class R> TF_FUNCTION R tf_to(double v) { return (R)v; }
template <class R> TF_FUNCTION R tf_to(float v) { return (R)v; }
template <class R> TF_FUNCTION R tf_to(tf_half v) { return (R)tf_half_to_float(v.bits); }
template <class R> TF_FUNCTION R tf_to(tf_bfloat v) { return (R)tf_bfloat_to_float(v.bits); }
TF_FUNCTION void tf_from(double& s, double v) { s = v; }
TF_FUNCTION void tf_from(float& s, double v) { s = (float)v; }
TF_FUNCTION void tf_from(float& s, float v) { s = v; }
TF_FUNCTION void tf_from(double& s, float v) { s = (double)v; }
TF_FUNCTION void tf_from(tf_half& s, float v) { s.bits = tf_float_to_half(v); }
TF_FUNCTION void tf_from(tf_bfloat& s, float v) { s.bits = tf_float_to_bfloat(v); }
TF_FUNCTION void tf_from(tf_half& s, double v) { s.bits = tf_float_to_half((float)v); }
TF_FUNCTION void tf_from(tf_bfloat& s, double v) { s.bits = tf_float_to_bfloat((float)v); }
template <class R, class S> TF_FUNCTION R tf_load(const S* p) { return tf_to<R>(*p); }
template <class S, class R> TF_FUNCTION void tf_store(S* p, R v) { S s; tf_from(s, v); *p = s; }
// The value as it would be after a trip through memory as S.
template <class S, class R> TF_FUNCTION R tf_round(R v) { S s; tf_from(s, v); return tf_to<R>(s); }

// N consecutive elements moved at once; N·sizeof(S) is a power of two up to 16 and the address a multiple of it.
template <class S, int N> struct alignas(sizeof(S) * N) tf_vector { S lane[N]; };

// Counts, means and squares about the mean of two sets, joined into the first.
template <class R> TF_FUNCTION void tf_join_moments(R& n, R& mean, R& squares, R n2, R mean2, R squares2) {
    const R both = n + n2, share = both > (R)0 ? n2 / both : (R)0, d = mean2 - mean;
    mean += d * share;
    squares += squares2 + d * d * n * share;
    n = both;
}

template <class R> TF_FUNCTION R tf_sign(R x) { return (R)((x > (R)0) - (x < (R)0)); }
template <class R> TF_FUNCTION R tf_relu(R x) { return tf_max(x, (R)0); }
#ifdef TF_AFTER_PRODUCT
// Two instructions. Rounding x·log2(e) shifts the result no more than rounding x itself does, and x is a rounded sum here.
TF_FUNCTION float tf_exp(float x) { return tf_exp2(x * 1.44269504089f); }
// exp(x - top) of many x in two instructions each: the rounding of top·log2(e) is common to all and cancels in their shares.
TF_FUNCTION float tf_exp_below(float x, float top) { return tf_exp2(fmaf(x, 1.44269504089f, top * -1.44269504089f)); }
#else
TF_FUNCTION float tf_exp(float x) { return expf(x); }
TF_FUNCTION float tf_exp_below(float x, float top) { return expf(x - top); }
#endif
TF_FUNCTION double tf_exp_below(double x, double top) { return exp(x - top); }
TF_FUNCTION double tf_exp(double x) { return exp(x); }
TF_FUNCTION float tf_log(float x) { return logf(x); }
TF_FUNCTION double tf_log(double x) { return log(x); }
TF_FUNCTION float tf_sqrt(float x) { return sqrtf(x); }
TF_FUNCTION double tf_sqrt(double x) { return sqrt(x); }
TF_FUNCTION float tf_rsqrt(float x) { return rsqrtf(x); }
TF_FUNCTION double tf_rsqrt(double x) { return 1.0 / sqrt(x); }
TF_FUNCTION float tf_sin(float x) { return sinf(x); }
TF_FUNCTION double tf_sin(double x) { return sin(x); }
TF_FUNCTION float tf_cos(float x) { return cosf(x); }
TF_FUNCTION double tf_cos(double x) { return cos(x); }
TF_FUNCTION float tf_erf(float x) { return erff(x); }
TF_FUNCTION double tf_erf(double x) { return erf(x); }
TF_FUNCTION double tf_expm1(double x) { return expm1(x); }
TF_FUNCTION float tf_log1p(float x) { return log1pf(x); }
TF_FUNCTION double tf_log1p(double x) { return log1p(x); }
TF_FUNCTION float tf_pow(float x, float y) { return powf(x, y); }
TF_FUNCTION double tf_pow(double x, double y) { return pow(x, y); }
TF_FUNCTION float tf_abs(float x) { return fabsf(x); }
TF_FUNCTION double tf_abs(double x) { return fabs(x); }
TF_FUNCTION double tf_quotient(double a, double b) { return a / b; }
TF_FUNCTION double tf_tanh(double x) { return tanh(x); }
#ifdef TF_ROUNDED_PRODUCT
// What follows a product of operands rounded to 11 bits or fewer: half the instructions, errors below 1e-6.
#ifdef TF_TANH_INSTRUCTION
// One instruction; on sm_90 its relative error is below 1.2e-5.
TF_FUNCTION float tf_tanh(float x) { float y; asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
#else
TF_FUNCTION float tf_tanh(float x) {
    float s = x * x, series = fmaf(x * s, fmaf(s, 0.1303831970f, -0.3332970789f), x);
    float far = fmaf(tf_quotient(1.0f, 1.0f + tf_exp2(x * 2.88539008178f)), -2.0f, 1.0f);
    return s < 0.04f ? series : far;
}
#endif
TF_FUNCTION float tf_expm1(float x) {
    float s = x * x, series = fmaf(s, fmaf(x, fmaf(x, fmaf(x, 0.0083464612f, 0.0417359665f), 0.1666664592f), 0.4999993115f), x);
    return s < 0.04f ? series : tf_exp(x) - 1.0f;
}
#else
// Without branches: an odd polynomial where 1 - 2/(1 + e^2|x|) would cancel (to a sixth of an ulp below 0.6), else that.
TF_FUNCTION float tf_tanh(float x) {
    float a = fabsf(x), s = x * x;
    float p = fmaf(s, fmaf(s, fmaf(s, fmaf(s, -0.00619308f, 0.0210471f), -0.05385604f), 0.1333273f), -0.33333325f);
    float near = fmaf(x * s, p, x);
    float far = fmaf(tf_quotient(1.0f, 1.0f + tf_exp2(a * 2.88539008178f)), -2.0f, 1.0f);
    return a < 0.6f ? near : copysignf(far, x);
}
TF_FUNCTION float tf_expm1(float x) { return expm1f(x); }
#endif
template <class R> TF_FUNCTION R tf_sigmoid(R x) { return tf_quotient((R)1, (R)1 + tf_exp(-x)); }
TF_FUNCTION float tf_logistic(float u) { return tf_quotient(1.0f, 1.0f + tf_exp2(u)); }  // u = -x log2(e)
// Of x between 0 and 1: the odd series about 1/2, without the pipe of exponentials; errors below 5e-8.
TF_FUNCTION float tf_sigmoid_of_share(float x) {
    float s = x * x;
    return fmaf(x, fmaf(s, fmaf(s, fmaf(s, fmaf(s, 1.672982944e-5f, -2.0696967840e-4f), 2.0819923375e-3f), -0.0208331682f), 0.25f), 0.5f);
}
template <class R> TF_FUNCTION R tf_silu(R x) { return tf_quotient(x, (R)1 + tf_exp(-x)); }
// tanh(log(1 + e^x)) = n/(n + 2) with n = e^x(e^x + 2)
template <class R> TF_FUNCTION R tf_mish(R x) {
    R e = tf_exp(tf_min(x, (R)20)), n = e * (e + (R)2);
    return x > (R)20 ? x : x * tf_quotient(n, n + (R)2);
}
template <class R> TF_FUNCTION R tf_softplus(R x, R beta, R threshold) {
    R z = x * beta;
    return z > threshold ? x : tf_log1p(tf_exp(z)) / beta;
}
#ifdef TF_ROUNDED_PRODUCT
// max(z, 0) + log(1 + e^-|z|), the logarithm by Abramowitz and Stegun 4.1.44.
TF_FUNCTION float tf_softplus(float x, float beta, float threshold) {
    float z = x * beta, t = tf_exp2(fabsf(z) * -1.44269504089f);
    float p = fmaf(t, fmaf(t, fmaf(t, fmaf(t, -0.0064535442f, 0.0360884937f), -0.0953293897f), 0.1676540711f), -0.2407338084f);
    p = t * fmaf(t, fmaf(t, fmaf(t, p, 0.3317990258f), -0.4998741238f), 0.9999964239f);
    return z > threshold ? x : (tf_max(z, 0.0f) + p) * (1.0f / beta);
}
#endif
template <class R> TF_FUNCTION R tf_elu(R x, R alpha) { return x > (R)0 ? x : alpha * tf_expm1(x); }
template <class R> TF_FUNCTION R tf_selu(R x) {
    return (R)1.0507009873554804934193349852946 * (x > (R)0 ? x : (R)1.6732632423543772848170429916717 * tf_expm1(x));
}
template <class R> TF_FUNCTION R tf_gelu(R x) { return (R)0.5 * x * ((R)1 + tf_erf(x * (R)0.70710678118654752440)); }
#ifdef TF_ROUNDED_PRODUCT
// x·Φ(x) = max(x, 0) - |x|·Φ(-|x|); the tail Φ(-a) = e^(-a²/2)·P(t) with t = 1/(1 + 0.2316419a) (Abramowitz and Stegun 26.2.17).
TF_FUNCTION float tf_gelu(float x) {
    float a = tf_min(fabsf(x), 20.0f), t = tf_quotient(1.0f, fmaf(a, 0.2316419f, 1.0f));
    float p = t * fmaf(t, fmaf(t, fmaf(t, fmaf(t, 0.530702714f, -0.726576013f), 0.710706871f), -0.142248368f), 0.127414796f);
    return fmaf(-a, p * tf_exp2(a * a * -0.72134752044f), tf_max(x, 0.0f));
}
#endif
template <class R> TF_FUNCTION R tf_gelu_tanh(R x) {
    return (R)0.5 * x * ((R)1 + tf_tanh((R)0.79788456080286535588 * (x + (R)0.044715 * x * x * x)));
}
template <class R> TF_FUNCTION R tf_hardsigmoid(R x) { return tf_min(tf_max(x + (R)3, (R)0), (R)6) * (R)(1.0 / 6.0); }
template <class R> TF_FUNCTION R tf_hardswish(R x) { return x * tf_hardsigmoid(x); }
)cuda"
