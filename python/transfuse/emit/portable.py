"""The portable path: one plain kernel for any convolution, beside PyTorch's operators for the rest of the model as written.

It runs where the generated kernels cannot: on another GPU than they are for, at sizes whose rows are not 16 bytes apart.
"""

KERNEL = r"""
// The portable path, for any GPU and any size: a thread computes eight output channels at one place. Along each axis output o,
// input i and tap k belong together where down * o + offset = up * i + step * k.
struct Geometry { int in[3], out[3], taps[3], up[3], down[3], step[3], offset[3], batch, cin, cout, groups, of_group, of_cin, of_cout; };
__global__ void __launch_bounds__(256) direct(const STORED* x, const STORED* w, const STORED* bias, STORED* y, Geometry g) {
    long long rest = blockIdx.x * 256ll + threadIdx.x;
    int o[3], blocks = (g.cout + 7) / 8;
    for (int a = 2; a >= 0; a--) { o[a] = rest % g.out[a]; rest /= g.out[a]; }
    const int first = rest % blocks * 8, group = rest / blocks % g.groups;
    const long long n = rest / blocks / g.groups, image = 1ll * g.in[0] * g.in[1] * g.in[2];
    if (n >= g.batch) return;
    double sum[8] = {};
    for (int k = 0; k < g.taps[0] * g.taps[1] * g.taps[2]; k++) {
        const int tap[3] = {k / (g.taps[1] * g.taps[2]), k / g.taps[2] % g.taps[1], k % g.taps[2]};
        long long pixel = 0;
        bool inside = true;
        for (int a = 0; a < 3; a++) {
            const int i = g.down[a] * o[a] + g.offset[a] - g.step[a] * tap[a];
            inside = inside && i >= 0 && i % g.up[a] == 0 && i / g.up[a] < g.in[a];
            pixel = pixel * g.in[a] + i / g.up[a];
        }
        float part[8] = {};
        for (int c = 0; c < g.cin && inside; c++) {
            const float v = x[((n * g.groups + group) * g.cin + c) * image + pixel];
            const STORED* from = w + group * g.of_group + c * g.of_cin + first * g.of_cout + k;
            for (int j = 0; j < 8 && first + j < g.cout; j++) part[j] += v * (float)from[j * g.of_cout];
        }
        for (int j = 0; j < 8; j++) sum[j] += part[j];
    }
    for (int j = 0; j < 8 && first + j < g.cout; j++) {
        const long long co = (n * g.groups + group) * g.cout + first + j;
        const double shift = bias ? (float)bias[co % (g.groups * g.cout)] : 0.f;
        y[((co * g.out[0] + o[0]) * g.out[1] + o[1]) * g.out[2] + o[2]] = (float)(sum[j] + shift);
    }
}
"""

HOST = r"""
extern "C" long long convolve(void* const* leaf, void* const* out, const long long* size, char*, cudaStream_t stream, int) {
    Geometry g;
    for (int i = 0; i < (int)(sizeof(g) / sizeof(int)); i++) ((int*)&g)[i] = (int)size[i];
    const long long threads = g.batch * g.groups * ((g.cout + 7ll) / 8) * g.out[0] * g.out[1] * g.out[2];
    direct<<<(unsigned)((threads + 255) / 256), 256, 0, stream>>>((STORED*)leaf[0], (STORED*)leaf[1], (STORED*)leaf[2], (STORED*)out[0], g);
    return (long long)cudaGetLastError();
}
"""


PYTHON = '''

def convolve(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """What torch.ops.aten.convolution computes, by the portable kernel."""
    x, weight = x.contiguous(), weight.contiguous()
    like = [None if t is None else t.to("meta") for t in (x, weight, bias)]
    y = x.new_empty(torch.ops.aten.convolution(*like, stride, padding, dilation, transposed, output_padding, groups).shape)
    kernel, taps = weight.shape[2:], weight[0, 0].numel()
    ones, turned = [1] * len(kernel), lambda values: [-v for v in values]
    lattice = (stride, ones, dilation, padding) if transposed else (ones, stride, turned(dilation), turned(padding))
    three = lambda values, fill=1: [fill] * (3 - len(kernel)) + list(values)
    numbers = [n for values in (x.shape[2:], y.shape[2:], kernel, *lattice[:3]) for n in three(values)] + three(lattice[3], 0)
    steps = (weight.shape[1] * taps, taps) if transposed else (taps, weight.shape[1] * taps)
    numbers += [x.shape[0], x.shape[1] // groups, y.shape[1] // groups, groups, weight.numel() // groups, *steps]
    library, arch = compiled(x.dtype, x.device@TOLD@)
    library.convolve.argtypes = [ctypes.c_void_p] * 5 + [ctypes.c_int]
    call(library.convolve, [x, weight, bias], [y], (ctypes.c_longlong * len(numbers))(*numbers), None, arch)
    return y
'''


def python(builds: list[str]) -> str:
    told = ', "HALF" if x.dtype != torch.float32 else "TF32"' if "half" in builds else ', "TF32"'
    return PYTHON.replace("@TOLD@", told if len(builds) > 1 else "")
