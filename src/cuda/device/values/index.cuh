R"cuda(
typedef int tf_index;
struct alignas(8) tf_divisor { unsigned magic, shift; };  // 0 <= n < 2^31
TF_FUNCTION tf_index tf_quotient_of(tf_index n, tf_divisor d) {
    return (tf_index)((__umulhi((unsigned)n, d.magic) + (unsigned)n) >> d.shift);
}
)cuda"
