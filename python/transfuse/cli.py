"""The command `transfuse`: reference files are handled here, .tf graphs by the C++ command."""

from __future__ import annotations

import argparse
import contextlib
import copy
import os
import platform
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

USAGE = """transfuse: compiles transposed convolutions together with everything around them

usage: transfuse explain FILE        the derivation of a reference file (.py) or a graph (.tf)
       transfuse check FILE          runs a reference file optimised and compares it with PyTorch and float64
       transfuse emit FILE -o NEW    one self-contained Python file with inline CUDA
       transfuse bench [ROWS …]      times models side by side with PyTorch
       transfuse report [JSON …]     one HTML page from a benchmark's JSON
       transfuse demo                the four seed models
       transfuse collect-env         what a bug report needs

A reference file defines Model, get_init_inputs() and get_inputs(). `transfuse COMMAND --help` says more.
"""


def native_command() -> str | None:
    """The C++ command, beside the libraries or on the PATH (where this script may stand as well)."""
    beside = Path(os.environ.get("TRANSFUSE_LIBRARY_DIR", Path(__file__).parent / "lib")) / "transfuse"
    if beside.exists():
        return str(beside)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found = shutil.which("transfuse", path=folder)
        if found:
            with open(found, "rb") as file:
                if file.read(4) == b"\x7fELF":
                    return found
    return None


def forward(words: list[str]) -> int:
    command = native_command()
    if command is None:
        print("transfuse: the C++ command was not found; build it with `make build`.", file=sys.stderr)
        return 2
    return subprocess.run([command, *words]).returncode


def _device(wanted: str | None) -> str:
    import torch

    return wanted or ("cuda" if torch.cuda.is_available() else "cpu")


def _present(device: str) -> str:
    import torch

    from transfuse.problem import ProblemError

    if device == "cuda" and not torch.cuda.is_available():
        raise ProblemError("PyTorch finds no CUDA device here")
    return device


def _count(text: str) -> int:
    """A whole number from one on, for argparse."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, got {text!r}")
    return int(text)


def explain(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="transfuse explain", description="What the algebra makes of a model.")
    parser.add_argument("file", help="a reference file (.py) or a graph (.tf)")
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--eval", action="store_true", help="the model in eval mode (default: as constructed)")
    options = parser.parse_args(words)
    import transfuse
    from transfuse import problem

    reference = problem.load(options.file)
    model = reference.model()  # a plan for CUDA needs no GPU
    if options.eval:
        model.eval()
    with _one_sentence(options.file):
        print(transfuse.explain(model, tuple(reference.inputs()), _device(options.device)))
    return 0


@contextlib.contextmanager
def _one_sentence(file: str):
    """A model that cannot be captured or that does not run is said to be so, not traced back into PyTorch. (The warning before says
    the same.)"""
    from transfuse.fallback import Warned
    from transfuse.problem import ProblemError, said

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Warned)
            yield
    except RuntimeError as error:
        raise ProblemError(f"{file}: {said(error).removeprefix('RuntimeError: transfuse: ')}") from error


def check(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="transfuse check", description="Compares a reference file, optimised, with PyTorch."
    )
    parser.add_argument("file")
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--seeds", type=_count, default=3)
    parser.add_argument("--backward", action="store_true", help="gradients of inputs and parameters as well")
    options = parser.parse_args(words)
    import torch

    import transfuse
    from transfuse import problem
    from transfuse.bench import accuracy

    reference = problem.load(options.file)
    device = _present(_device(options.device))
    wrong = 0
    print(f"{options.file} on {device}: error against float64, ours and PyTorch's own\n")
    print(f"{'mode':<8}{'seed':>5}{'ours rms':>12}{'torch rms':>12}{'ours worst':>12}{'torch worst':>13}  verdict")
    for mode in ("train", "eval"):
        for seed in range(options.seeds):
            model = reference.model(seed, device).train(mode == "train")
            inputs = reference.inputs(seed + 1, device)
            wide, wide_inputs = accuracy.clone64(model, inputs)
            taken = copy.deepcopy(model)
            try:
                theirs = _results(model, inputs, options.backward)
            except Exception as error:
                raise problem.ProblemError(f"{options.file}: the model does not run: {problem.said(error)}") from error
            _progress(f"{mode}, seed {seed}: capturing and compiling…")
            optimized = transfuse.optimize(taken, tuple(inputs), never_slower=False)
            ours = _results(optimized, inputs, options.backward)
            truth = _results(wide, wide_inputs, options.backward)
            mine, base = accuracy.errors(ours, truth), accuracy.errors(theirs, truth)
            verdict = accuracy.verdict(mine, base, [t.dtype for t in theirs])
            wrong += verdict != "right"
            _progress("")
            top = lambda errors, what: max(getattr(e, what) for e in errors)  # noqa: E731
            print(
                f"{mode:<8}{seed:>5}{top(mine, 'rms'):>12.2e}{top(base, 'rms'):>12.2e}{top(mine, 'worst'):>12.2e}"
                f"{top(base, 'worst'):>13.2e}  {verdict}"
            )
    told = transfuse.report(optimized)
    print(f"\n{told.taken} operators taken, {told.left} left to PyTorch")
    for failure in told.failures:
        print(f"  {failure}")
    for line in (line for graph in told.graphs for line in graph.lines if line.left):
        print(f"  {line.op} {line.module}: {line.reason}")
    torch.set_grad_enabled(True)
    return 1 if wrong else 0


def _progress(what: str) -> None:
    """A line on a terminal that the next one overwrites: what takes seconds is named while it does."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)


def _results(model, inputs, backward: bool) -> list:
    import torch

    from transfuse.bench.accuracy import tensors

    torch.manual_seed(0)  # who draws random numbers draws the same ones at every call
    if not backward:
        with torch.no_grad():
            return tensors(model(*inputs))
    inputs = [
        t.detach().requires_grad_() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in inputs
    ]
    outputs = tensors(model(*inputs))
    leaves = [t for t in inputs if isinstance(t, torch.Tensor) and t.requires_grad] + list(model.parameters())
    from transfuse.bench.peers import ramp

    found = torch.autograd.grad(outputs, leaves, [ramp(t) for t in outputs], allow_unused=True)
    return [t.detach() for t in outputs] + [g for g in found if g is not None]


def collect_env(words: list[str]) -> int:
    import torch

    import transfuse
    from transfuse.native import library

    lines = {
        "transfuse": transfuse.__version__,
        "libraries": str(library._folder()),
        "python": f"{platform.python_version()} ({platform.machine()}, {platform.platform()})",
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "torch CUDA": torch.version.cuda or "none",
        "GPU": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "transfuse CUDA": library.cuda_unavailable() or "available",
        "TRANSFUSE_CACHE_DIR": os.environ.get("TRANSFUSE_CACHE_DIR", "(not set)"),
    }
    for name, value in lines.items():
        print(f"{name + ':':<22}{value}")
    if native_command():
        sys.stdout.flush()
        return forward(["collect-env"])
    return 0


def bench(words: list[str]) -> int:
    from transfuse.bench import main

    return main(words)


def page(words: list[str]) -> int:
    from transfuse.bench import report

    return report(words)


def demo(words: list[str]) -> int:
    return subprocess.run([sys.executable, "-m", "transfuse.bench.demo", *words]).returncode


def _several(known: tuple[str, ...]):
    """Words of a list joined by commas, for argparse."""

    def words(text: str) -> tuple[str, ...]:
        for word in text.split(","):
            if word not in known:
                raise argparse.ArgumentTypeError(f"expected {', '.join(known)}, joined by commas, got {word!r}")
        return tuple(dict.fromkeys(text.split(",")))

    return words


def _architecture(text: str) -> int:
    if not text.isdecimal() or not 80 <= int(text) < 130:
        raise argparse.ArgumentTypeError(f"expected a compute capability from 80 (8.0) on, got {text!r}")
    return int(text)


def emit(words: list[str]) -> int:
    from transfuse import emit as emitter

    parser = argparse.ArgumentParser(
        prog="transfuse emit",
        description="Writes a reference file anew: one Python file with a class ModelNew and its kernels inline, which needs torch alone.",
    )
    parser.add_argument("file", help="a reference file (.py)")
    parser.add_argument("-o", "--output", help="the file to write (default: standard output)")
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda", help="inline CUDA, or inline C++ for the CPU"
    )
    parser.add_argument(
        "--sizes", action="append", default=[], metavar="SIZES",
        help="inputs to have kernels for beside the example's: 1..8x64x128x128; of several inputs joined by commas; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--dtype",
        type=_several(emitter.DTYPES),
        default=("float32",),
        help="dtypes to have kernels for, joined by commas",
    )
    parser.add_argument(
        "--precision", type=_several(emitter.PRECISIONS),
        help="arithmetics of fp32 to have kernels for (default: tf32,strict)",
    )  # fmt: skip
    parser.add_argument("--arch", type=_architecture, help="the GPU's compute capability, 90 for 9.0 (default)")
    parser.add_argument("--no-gradients", action="store_true", help="no kernels for gradients")
    parser.add_argument(
        "--check", action="store_true",
        help="runs the written file in a fresh process beside the reference, and times both",
    )  # fmt: skip
    parser.add_argument("--seeds", type=_count, default=5, help="of --check")
    parser.add_argument("--no-backward", action="store_true", help="--check compares no gradients")
    options = parser.parse_args(words)

    if options.check and not options.output:
        parser.error("--check needs a file to check: -o")
    if options.check:
        _present(options.device)
    if options.device == "cpu" and (options.precision or options.arch):
        parser.error("--precision and --arch are for CUDA")
    if options.output and not os.path.isdir(os.path.dirname(options.output) or "."):
        parser.error(f"-o {options.output}: there is no such folder")
    request = emitter.Request(
        options.device, options.dtype, options.precision or emitter.PRECISIONS, tuple(options.sizes), options.arch or 90,
        not options.no_gradients,
    )  # fmt: skip
    file = emitter.emit(options.file, request)
    for note in file.notes:
        print(note, file=sys.stderr)
    if not options.output:
        print(file.text, end="")
        return 0
    emitter.write(file.text, options.output)
    print(f"{options.output}: {file.text.count(chr(10))} lines")
    if not options.check:
        return 0
    script = Path(emitter.__file__).with_name("check.py").read_text()
    given = [
        f"device={options.device}",
        f"seeds={options.seeds}",
        f"dtype={options.dtype[0]}",
        f"backward={int(not options.no_backward)}",
    ]
    return subprocess.run([sys.executable, "-c", script, options.file, options.output, *given]).returncode


COMMANDS = {
    "explain": explain, "check": check, "emit": emit, "bench": bench, "report": page, "collect-env": collect_env, "demo": demo,
}  # fmt: skip


def main(words: list[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    if not words or words[0] in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0 if words else 2
    if words[0] == "--version":
        import transfuse

        print(f"transfuse {transfuse.__version__}")
        return 0
    if words[0] in ("explain", "check") and any(word.endswith(".tf") or word == "-" for word in words[1:]):
        return forward(words)
    command = COMMANDS.get(words[0])
    if command is None:
        print(f"transfuse: unknown command {words[0]!r}; expected {', '.join(COMMANDS)}.", file=sys.stderr)
        return 2
    try:
        return command(words[1:])
    except Exception as error:
        from transfuse.native.library import CompileError
        from transfuse.problem import ProblemError

        if isinstance(error, (ProblemError, CompileError)):
            print(f"transfuse: {error}", file=sys.stderr)
            return 2
        raise
