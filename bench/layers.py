"""Single layers of generators, U-Nets and volumes in training, on a GPU: forward, and forward with all gradients, beside PyTorch in
planes and in channels last. What torch.compile adds around one layer is nothing: it calls the same kernels.

    PYTHONPATH=python python bench/layers.py [--precision tf32] [--seconds 0.2] [--json FILE] [layer …]

Ours is forced (`never_slower=False`), in the layout that is faster for it. Times are of the device alone, with a cold L2, medians of
interleaved calls. `error` is the RMS error of result and gradients against float64 over that of PyTorch's.
"""

import argparse
import copy
import json
import sys
import time
from pathlib import Path

import torch
from torch import nn

import transfuse
from transfuse.bench import accuracy, timing
from transfuse.bench.network import DTYPES, LAYOUTS

# name: axes, transposed, channels in and out, taps, stride, padding, batch, extent of every axis
LAYERS = {
    "generator 100→512 k4 1²": (2, True, 100, 512, 4, 1, 0, 64, 1),
    "generator 512→256 k4s2 4²": (2, True, 512, 256, 4, 2, 1, 16, 4),
    "generator 256→128 k4s2 8²": (2, True, 256, 128, 4, 2, 1, 16, 8),
    "generator 64→3 k4s2 32²": (2, True, 64, 3, 4, 2, 1, 16, 32),
    "deep 512→512 k3 4²": (2, False, 512, 512, 3, 1, 1, 16, 4),
    "deep 512→512 k3 8²": (2, False, 512, 512, 3, 1, 1, 8, 8),
    "deep 256→256 k3 16²": (2, False, 256, 256, 3, 1, 1, 8, 16),
    "down 256→512 k4s2 16²": (2, False, 256, 512, 4, 2, 1, 16, 16),
    "up 1024→512 k2s2 8²": (2, True, 1024, 512, 2, 2, 0, 4, 8),
    "first 3→64 k3 256²": (2, False, 3, 64, 3, 1, 1, 4, 256),
    "volume 64→64 k3 16³": (3, False, 64, 64, 3, 1, 1, 4, 16),
    "volume 256→128 k4s2 8³": (3, True, 256, 128, 4, 2, 1, 4, 8),
    "vocoder 512→256 k16s8 100": (1, True, 512, 256, 16, 8, 4, 8, 100),
}
CONVOLUTIONS = {
    (1, False): nn.Conv1d, (1, True): nn.ConvTranspose1d, (2, False): nn.Conv2d, (2, True): nn.ConvTranspose2d,
    (3, False): nn.Conv3d, (3, True): nn.ConvTranspose3d,
}  # fmt: skip


def call_of(module, x, backward):
    """A forward, or a step with the gradients of x and of all parameters, for the same incoming gradient."""
    with torch.no_grad():
        incoming = torch.randn(module(x).shape, generator=torch.Generator().manual_seed(2)).to(x)
    incoming = incoming.contiguous(memory_format=LAYOUTS[x.dim()]) if channels_last(x) else incoming

    def call():
        y = module(x)
        return [y.detach(), *torch.autograd.grad(y, [x, *module.parameters()], incoming)] if backward else [y.detach()]

    return call


def channels_last(x):
    return x.dim() in LAYOUTS and x.is_contiguous(memory_format=LAYOUTS[x.dim()]) and not x.is_contiguous()


def measured(layer, dtype, seconds):
    axes, transposed, inner, outer, taps, stride, padding, batch, extent = layer
    torch.manual_seed(0)
    plain = CONVOLUTIONS[axes, transposed](inner, outer, taps, stride, padding).to("cuda", dtype)
    x = torch.randn(batch, inner, *[extent] * axes).to("cuda", dtype)
    ways = {}
    for layout in ["planes"] + ["channels last"] * (axes > 1):
        module, given = copy.deepcopy(plain), x.clone()
        if layout == "channels last":
            module, given = module.to(memory_format=LAYOUTS[x.dim()]), given.contiguous(memory_format=LAYOUTS[x.dim()])
        ways["PyTorch", layout] = module, given.requires_grad_()
        ours = transfuse.optimize(copy.deepcopy(module), (given,), never_slower=False)
        ways["ours", layout] = ours, given
    found = {}
    for what, backward in (("forward", False), ("step", True)):
        calls = {way: call_of(module, given, backward) for way, (module, given) in ways.items()}
        for call in calls.values():
            call()  # kernels are compiled at the first call, which is none to time
        samples = timing.interleaved(calls, timing.Clock("cuda"), 40, seconds)
        times = {way: 1e3 * timing.summary(taken)["ms"] for way, taken in samples.items()}
        for whose in ("ours", "PyTorch"):
            found[what, whose], found[what, whose, "layout"] = min(
                (t, layout) for (who, layout), t in times.items() if who == whose
            )
        if backward:
            wide = call_of(copy.deepcopy(plain).double(), x.double().requires_grad_(), True)()
            rms = {
                who: [e.rms for e in accuracy.errors(calls[who, found[what, who, "layout"]](), wide)]
                for who in ("ours", "PyTorch")
            }
            found["error"] = max(a / max(b, 1e-12) for a, b in zip(rms["ours"], rms["PyTorch"]))
    return {" ".join(key) if isinstance(key, tuple) else key: value for key, value in found.items()}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("layers", nargs="*", help="words of their names")
    p.add_argument("--precision", choices=["tf32", "fp32", "fp16", "bf16"], default="tf32")
    p.add_argument("--seconds", type=float, default=0.2)
    p.add_argument("--limit", type=float, default=1e9, help="no layer begins after so many seconds")
    p.add_argument("--json", type=Path)
    options = p.parse_args()
    torch.backends.cudnn.allow_tf32 = options.precision == "tf32"
    begin, rows = time.monotonic(), {}
    print("| layer | forward, µs | PyTorch | times | step, µs | PyTorch | times | error |\n|" + " --- |" * 8)
    for name, layer in LAYERS.items():
        if time.monotonic() - begin > options.limit or not all(word in name for word in options.layers):
            continue
        try:
            row = rows[name] = measured(layer, DTYPES[options.precision], options.seconds)
        except Exception as error:
            rows[name] = {"failed": f"{type(error).__name__}: {error}"[:300]}
            print(f"{name}: {rows[name]['failed']}", file=sys.stderr)
            continue
        cells = []
        for what in ("forward", "step"):
            ours, theirs = row[f"{what} ours"], row[f"{what} PyTorch"]
            cells += [f"{ours:.1f}", f"{theirs:.1f}", f"{theirs / ours:.2f}"]
        print(f"| {name} | " + " | ".join(cells) + f" | {row['error']:.2f} |", flush=True)
        if options.json:
            options.json.write_text(
                json.dumps(
                    {"precision": options.precision, "device": torch.cuda.get_device_name(), "layers": rows}, indent=1
                )
            )


main()
