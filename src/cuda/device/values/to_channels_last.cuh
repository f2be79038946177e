R"cuda(
// 32 pixels of 32 channels a block: neighbours along the pixels come, neighbours along the channels leave.
extern "C" __global__ void __launch_bounds__(256) transfuse_to_channels_last(const ELEMENT* __restrict__ in, ELEMENT* out, int channels, int pixels) {
    TF_SEQUENCE();
    constexpr int LANES = 16 / sizeof(ELEMENT), VECTORS = 32 / LANES;
    struct alignas(16) Vector { ELEMENT lane[LANES]; };
    __shared__ ELEMENT tile[32][33];
    const int across = (pixels + 31) / 32, deep = (channels + 31) / 32;
    const int pixel = blockIdx.x % across * 32, channel = blockIdx.x / across % deep * 32;
    const long long image = (long long)(blockIdx.x / (across * deep)) * channels * pixels;
    for (int k = threadIdx.x / 32; k < 32; k += 8)
        if (channel + k < channels && pixel + threadIdx.x % 32 < pixels) tile[k][threadIdx.x % 32] = in[image + (long long)(channel + k) * pixels + pixel + threadIdx.x % 32];
    __syncthreads();
    for (int i = threadIdx.x; i < 32 * VECTORS; i += 256) {
        const int p = i / VECTORS, k = i % VECTORS * LANES;
        if (pixel + p >= pixels || channel + k >= channels) continue;
        Vector some;
#pragma unroll
        for (int j = 0; j < LANES; j++) some.lane[j] = tile[k + j][p];
        *(Vector*)(out + image + (long long)(pixel + p) * channels + channel + k) = some;
    }
}
)cuda"
