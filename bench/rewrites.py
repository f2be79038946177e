"""Chains and blocks of several convolutions that the algebra makes one: times beside eager PyTorch and torch.compile.

    python bench/rewrites.py [--only NAME,…] [--step] [--dtype fp32] [--out FILE.json]

fp32 with TF32 products on CUDA, unless --dtype says otherwise. --step: forward, backward and nothing else of a training step. Errors
are against float64. Writes a table, and FILE.json and FILE.md with --out.
"""

from __future__ import annotations

import argparse
import copy
import json
import pathlib
import subprocess
import time

import torch
import torch.nn.functional as F
from torch import nn

import transfuse
from transfuse.bench.accuracy import error, tensors
from transfuse.bench.timing import Clock, interleaved, summary

MODELS, BLOCKS = {}, {}


def chain(title, shape=(4, 64, 48, 48), table=None):
    """The class below is a model of this name for an input of this shape."""

    def register(cls):
        (MODELS if table is None else table)[title] = (cls, shape)
        return cls

    return register


def sequence(title, make, shape=(4, 64, 48, 48), table=None):
    (MODELS if table is None else table)[title] = (make, shape)


def conv(i, o, k=3, **more):
    return nn.Conv2d(i, o, k, padding=k // 2, **more)


sequence("ConvT 64-256 k2 s2, 1x1 to 3", lambda: nn.Sequential(nn.ConvTranspose2d(64, 256, 2, 2), nn.Conv2d(256, 3, 1)))
sequence("3x3 64-128, 1x1 to 8", lambda: nn.Sequential(conv(64, 128), nn.Conv2d(128, 8, 1)))
sequence(
    "1x1 to 256, batch norm, ConvT to 4",
    lambda: nn.Sequential(nn.Conv2d(64, 256, 1), nn.BatchNorm2d(256), nn.ConvTranspose2d(256, 4, 4, 2, 1)),
)


@chain("3x3 + 3x1 + 1x3 of one input")
class Asymmetric(nn.Module):
    def __init__(self):
        super().__init__()
        self.square, self.tall = conv(64, 64), nn.Conv2d(64, 64, (3, 1), padding=(1, 0))
        self.wide = nn.Conv2d(64, 64, (1, 3), padding=(0, 1))

    def forward(self, x):
        return self.square(x) + self.tall(x) + self.wide(x)


@chain("ConvT k4 s2 + ConvT k2 s2")
class TwoUp(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.ConvTranspose2d(64, 8, 4, 2, 1), nn.ConvTranspose2d(64, 8, 2, 2)

    def forward(self, x):
        return self.a(x) + self.b(x)


@chain("concat of two heads")
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = conv(64, 24), conv(64, 8)

    def forward(self, x):
        return torch.cat([self.a(x), self.b(x)], 1)


@chain("two heads, two outputs")
class Outputs(Heads):
    def forward(self, x):
        return self.a(x), self.b(x)


@chain("mean of ConvT + 1x1 of nearest x2")
class MeanOfUpsamplings(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.skip = nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.Conv2d(64, 64, 1)

    def forward(self, x):
        return (self.up(x) + self.skip(F.interpolate(x, scale_factor=2))).mean((2, 3))


@chain("conv of concat with an embedding")
class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = conv(192, 32)

    def forward(self, x, e):
        return self.conv(torch.cat([x, e[:, :, None, None].expand(-1, -1, *x.shape[2:])], 1))


@chain("one weight, three inputs")
class OneWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = conv(64, 64)

    def forward(self, x):
        return self.conv(x) + 0.5 * self.conv(x.flip(0)) - self.conv(2 * x)


sequence("3x3 to 16, pixel shuffle", lambda: nn.Sequential(conv(64, 16), nn.PixelShuffle(2)))
sequence("3x3 64-256, pixel shuffle, 3x3", lambda: nn.Sequential(conv(64, 256), nn.PixelShuffle(2), conv(64, 3)))
sequence("pixel unshuffle, 3x3", lambda: nn.Sequential(nn.PixelUnshuffle(2), conv(64, 64)), (4, 16, 96, 96))
sequence("bilinear x2, 3x3", lambda: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), conv(64, 32)))
sequence(
    "ConvT, bilinear x1/2",
    lambda: nn.Sequential(nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.Upsample(scale_factor=0.5, mode="bilinear")),
)


@chain("3x3, global mean, linear")
class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.linear = conv(64, 128), nn.Linear(128, 10)

    def forward(self, x):
        return self.linear(self.conv(x).mean((2, 3)))


@chain("3x3, channels last, linear")
class ChannelsLast(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.linear = conv(64, 128), nn.Linear(128, 16)

    def forward(self, x):
        return self.linear(self.conv(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


@chain("sum of m times ConvT")
class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.mask = nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.Parameter(torch.rand(1, 1, 96, 96))

    def forward(self, x):
        return (self.mask * self.up(x)).sum((2, 3))


class RepVGGBlock(nn.Module):
    def __init__(self, channels, kernels=(3, 1), identity=True, groups=1):
        super().__init__()
        self.convs = nn.ModuleList(conv(channels, channels, k, bias=False, groups=groups) for k in kernels)
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(len(kernels) + identity))

    def forward(self, x):
        y = sum(norm(layer(x)) for layer, norm in zip(self.convs, self.norms))
        return torch.relu(y + self.norms[-1](x) if len(self.norms) > len(self.convs) else y)


class Frozen(nn.Sequential):
    """Batch norms by their running statistics, also in a training step."""

    def train(self, mode=True):
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        return self


sequence("RepVGG, 2 blocks", lambda: Frozen(RepVGGBlock(64), RepVGGBlock(64)), (8, 64, 56, 56), BLOCKS)
sequence(
    "MobileOne, depthwise 4 branches",
    lambda: Frozen(RepVGGBlock(64, (3, 3, 3, 1), groups=64), RepVGGBlock(64, (1, 1, 1))),
    (8, 64, 56, 56),
    BLOCKS,
)


@chain("ACNet", (8, 64, 56, 56), BLOCKS)
class ACNet(Frozen):
    def __init__(self):
        super().__init__()
        sizes = (((3, 3), (1, 1)), ((3, 1), (1, 0)), ((1, 3), (0, 1)))
        self.branches = nn.ModuleList(
            nn.Sequential(nn.Conv2d(64, 64, k, padding=p, bias=False), nn.BatchNorm2d(64)) for k, p in sizes
        )

    def forward(self, x):
        return torch.relu(sum(branch(x) for branch in self.branches))


sequence(
    "decoder's linear last layers",
    lambda: nn.Sequential(
        nn.ConvTranspose2d(64, 128, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(128, 64, 2, 2), nn.Conv2d(64, 3, 1)
    ),
    (8, 64, 32, 32),
    BLOCKS,
)


@chain("Inception head", (8, 192, 28, 28), BLOCKS)
class Inception(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.three, self.five = conv(192, 64, 1), conv(192, 96, 1), conv(192, 16, 1)
        self.wide, self.wider, self.pooled = conv(96, 128), conv(16, 32, 5), conv(192, 32, 1)

    def forward(self, x):
        parts = [self.one(x), self.wide(self.three(x).relu()), self.wider(self.five(x).relu())]
        return torch.cat([*parts, self.pooled(F.max_pool2d(x, 3, 1, 1))], 1).relu()


sequence(
    "sub-pixel upsampler",
    lambda: nn.Sequential(conv(64, 256), nn.PixelShuffle(2), nn.ReLU(), conv(64, 12), nn.PixelShuffle(2)),
    (8, 64, 32, 32),
    BLOCKS,
)


def prepared(make, device):
    torch.manual_seed(0)
    model = make()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 1.5)
    return model.eval().to(device)


def inputs_of(make, shape, device):
    inputs = [torch.randn(shape, device=device)]
    return [*inputs, torch.randn(shape[0], 128, device=device)] if make is Embedding else inputs


def call_of(model, inputs, step):
    if not step:

        def forward():
            with torch.no_grad():
                return model(*inputs)

        return forward
    leaves = [x.detach().requires_grad_(True) for x in inputs]
    wanted = [*leaves, *model.parameters()]

    def step_of_training():
        y = tensors(model(*leaves))
        return torch.autograd.grad(sum(t.square().mean() for t in y), wanted)

    return step_of_training


def measured(make, shape, args):
    device, dtype = args.device, {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[args.dtype]
    model = prepared(make, device).to(dtype)
    inputs = [x.to(dtype) for x in inputs_of(make, shape, device)]
    truth = tensors(call_of(copy.deepcopy(model).double(), [x.double() for x in inputs], args.step)())
    start = time.perf_counter()
    ours = transfuse.optimize(model, tuple(inputs), never_slower=False)
    calls = {"transfuse": call_of(ours, inputs, args.step), "eager": call_of(model, inputs, args.step)}
    tensors(calls["transfuse"]())
    first = time.perf_counter() - start
    if args.compile:
        calls["compile"] = call_of(torch.compile(model), inputs, args.step)
    record = {"first_s": first, "regions": sum(1 for _ in str(transfuse.report(ours)).splitlines() if "region_" in _)}
    for name, call in calls.items():
        found = [error(a, b).rms for a, b in zip(tensors(call()), truth)]
        record[name] = {"rms": max(found)}
    clock = Clock(device)
    for name, samples in interleaved(calls, clock, args.rounds, args.seconds).items():
        record[name].update(summary(samples))
    return record


def table(records, what):
    lines = [
        f"| {what} | eager | compile | transfuse | × best | error over eager's |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, record in records.items():
        if "error" in record:
            lines.append(f"| {name} | {record['error']} | | | | |")
            continue
        times = {peer: record[peer]["ms"] for peer in ("eager", "compile", "transfuse") if peer in record}
        best = min(ms for peer, ms in times.items() if peer != "transfuse")
        off = record["transfuse"]["rms"] / max(record["eager"]["rms"], 1e-30)
        compiled = f"{times['compile']:.4f}" if "compile" in times else ""
        lines.append(
            f"| {name} | {times['eager']:.4f} | {compiled} | **{times['transfuse']:.4f}** | {best / times['transfuse']:.2f} | {off:.2f} |"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","))
    parser.add_argument("--blocks", action="store_true", help="blocks of networks, in place of chains")
    parser.add_argument("--step", action="store_true")
    parser.add_argument("--dtype", default="fp32", choices=["fp32", "fp16", "bf16"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    records = {}
    for name, (make, shape) in (BLOCKS if args.blocks else MODELS).items():
        if args.only and not any(name.startswith(only) for only in args.only):
            continue
        try:
            records[name] = measured(make, shape, args)
        except Exception as failure:
            records[name] = {"error": f"{type(failure).__name__}: {str(failure)[:200]}"}
        print(table({name: records[name]}, "").splitlines()[-1], flush=True)
        torch._dynamo.reset()
    what = ("blocks" if args.blocks else "chains") + (", training step" if args.step else ", forward")
    text = table(records, what + ", ms")
    print(text)
    if args.out:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        where = torch.cuda.get_device_name() if args.device == "cuda" else "CPU"
        about = {"what": what, "device": where, "torch": torch.__version__, "dtype": args.dtype, "commit": commit}
        args.out.write_text(json.dumps({**about, "records": records}, indent=1) + "\n")
        args.out.with_suffix(".md").write_text(
            f"{where}, PyTorch {torch.__version__}, {args.dtype} with TF32 products\n\n{text}\n"
        )


if __name__ == "__main__":
    main()
