"""Models nobody chose: transposed convolutions of random shapes with a chain behind each, as files for `transfuse bench`.

    python bench/drawn.py FOLDER [COUNT] [SEED]
    PYTHONPATH=python python -m transfuse bench FOLDER/*.py --peers channels_last --forced

Sizes are those of decoders: 1.5 to 150 GFLOP, at most 600 MB of activations. The same seed draws the same models.
"""

import math
import random
import sys
from pathlib import Path

CHANNELS = [8, 16, 24, 32, 48, 64, 64, 96, 128, 128, 192, 256, 320, 512]
FEW = [1, 3, 12, 40, 80]  # results of heads
SIZES = {
    1: [50, 100, 257, 400, 1024, 2048, 4000],
    2: [7, 8, 14, 16, 17, 28, 32, 33, 48, 56, 64, 100, 128, 130, 256],
    3: [6, 8, 12, 16, 20, 32],
}
# Of each step: what the constructor makes (empty: nothing), and what forward does.
STEPS = {
    "batch_norm": ("self.norm = nn.BatchNorm{rank}d({channels})", "x = self.norm(x)"),
    "instance_norm": ("self.norm = nn.InstanceNorm{rank}d({channels})", "x = self.norm(x)"),
    "group_norm": ("self.groups = nn.GroupNorm({groups}, {channels})", "x = self.groups(x)"),
    "layer_norm": ("self.norm = nn.LayerNorm({channels})", "x = self.norm(x.movedim(1, -1)).movedim(-1, 1)"),
    "relu": ("", "x = torch.relu(x)"),
    "tanh": ("", "x = torch.tanh(x)"),
    "sigmoid": ("", "x = torch.sigmoid(x)"),
    "gelu": ("", "x = F.gelu(x)"),
    "silu": ("", "x = F.silu(x)"),
    "mish": ("", "x = F.mish(x)"),
    "softplus": ("", "x = F.softplus(x)"),
    "hardswish": ("", "x = F.hardswish(x)"),
    "leaky_relu": ("", "x = F.leaky_relu(x, 0.2)"),
    "prelu": ("self.slope = nn.PReLU({channels})", "x = self.slope(x)"),
    "swish": ("", "x = torch.sigmoid(x) * x"),
    "halved": ("", "x = x * 0.5"),
    "bias": ("self.bias = nn.Parameter(torch.randn({channels}{ones}))", "x = x + self.bias"),
    "clamp": ("", "x = torch.clamp(x, 0.0, 1.0)"),
    "max_pool": ("", "x = F.max_pool{rank}d(x, 2)"),
    "avg_pool": ("", "x = F.avg_pool{rank}d(x, 2)"),
    "softmax": ("", "x = torch.softmax(x, 1)"),
    "logsumexp": ("", "x = torch.logsumexp(x, 1, keepdim=True)"),
    "mean": ("", "x = x.mean({space}, keepdim=True)"),
    "sum": ("", "x = x.sum(1, keepdim=True)"),
    "amin": ("", "x = x.amin(1, keepdim=True)"),
    "amax": ("", "x = x.amax(1, keepdim=True)"),
    "gate": ("", "x = x * torch.sigmoid(x.mean({space}, keepdim=True))"),
    "tensor": ("", "x = x + z"),
    "head": ("self.head = nn.Conv{rank}d({channels}, {fewer}, 1)", "x = self.head(x)"),
    "conv": ("self.next = nn.Conv{rank}d({channels}, {channels}, 3, padding=1)", "x = self.next(x)"),
    "narrow": ("self.next = nn.Conv{rank}d({channels}, {half}, 3, padding=1)", "x = self.next(x)"),
}
CHAINS = [
    "", "batch_norm relu", "batch_norm leaky_relu", "instance_norm relu", "group_norm silu", "halved bias clamp", "bias tanh",
    "gelu", "max_pool tanh", "max_pool bias relu", "hardswish", "softmax", "logsumexp", "mean", "amin tanh", "amax sigmoid",
    "head sigmoid", "relu conv relu", "layer_norm gelu", "mish", "softplus tanh", "sum", "batch_norm max_pool mean",
    "swish group_norm hardswish", "prelu", "gate", "avg_pool clamp", "tensor relu", "narrow batch_norm relu",
]  # fmt: skip
MODEL = '''"""{title}"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {made}

    def forward(self, {given}):
        {done}
        return x


batch_size = {batch}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
'''


def drawn_shape(draw: random.Random) -> dict | None:
    """A convolution and its input; None where it is too small, too large, or none."""
    rank = draw.choice([1, 2, 2, 2, 2, 3, 3])
    channels, out = draw.choice(CHANNELS), draw.choice(CHANNELS + FEW)
    kernel, stride = draw.choice([2, 3, 3, 3, 4, 4, 5, 7]), draw.choice([1, 2, 2, 2, 3, 4])
    if rank == 1:
        kernel, stride = draw.choice([(3, 1), (4, 2), (16, 8), (8, 4), (5, 2), (7, 3), (10, 5)])
    kernel = min(kernel, 4) if rank == 3 else kernel
    dilation, groups = draw.choice([1, 1, 1, 1, 2]), draw.choice([1, 1, 1, 1, 1, 1, 2, 4, channels])
    reach = dilation * (kernel - 1)
    padding = min(draw.choice([0, reach // 2, max(0, (reach + 2 - stride) // 2)]), reach)
    more = draw.choice([0, 0, 0, min(1, max(stride, dilation) - 1)])
    out = channels if groups == channels else out
    size = [draw.choice(SIZES[rank])] * rank
    if rank == 3 and draw.random() < 0.4:
        size[0] = max(4, size[0] // 2)
    if rank == 2 and draw.random() < 0.3:
        size[1] = draw.choice([20, 40, 96, 150, 256])
    batch = draw.choice([1, 2, 4, 8, 16, 16, 32, 64, 128])
    result = [(s - 1) * stride - 2 * padding + reach + more + 1 for s in size]
    if channels % groups or out % groups or min(result) < 2:
        return None
    flops = 2 * batch * math.prod(size) * channels * out // groups * kernel**rank
    memory = 4 * batch * (math.prod(size) * channels + math.prod(result) * out)
    if not (1.5e9 < flops < 1.5e11 and memory < 6e8):
        return None
    layer = (
        f"ConvTranspose{rank}d({channels}, {out}, {kernel}, stride={stride}, padding={padding}, "
        f"output_padding={more}, groups={groups}, dilation={dilation}, bias={draw.random() < 0.7})"
    )
    return {
        "rank": rank, "batch": batch, "layer": layer, "gflops": flops / 1e9, "channels": out,
        "input": [batch, channels, *size], "result": [batch, out, *result],
    }  # fmt: skip


def text_of(shape: dict, chain: str) -> str:
    made, done, channels = [f"self.up = nn.{shape['layer']}"], ["x = self.up(x)"], shape["channels"]
    for step in chain.split():
        words = {
            "rank": shape["rank"], "channels": channels, "fewer": min(channels, 19), "half": max(8, channels // 2),
            "groups": next(g for g in (8, 4, 3, 2, 1) if channels % g == 0), "ones": ", 1" * shape["rank"],
            "space": tuple(range(2, shape["rank"] + 2)),
        }  # fmt: skip
        make, do = (text.format(**words) for text in STEPS[step])
        made += [make] if make else []
        done.append(do)
        channels = {"head": words["fewer"], "narrow": words["half"]}.get(step, channels)
    tensors = ["input", "result"] if "tensor" in chain else ["input"]
    return MODEL.format(
        title=f"{shape['layer']}, {chain}; {shape['gflops']:.0f} GFLOP",
        made="\n        ".join(made),
        done="\n        ".join(done),
        given="x, z" if "tensor" in chain else "x",
        batch=shape["batch"],
        inputs=", ".join(f"torch.rand({', '.join(map(str, shape[t]))})" for t in tensors),
    )


def main(folder: str, count: str = "64", seed: str = "1"):
    draw = random.Random(int(seed))
    Path(folder).mkdir(parents=True, exist_ok=True)
    for number in range(int(count)):
        while (shape := drawn_shape(draw)) is None:
            pass
        (Path(folder) / f"g{number:02d}.py").write_text(text_of(shape, draw.choice(CHAINS)))


if __name__ == "__main__":
    main(*sys.argv[1:])
