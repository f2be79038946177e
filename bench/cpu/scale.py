"""How the CPU engine's time grows with batch, channels, image size and the length of the chain, beside eager PyTorch.

    ninja -C build cpu_rows
    python bench/cpu/scale.py build/bin/cpu_rows --json bench/results/cpu-aarch64-scaling.json
    python tools/readme.py                       draws it into docs/scaling.md

The chains are those of bench/scaling. Both are measured by processor time divided by the number of threads, as compare.py does,
so that a busy machine still gives curves.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import types

import torch

from compare import milliseconds, origin, processor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python" / "transfuse"))
from bench.scaling import AXES, CHAINS


def graph(chain, batch_size=2, channels=64, size=64, length=2):
    c, y = channels, "%y0"
    lines = [f"%x = input f32[{batch_size},{c},{size},{size}]", f"%w = param f32[{c},{c},4,4]", f"%b = param f32[{c}]",
             f"{y} = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1]"]  # fmt: skip
    for step in range(length):
        lines.append(f"%s{step} = mul({y}, {1.0 + 0.125 * step})")
        y = f"%s{step}"
        if chain == "decoder":
            lines.append(f"%r{step} = leaky_relu({y}) negative_slope=0.1")
            y = f"%r{step}"
    if chain == "pooled":
        lines.append(f"%m = mean({y}) dims=[2,3]")
        y = "%m"
    return "graph g { " + " ".join(lines) + f" return {y} }}"


def ours(text, options):
    command = [
        options.binary,
        "--graph",
        "--no-peak",
        "--processor-time",
        "--threads",
        str(options.threads),
        "--seconds",
        "0.2",
    ]
    lines = subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout.splitlines()
    return float(lines[-1].split()[1])


def eager(chain, sizes, options):
    path = pathlib.Path(__file__).resolve().parent.parent / "scaling" / f"{chain}.py"
    spec = importlib.util.spec_from_file_location(chain, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module).update({"batch_size": 2} | sizes)
    model, inputs = module.Model(*module.get_init_inputs()), module.get_inputs()
    return milliseconds(lambda: model(*inputs), types.SimpleNamespace(wall=False, threads=options.threads, rounds=3))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=pathlib.Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    report = {
        **origin("bench/cpu/scale.py"),
        "device": f"{processor()}, {options.threads} threads, processor time / threads, load {os.getloadavg()[0]:.0f}",
        "versions": {"torch": torch.__version__},
        "scaling": [],
    }
    for chain, words in CHAINS.items():
        for variable, (label, values, _) in AXES.items():
            series = {"eager": [], "transfuse": []}
            for value in values:
                series["eager"].append([value, eager(chain, {variable: value}, options)])
                series["transfuse"].append([value, ours(graph(chain, **{variable: value}), options)])
                print(
                    chain,
                    label,
                    value,
                    *(f"{name} {points[-1][1]:.3f} ms" for name, points in series.items()),
                    flush=True,
                )
            report["scaling"].append({"name": f"{chain}-{variable}", "title": words, "axis": label, "series": series})
            options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
