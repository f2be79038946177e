R"cuda(
// Each factor as the sum of two TF32 numbers: 22 bits, as exact as fp32 products need.
TF_FUNCTION void tf_product(float (&c)[4], const float (&x)[4], const float (&y)[2]) {
    unsigned a[4], al[4], b[2], bl[2];
    for (int i = 0; i < 4; ++i) a[i] = tf_tf32(x[i]), al[i] = tf_tf32(x[i] - __uint_as_float(a[i]));
    for (int i = 0; i < 2; ++i) b[i] = tf_tf32(y[i]), bl[i] = tf_tf32(y[i] - __uint_as_float(b[i]));
    tf_mma(c, al, b);
    tf_mma(c, a, bl);
    tf_mma(c, a, b);
}
)cuda"
