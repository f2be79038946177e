R"cuda(
// Factors were rounded when they were staged.
TF_FUNCTION void tf_product(float (&c)[4], const float (&x)[4], const float (&y)[2]) {
    unsigned a[4], b[2];
    for (int i = 0; i < 4; ++i) a[i] = __float_as_uint(x[i]);
    for (int i = 0; i < 2; ++i) b[i] = __float_as_uint(y[i]);
    tf_mma(c, a, b);
}
)cuda"
