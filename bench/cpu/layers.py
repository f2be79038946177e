"""Single layers of real networks on the CPU engine beside eager PyTorch (oneDNN), call by call in turn in one process.

    PYTHONPATH=python python bench/cpu/layers.py [--threads N] [--wall] [--seconds S] [--json FILE] [layer …]

Ours is forced (`never_slower=False`), frozen (weights prepared once) and not. By default time is the processor time of the
process divided by the number of threads: on a machine that others use as well, that is what the clock on the wall would show
without them. The least of many calls counts. `error` is the RMS error against float64 over that of PyTorch's result.
`--table thin` takes those with few channels a group (depthwise, grouped, first and last layers) instead of deep ones;
`--openvino` times OpenVINO beside them, with as many threads, where this Python can import it. The environment variables
TRANSFUSE_CPU_LEVEL=x86_64_v3, ONEDNN_MAX_CPU_ISA=AVX2 and MKL_ENABLE_INSTRUCTIONS=AVX2 (PyTorch's 1x1 are MKL's products) show what
a machine without AVX-512 would do.
"""

import argparse
import importlib.metadata
import json
import math
import os
import pathlib
import subprocess
import sys
import time

import torch

import transfuse

# name: axes, transposed, channels in and out, taps, stride, padding, batch, extent of every axis, groups where there are some
DEEP = {
    "c3_64_56": (2, False, 64, 64, 3, 1, 1, 1, 56),
    "c3_128_28_b8": (2, False, 128, 128, 3, 1, 1, 8, 28),
    "c3_256_14": (2, False, 256, 256, 3, 1, 1, 1, 14),
    "c3_256_14_b8": (2, False, 256, 256, 3, 1, 1, 8, 14),
    "c3_512_7": (2, False, 512, 512, 3, 1, 1, 1, 7),
    "c3_512_7_b8": (2, False, 512, 512, 3, 1, 1, 8, 7),
    "c3s2_64_56": (2, False, 64, 128, 3, 2, 1, 1, 56),
    "c3s2_256_14_b8": (2, False, 256, 512, 3, 2, 1, 8, 14),
    "c1_64_56": (2, False, 64, 256, 1, 1, 0, 1, 56),
    "c1_256_14": (2, False, 256, 1024, 1, 1, 0, 1, 14),
    "c1_1024_14_b8": (2, False, 1024, 256, 1, 1, 0, 8, 14),
    "c1_512_7_b8": (2, False, 512, 256, 1, 1, 0, 8, 7),
    "c1s2_256_28_b8": (2, False, 256, 512, 1, 2, 0, 8, 28),
    "c7_64_32": (2, False, 64, 64, 7, 1, 3, 1, 32),
    "c5_64_32_b8": (2, False, 64, 128, 5, 1, 2, 8, 32),
    "c4s2_128_32_b8": (2, False, 128, 256, 4, 2, 1, 8, 32),
    "c4s4_64_64": (2, False, 64, 256, 4, 4, 0, 1, 64),
    "t4s2_512_4_b8": (2, True, 512, 256, 4, 2, 1, 8, 4),
    "t4s2_256_8_b8": (2, True, 256, 128, 4, 2, 1, 8, 8),
    "t4s2_64_32_b8": (2, True, 64, 64, 4, 2, 1, 8, 32),
    "t2s2_1024_8": (2, True, 1024, 512, 2, 2, 0, 1, 8),
    "t3_256_16": (2, True, 256, 256, 3, 1, 1, 1, 16),
    "t3s2_128_16_b8": (2, True, 128, 64, 3, 2, 1, 8, 16),
    "s3_512_64": (1, False, 512, 512, 3, 1, 1, 1, 64),
    "s7_256_64_b8": (1, False, 256, 256, 7, 1, 3, 8, 64),
    "st8s4_256_64_b8": (1, True, 256, 128, 8, 4, 2, 8, 64),
    "st4s2_512_64": (1, True, 512, 256, 4, 2, 1, 1, 64),
    "v3_64_16": (3, False, 64, 64, 3, 1, 1, 1, 16),
    "vt4s2_256_4_b8": (3, True, 256, 128, 4, 2, 1, 8, 4),
    "vt2s2_128_8": (3, True, 128, 64, 2, 2, 0, 1, 8),
}
THIN = {
    "d3_32_112": (2, False, 32, 32, 3, 1, 1, 1, 112, 32),
    "d3s2_96_112": (2, False, 96, 96, 3, 2, 1, 1, 112, 96),
    "d3_144_56_b8": (2, False, 144, 144, 3, 1, 1, 8, 56, 144),
    "d3_384_14": (2, False, 384, 384, 3, 1, 1, 1, 14, 384),
    "d3s2_576_14_b8": (2, False, 576, 576, 3, 2, 1, 8, 14, 576),
    "d3_960_7_b8": (2, False, 960, 960, 3, 1, 1, 8, 7, 960),
    "d5_240_28": (2, False, 240, 240, 5, 1, 2, 1, 28, 240),
    "d5s2_672_14_b8": (2, False, 672, 672, 5, 2, 2, 8, 14, 672),
    "d7_96_56": (2, False, 96, 96, 7, 1, 3, 1, 56, 96),
    "d7_768_7_b8": (2, False, 768, 768, 7, 1, 3, 8, 7, 768),
    "dt4s2_21_34": (2, True, 21, 21, 4, 2, 1, 1, 34, 21),
    "dt16s8_21_34": (2, True, 21, 21, 16, 8, 4, 1, 34, 21),
    "dt2s2_64_32_b8": (2, True, 64, 64, 2, 2, 0, 8, 32, 64),
    "ds31_256_400": (1, False, 256, 256, 31, 1, 15, 1, 400, 256),
    "ds3_512_64_b8": (1, False, 512, 512, 3, 1, 1, 8, 64, 512),
    "dv3_54_16": (3, False, 54, 54, 3, 1, 1, 1, 16, 54),
    "g3_128_56_by4": (2, False, 128, 128, 3, 1, 1, 1, 56, 32),
    "g3_256_28_by8_b8": (2, False, 256, 256, 3, 1, 1, 8, 28, 32),
    "g3_512_14_by16": (2, False, 512, 512, 3, 1, 1, 1, 14, 32),
    "g3_1024_7_by32_b8": (2, False, 1024, 1024, 3, 1, 1, 8, 7, 32),
    "gt4s2_64_32_by8_b8": (2, True, 64, 64, 4, 2, 1, 8, 32, 8),
    "gs41s4_256_64_by16_b8": (1, False, 256, 512, 41, 4, 20, 8, 256, 16),
    "f7s2_3_224": (2, False, 3, 64, 7, 2, 3, 1, 224),
    "f3s2_3_224_b8": (2, False, 3, 32, 3, 2, 1, 8, 224),
    "f3_1_128": (2, False, 1, 32, 3, 1, 1, 1, 128),
    "f16s16_3_224": (2, False, 3, 768, 16, 16, 0, 1, 224),
    "fs10s5_1_16000": (1, False, 1, 512, 10, 5, 0, 1, 16000),
    "l3_64_128": (2, False, 64, 3, 3, 1, 1, 1, 128),
    "l1_64_64_b8": (2, False, 64, 1, 1, 1, 0, 8, 64),
    "l9_32_128": (2, False, 32, 3, 9, 1, 4, 1, 128),
    "lt4s2_64_32_b8": (2, True, 64, 3, 4, 2, 1, 8, 32),
    "ls7_32_8192": (1, False, 32, 1, 7, 1, 3, 1, 8192),
    "n3_16_128": (2, False, 16, 16, 3, 1, 1, 1, 128),
    "n3_8_64_b8": (2, False, 8, 8, 3, 1, 1, 8, 64),
    "nt3s2_16_64": (2, True, 16, 8, 3, 2, 1, 1, 64),
    "ns3_16_8192": (1, False, 16, 16, 3, 1, 1, 1, 8192),
    "nv3_16_32": (3, False, 16, 16, 3, 1, 1, 1, 32),
}
TABLES = {"deep": DEEP, "thin": THIN}


def module_and_input(axes, transposed, inputs, outputs, taps, stride, padding, batch, extent, groups=1):
    kind = getattr(torch.nn, f"Conv{'Transpose' if transposed else ''}{axes}d")
    module = kind(inputs, outputs, taps, stride, padding, groups=groups).eval()
    return module, torch.randn(batch, inputs, *[extent] * axes)


def in_openvino(module, x, threads):
    import openvino
    from openvino import opset13 as op

    transposed, axes = module.transposed, x.dim() - 2
    weight, groups = module.weight.detach().numpy(), module.groups
    data = op.parameter(x.shape, openvino.Type.f32)
    # [groups,] then input and output channels of a group, as it wants them
    inputs, outputs = module.in_channels // groups, module.out_channels // groups
    weight = weight.reshape(groups, *((inputs, outputs) if transposed else (outputs, inputs)), *weight.shape[2:])
    padding = list(module.padding)
    what = (op.group_convolution_backprop_data if transposed else op.group_convolution) if groups > 1 else (
        op.convolution_backprop_data if transposed else op.convolution)  # fmt: skip
    arguments = {"strides": list(module.stride), "pads_begin": padding, "pads_end": padding, "dilations": [1] * axes}
    y = what(data, op.constant(weight if groups > 1 else weight[0]), **arguments)
    y = op.add(y, op.constant(module.bias.detach().numpy().reshape(1, -1, *[1] * axes)))
    hints = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1}
    request = openvino.Core().compile_model(openvino.Model([y], [data]), "CPU", hints).create_infer_request()
    request.set_input_tensor(openvino.Tensor(x.numpy(), shared_memory=True))

    def call(_):
        request.infer()
        return torch.from_numpy(request.get_output_tensor().data)

    return call


def rms(x):
    return float(x.double().square().mean().sqrt())


def measure(layer, options):
    torch.manual_seed(0)
    module, x = module_and_input(*layer)
    clock = time.perf_counter if options.wall else lambda: time.process_time() / options.threads
    frozen = transfuse.optimize(module, (x,), never_slower=False, freeze=True)
    live = transfuse.optimize(module, (x,), never_slower=False)
    calls = {"pytorch": module, "frozen": frozen, "live": live}
    if options.openvino:
        calls["openvino"] = in_openvino(module, x, options.threads)
    with torch.no_grad():
        exact = module.double()(x.double())
        module.float()
        errors = {name: rms(call(x) - exact) for name, call in calls.items()}
        best = dict.fromkeys(calls, math.inf)
        end, rounds = time.perf_counter() + options.seconds, 0
        while rounds < 5 or time.perf_counter() < end:
            for name, call in calls.items():
                start = clock()
                for _ in range(options.repeat):
                    call(x)
                best[name] = min(best[name], (clock() - start) / options.repeat)
            rounds += 1
    flops = 2 * layer[2] * layer[3] * layer[4] ** layer[0] * layer[7] / module.groups
    pixels = layer[8] if layer[1] else (layer[8] + 2 * layer[6] - layer[4]) // layer[5] + 1
    return {
        **{name: 1e3 * seconds for name, seconds in best.items()},
        "gflops": flops * pixels ** layer[0] / best["frozen"] * 1e-9,
        "error": max(errors["frozen"], errors["live"]) / errors["pytorch"],
        "best": 1e3 * min(seconds for name, seconds in best.items() if name in ("pytorch", "openvino")),
    }


def page(results, columns, summary, options):
    def told(*command):
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    folder = pathlib.Path(__file__).resolve().parent
    commit = told("git", "-C", str(folder), "rev-parse", "--short", "HEAD").strip()
    model = next((line.split(":")[1].strip() for line in told("lscpu").splitlines() if "Model name" in line), "")
    versions = f"PyTorch {torch.__version__} (oneDNN)"
    if options.openvino:
        versions += ", OpenVINO " + importlib.metadata.version("openvino")
    files = {options.page, options.json, "--page", "--json"}
    shown = [word for word in sys.argv[1:] if word not in files]
    variables = ("TRANSFUSE_CPU_LEVEL", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
    limits = [f"{k}={os.environ[k]}" for k in variables if k in os.environ]
    command = " ".join([*limits, "PYTHONPATH=python", "python", "bench/cpu/layers.py", *shown])
    clock = (
        "the clock on the wall"
        if options.wall
        else "processor time divided by the number of threads, since others used the machine"
    )
    names = {"pytorch": "PyTorch", "openvino": "OpenVINO", "frozen": "frozen", "live": "live"}
    lines = [
        f"Milliseconds of one layer, forward, fp32, {options.threads} thread{'s' * (options.threads > 1)}, by {clock}; "
        f"the least of many calls, in turn in one process. {model}, {versions}, commit {commit}.",
        f"`{command}` (its tables say what the names stand for: c convolution, t transposed, d depthwise, g grouped, f first, "
        "l last, n narrow layers, their taps and stride, input channels, extent, batch; s signals, v volumes)",
        "",
        "| layer | "
        + ", ms | ".join(names[c] for c in columns)
        + ", ms | × frozen | × live | GFLOP/s as written | RMS error / PyTorch's |",
        "| --- " * (len(columns) + 5) + "|",
    ]
    for name, r in results.items():
        times = " | ".join(f"{r[c]:.3f}" for c in columns)
        lines.append(
            f"| {name} | {times} | {r['best'] / r['frozen']:.2f} | {r['best'] / r['live']:.2f} | {r['gflops']:.0f} | {r['error']:.2f} |"
        )
    best = " (× is over the better of the others)" if options.openvino else ""
    return "\n".join([*lines, "", f"Their time over ours{best}:", "", *(f"- {line}" for line in summary), ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", nargs="*", default=[])
    parser.add_argument("--table", choices=TABLES, default="deep")
    parser.add_argument("--openvino", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.5, help="how long each layer is measured")
    parser.add_argument("--repeat", type=int, default=1, help="calls between two looks at the clock")
    parser.add_argument("--wall", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--page", help="where a table in Markdown goes")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results, summary = {}, []
    columns = ["pytorch", "openvino", "frozen", "live"] if options.openvino else ["pytorch", "frozen", "live"]
    print("layer".ljust(21), *(name.rjust(9) for name in columns), "  × frozen   × live  GFLOP/s  error")
    for name in options.layers or TABLES[options.table]:
        r = results[name] = measure((DEEP | THIN)[name], options)
        print(name.ljust(21), *(f"{r[column]:9.3f}" for column in columns),
              f"{r['best'] / r['frozen']:10.2f} {r['best'] / r['live']:8.2f} {r['gflops']:8.0f} {r['error']:6.2f}",
              flush=True)  # fmt: skip
    for kind in ("frozen", "live"):
        for peer in ["pytorch", "openvino", "best"] if options.openvino else ["pytorch"]:
            ratios = {name: r[peer] / r[kind] for name, r in results.items()}
            mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
            worst = min(ratios, key=ratios.get)
            below = sum(v < 0.9 for v in ratios.values())
            summary.append(f"{kind} beside {peer}: geometric mean {mean:.2f}, {below} below 0.9, "
                           f"least {ratios[worst]:.2f} ({worst})")  # fmt: skip
    print(*summary, sep="\n")
    if options.page:
        pathlib.Path(options.page).write_text(page(results, columns, summary, options))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
