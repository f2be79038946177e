R"cuda(
// The sum over a warp in a fixed order: lane 0 has it.
TF_FUNCTION double tf_warp_sum(double v) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    return v;
}
)cuda"
