R"cuda(
typedef long long tf_index;
struct alignas(8) tf_divisor { long long d; };
TF_FUNCTION tf_index tf_quotient_of(tf_index n, tf_divisor d) {
    return ((n | d.d) >> 32) ? n / d.d : (tf_index)((unsigned)n / (unsigned)d.d);
}
)cuda"
