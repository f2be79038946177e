"""The portable path: one plain kernel for any convolution, beside PyTorch's operators for the rest of the model as written.

It runs where the generated kernels cannot: on another GPU than they are for, at sizes whose rows are not 16 bytes apart.
"""

KERNEL = r"""
// The portable path, for any GPU and size: a thread computes one output o; along each axis @RULE@.
struct Geometry { int in[3], out[3], taps[3], stride[3], dilation[3], padding[3], batch, groups, cin, cout@TRANSPOSED@; };
__global__ void __launch_bounds__(256) direct(const STORED* x, const STORED* w, const STORED* bias, STORED* y, Geometry g) {
    const int taps = g.taps[0] * g.taps[1] * g.taps[2], image = g.in[0] * g.in[1] * g.in[2], channels = g.groups * g.cout;
    const long long at = blockIdx.x * 256ll + threadIdx.x, plane = at / g.out[2] / g.out[1] / g.out[0];
    const int o[3] = {int(at / g.out[2] / g.out[1] % g.out[0]), int(at / g.out[2] % g.out[1]), int(at % g.out[2])};
    const int channel = plane % channels, group = channel / g.cout, first = group * g.cin;
    if (plane >= 1ll * g.batch * channels) return;
    double sum = bias ? (float)bias[channel] : 0.f;
    for (int k = 0; k < taps; k++) {
        const int tap[3] = {k / (g.taps[1] * g.taps[2]), k / g.taps[2] % g.taps[1], k % g.taps[2]};
        int pixel = 0, inside = 1;
        for (int a = 0; a < 3; a++) {
@PLACE@
            pixel = pixel * g.in[a] + i;
        }
        float part = 0;
        for (int c = first; c < first + g.cin && inside; c++)
            part += (float)x[(plane / channels * g.groups * g.cin + c) * image + pixel] * (float)w[@WEIGHT@ * taps + k];
        sum += part;
    }
    y[at] = float(sum);
}
"""

TRANSPOSED = {
    "@RULE@": "o + padding = stride * i + dilation * k",
    "@PLACE@": """            const int up = o[a] + g.padding[a] - g.dilation[a] * tap[a], i = up / g.stride[a];
            inside = inside && up >= 0 && up % g.stride[a] == 0 && i < g.in[a];""",
    "@WEIGHT@": "(c * g.cout + channel % g.cout)",
    "@TRANSPOSED@": "",
}
EITHER = {
    "@RULE@": "o + padding = stride * i + dilation * k if transposed, else stride * o + dilation * k = i + padding",
    "@PLACE@": """            const int far = g.dilation[a] * tap[a], up = o[a] + g.padding[a] - far;
            const int i = g.transposed ? up / g.stride[a] : o[a] * g.stride[a] + far - g.padding[a];
            inside = inside && (g.transposed ? up >= 0 && up % g.stride[a] == 0 : i >= 0) && i < g.in[a];""",
    "@WEIGHT@": "(g.transposed ? c * g.cout + channel % g.cout : channel * g.cin + c - first)",
    "@TRANSPOSED@": ", transposed",
}

HOST = r"""
extern "C" long long convolve(STORED* const* at, const Geometry* g, cudaStream_t stream, int, int) {
    const long long outputs = 1ll * g->batch * g->groups * g->cout * g->out[0] * g->out[1] * g->out[2];
    direct<<<(unsigned)ceil_div(outputs, 256), 256, 0, stream>>>(at[0], at[1], at[2], at[3], *g);
    return (long long)cudaGetLastError();
}
"""


PYTHON = '''

def convolve(x, weight, bias, stride, padding, dilation, transposed, *rest):
    """What torch.ops.aten.convolution computes, by the portable kernel@STRICT_SAID@."""
@STRICT@@FLOATS@    x, weight, meta = x.contiguous(), weight.contiguous(), [t if t is None else t.to("meta") for t in (x, weight, bias)]
    y = x.new_empty(torch.ops.aten.convolution(*meta, stride, padding, dilation, transposed, *rest).shape)
    axes = [(1, x.shape[2:]), (1, y.shape[2:]), (1, weight.shape[2:]), (1, stride), (1, dilation), (0, padding)]
    numbers = [n for fill, values in axes for n in [fill] * (5 - x.dim()) + list(values)]  # a missing axis is one long
    numbers += [x.shape[0], rest[1], x.shape[1] // rest[1], y.shape[1] // rest[1]@EITHER@]
    function, arch = compiled("convolve", @DTYPE@x.device@TOLD@)
    call(function, [x, weight, bias, y], (ctypes.c_int * len(numbers))(*numbers), arch)
    return y@BACK@
'''


def kernel(transposed: bool) -> str:
    """The kernel for a file all of whose convolutions are transposed, or for any."""
    text = KERNEL
    for word, by in (TRANSPOSED if transposed else EITHER).items():
        text = text.replace(word, by)
    return text


def python(builds: list[str], transposed: bool, floats: bool, strict: bool, halves: bool) -> str:
    """floats: the file's kernels are for fp32 alone. strict: it has none for strict fp32, which PyTorch computes; halves: for no fp32."""
    told = ', "HALF" if x.dtype != torch.float32 else "TF32"' if "half" in builds else ', "TF32"'
    strictly = (
        "    if x.dtype == torch.float32 and not torch.backends.cudnn.allow_tf32:\n"
        "        return torch.ops.aten.convolution(x, weight, bias, stride, padding, dilation, transposed, *rest)\n"
    )
    if halves:
        strictly = strictly.replace(" and not torch.backends.cudnn.allow_tf32", "")
    converted = "    dtype, (x, weight, bias) = x.dtype, [t if t is None else t.float() for t in (x, weight, bias)]\n"
    text = PYTHON
    for word, by in {
        "@STRICT_SAID@": f"; {'' if halves else 'strict '}fp32 by PyTorch" if strict else "",
        "@STRICT@": strictly if strict else "",
        "@FLOATS@": converted if floats else "",
        "@EITHER@": "" if transposed else ", int(transposed)",
        "@DTYPE@": "" if floats else "x.dtype, ",
        "@TOLD@": told if len(builds) > 1 else "",
        "@BACK@": ".to(dtype)" if floats else "",
    }.items():
        text = text.replace(word, by)
    return text
