"""The portable path: one plain kernel for the model's convolution, beside PyTorch's operators for the rest of the model as written.

It runs where the generated kernels cannot: on another GPU than they are for, at sizes whose rows are not 16 bytes apart. Where all
convolutions of a file are one but for their sizes its numbers stand in the text, else they are arguments.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from math import prod

from transfuse.emit.sizes import AXES
from transfuse.emit.text.layout import WIDTH

CALL = re.compile(r"\bconvolve\(\w+, (\w+), (\w+), (\[[^]]*\], \[[^]]*\], \[[^]]*\], (?:True|False), \[[^]]*\], \d+)\)")


@dataclass(frozen=True)
class Convolution:
    """What torch.ops.aten.convolution is told beside tensors, and the weights' shape."""

    weight: tuple[int, ...]
    biased: bool
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    beyond: tuple[int, ...]  # output_padding
    groups: int

    @property
    def taps(self) -> int:
        return prod(self.weight[2:])

    @property
    def cin(self) -> int:
        """Input channels of a group."""
        return self.weight[0] // self.groups if self.transposed else self.weight[1]

    @property
    def cout(self) -> int:
        """Output channels of a group."""
        return self.weight[1] if self.transposed else self.weight[0] // self.groups


def called(regions: list[tuple[str, dict[str, tuple]]]) -> list[Convolution | None]:
    """The convolutions of regions as they are written, each with the shapes of its leaves; None: one whose weights are no leaf."""
    found: list[Convolution | None] = []
    for text, shapes in regions:
        calls = [(m[1], m[2], ast.literal_eval(f"({m[3]})")) for m in CALL.finditer(text)]
        found += [None] * (len(re.findall(r"\bconvolve\(", text)) - len(calls))
        for weight, bias, (stride, padding, dilation, transposed, beyond, groups) in calls:
            lists = tuple(stride), tuple(padding), tuple(dilation)
            known = weight in shapes and len({len(stride), len(shapes[weight]) - 2}) == 1
            found.append(
                Convolution(tuple(shapes[weight]), bias != "None", *lists, transposed, tuple(beyond), groups)
                if known
                else None
            )
    return found


ONE = r"""
// The portable path, for any GPU and size: a thread computes output o, then another; along each axis @RULE@.
__global__ void __launch_bounds__(256) direct(const STORED* x, const STORED* weight, @BIAS_GIVEN@STORED* y, @SIZES@) {
    const int @OUT@;
    for (long long at = blockIdx.x * 256 + threadIdx.x; at < @CHANNELS@ll * batch@OUTPUTS@; at += gridDim.x * 256) {
        const int plane = at@PER_PLANE@, n = plane / @CHANNELS@, co = plane % @CHANNELS@@GROUP@;
        double sum = @BIAS@;
        for (int k = 0; k < @TAPS@; k++) {
            const int @UP@;
            if (@OUTSIDE@) continue;
            float part = 0;
            for (int ci = 0; ci < @CIN@; ci++)
                part += x[@PIXEL@] * weight[@WEIGHT@ * @TAPS@ + k];
            sum += part;
        }
        y[at] = sum;
    }
}
"""
ONE_HOST = r"""
extern "C" long long convolve(STORED* const* leaf, const long long* size, cudaStream_t stream, int, int asks) {
    if (!asks) direct<<<4096, 256, 0, stream>>>(@GIVEN@);
    return (long long)cudaGetLastError();
}
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
            part += x[(plane / channels * g.groups * g.cin + c) * image + pixel] * w[@WEIGHT@ * taps + k];
        sum += part;
    }
    y[at] = sum;
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
    """What torch.ops.aten.convolution computes, by the portable kernel."""
@FLOATS@    x, weight, meta = x.contiguous(), weight.contiguous(), [t if t is None else t.to("meta") for t in (x, weight, bias)]
    y = x.new_empty(torch.ops.aten.convolution(*meta, stride, padding, dilation, transposed, *rest).shape)
    axes = [(1, x.shape[2:]), (1, y.shape[2:]), (1, weight.shape[2:]), (1, stride), (1, dilation), (0, padding)]
    numbers = [n for fill, values in axes for n in [fill] * (5 - x.dim()) + list(values)]  # a missing axis is one long
    numbers += [x.shape[0], rest[1], x.shape[1] // rest[1], y.shape[1] // rest[1]@EITHER@]
    function, arch = compiled("convolve", @DTYPE@x.device@TOLD@)
    at = struct.pack("4P", *[0 if t is None else t.data_ptr() for t in (x, weight, bias, y)])
    function(at, (ctypes.c_int * len(numbers))(*numbers), ctypes.c_void_p(torch._C._cuda_getCurrentRawStream(x.get_device())), arch, False)
    return y@BACK@
'''


def texts(convolutions: list[Convolution | None], transposed: bool) -> tuple[str, str, str]:
    """Device code, host code and Python of the portable path for the file's convolutions: a function, or what calls a program of one."""
    if len({*convolutions}) == 1 and convolutions[0]:
        words = _words(convolutions[0])
        return _filled(ONE, words), _filled(ONE_HOST, words), words["@CALL@"]
    python = PYTHON.replace("@EITHER@", "" if transposed else ", int(transposed)")
    return _filled(KERNEL, TRANSPOSED if transposed else EITHER), HOST, python


LOOP = re.compile(r"(?m)^( *for \([^\n]*\))\n +(part \+= [^\n]*;)$")


def of_floats(text: str) -> str:
    """The kernel where elements are float: they need not be made it."""
    return re.sub(r"\(float\)(?=\w+\[)", "", text)


def _filled(text: str, words: dict[str, str]) -> str:
    for word, by in words.items():
        text = text.replace(word, by)
    return LOOP.sub(lambda m: line if len(line := f"{m[1]} {m[2]}") <= WIDTH else m[0], text)


def _words(c: Convolution) -> dict[str, str]:
    axes = "dhw"[3 - len(c.stride) :]
    sizes, out = AXES[len(c.weight)], [f"out_{axis}" for axis in axes]
    behind = [prod(c.weight[3 + a :]) for a in range(len(axes))]  # taps of the axes behind
    up, outside, pixel = [], [], f"(n * {c.cin * c.groups}ll + {'first + ' if c.groups > 1 else ''}ci)"
    per = lambda a: "".join(f" / {n}" for n in reversed(out[a:]))  # noqa: E731
    for a, (axis, size) in enumerate(zip(axes, sizes[1:])):
        tap = f"k{f' / {behind[a]}' if behind[a] > 1 else ''}{f' % {c.weight[2 + a]}' if a else ''}"
        tap = "0" if c.weight[2 + a] == 1 else tap if c.dilation[a] == 1 else f"{tap} * {c.dilation[a]}"
        step, pad, at = c.stride[a], c.padding[a], f"at{per(a + 1)} % {out[a]}"
        if c.transposed:
            up.append(f"{axis} = {at}{f' + {pad}' if pad else ''}{f' - {tap}' if tap != '0' else ''}")
            own = f"{axis} / {step}" if step > 1 else axis
            outside += [f"{axis} < 0", *([f"{axis} % {step}"] if step > 1 else []), f"{own} >= {size}"]
        else:
            own = axis
            up.append(
                f"{axis} = {at}{f' * {step}' if step > 1 else ''}{f' + {tap}' if tap != '0' else ''}{f' - {pad}' if pad else ''}"
            )
            outside += [f"{axis} < 0", f"{axis} >= {size}"]
        pixel = f"{pixel} * {size} + {own}" if axis == "w" else f"({pixel} * {size} + {own})"
    inputs, channel = ("(first + ci)", f"co % {c.cout}") if c.groups > 1 else ("ci", "co")
    tensors = ["x", "weight", *["bias"] * c.biased]
    return {
        "@RULE@": TRANSPOSED["@RULE@"] if c.transposed else "stride * o + dilation * k = i + padding",
        "@SIZES@": ", ".join(f"int {n}" for n in sizes),
        "@OUT@": ", ".join(f"{n} = {e}" for n, e in zip(out, _outputs(c, " / "))),
        "@BIAS_GIVEN@": "const STORED* bias, " if c.biased else "",
        "@BIAS@": "bias[co]" if c.biased else "0",
        "@PER_PLANE@": per(0),
        "@CHANNELS@": str(c.cout * c.groups),
        "@GROUP@": f", first = co / {c.cout} * {c.cin}" if c.groups > 1 else "",
        "@TAPS@": str(c.taps),
        "@UP@": ", ".join(up),
        "@OUTSIDE@": " || ".join(outside),
        "@CIN@": str(c.cin),
        "@PIXEL@": pixel,
        "@WEIGHT@": f"({inputs} * {c.cout} + {channel})" if c.transposed else f"(co * {c.cin} + ci)",
        "@OUTPUTS@": "".join(f" * {n}" for n in out),
        "@GIVEN@": ", ".join(
            [f"leaf[{i}]" for i in range(len(tensors) + 1)] + [f"size[{i}]" for i in range(len(sizes))]
        ),
        "@CALL@": f'lambda {", ".join(tensors)}, *_: run("convolve", {", ".join(tensors)})[0]',
    }


def _outputs(c: Convolution, divided: str) -> list[str]:
    """How long the output is along each axis, in C++ or Python."""
    found = []
    for a, size in enumerate(AXES[len(c.weight)][1:]):
        step, reach = c.stride[a], c.dilation[a] * (c.weight[2 + a] - 1) - 2 * c.padding[a]
        scale = f"{step} * " if c.transposed and step > 1 else ""
        more = reach + 1 - step + c.beyond[a] if c.transposed else step - reach - 1
        sum_ = f"{scale}{size} {'-' if more < 0 else '+'} {abs(more)}" if more else f"{scale}{size}"
        found.append(f"({sum_}){divided}{step}" if step > 1 and not c.transposed else sum_)
    return found


def program(convolutions: list[Convolution | None]) -> tuple[list[str], str] | None:
    """What `run` is told of the portable kernel, where it is for one convolution: of leaves names and shapes, and outputs."""
    if len({*convolutions}) != 1 or not convolutions[0]:
        return None
    c = convolutions[0]
    sizes = ", ".join(f'"{n}"' for n in AXES[len(c.weight)][1:])
    leaves = [f'("x", ("batch", {c.cin * c.groups}, {sizes}))', f'("weight", {c.weight})']
    shape = ", ".join(["batch", str(c.cout * c.groups), *_outputs(c, " // ")])
    outputs = f"lambda {', '.join(AXES[len(c.weight)])}: [({shape})]"
    return [*leaves, *[f'("bias", ({c.cout * c.groups},))'] * c.biased], outputs


def python(text: str, builds: list[str], floats: bool) -> str:
    """The function, where there is one. floats: the file's kernels are for fp32 alone."""
    if text.startswith("lambda "):
        return ""
    told = ', "HALF" if x.dtype != torch.float32 else "TF32"' if "half" in builds else ', "TF32"'
    converted = "    dtype, (x, weight, bias) = x.dtype, [t if t is None else t.float() for t in (x, weight, bias)]\n"
    return _filled(text, {
        "@FLOATS@": converted if floats else "",
        "@DTYPE@": "" if floats else "x.dtype, ",
        "@TOLD@": told if len(builds) > 1 else "",
        "@BACK@": ".to(dtype)" if floats else "",
    })  # fmt: skip
