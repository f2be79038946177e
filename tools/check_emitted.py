"""Emits models and checks every file in a process of its own, several at a time; prints a short table.

    python tools/check_emitted.py [--launches] [--parallel 4] [--limit 600] [--device cuda] [--seeds 1] [--out FOLDER] [NAME …]

`transfuse emit --check` compares what files compute, on their device. --launches compares, without a GPU, what they launch with what
`optimize` does (tools/launches). Names are of bench/models and bench/further; default: all of them. Files and logs stay in the folder."""

import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

root = Path(__file__).resolve().parent.parent


def known() -> dict[str, Path]:
    folders = (root / "bench" / "models", root / "bench" / "further")
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.py"))}


def checked(name: str, path: Path, options) -> tuple[str, bool, str]:
    """A name, whether all is right, and what was said."""
    out = Path(options.out)
    log = out / f"{name}.log"
    if options.launches:
        command = [root / "tools" / "launches" / "launches.py", path, "--out", out]
    else:
        command = ["-m", "transfuse", "emit", path, "-o", out / f"{name}.py", "--check", "--device", options.device]
        command += ["--seeds", options.seeds]
    own = {"PYTHONPATH": str(root / "python"), "TORCH_EXTENSIONS_DIR": str(out.resolve() / "extensions")}
    start = time.monotonic()
    with open(log, "w") as said:
        try:
            code = subprocess.run(
                [sys.executable, *map(str, command), *options.emit], stdout=said, stderr=subprocess.STDOUT,
                env=os.environ | own, timeout=options.limit,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            return name, False, f"not done in {options.limit:.0f} s"
    text = log.read_text()
    last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
    if options.launches:
        return name, code == 0, last.removeprefix(name).strip()[:200]
    wrong = re.findall(r"^(.*?) .*(?:WRONG|other parameters)$", text, re.M)
    if code:
        return name, False, f"WRONG: {', '.join(dict.fromkeys(wrong))}" if wrong else f"failed: {last[:120]}"
    times = re.findall(r"^(train|eval): ([\d.]+) ms, PyTorch ([\d.]+) ms, ([\d.]+) times", text, re.M)
    told = [f"{mode} {mine} ms ({times_}x)" for mode, mine, _, times_ in times]
    lines = re.search(r": (\d+) lines$", text, re.M)
    return name, True, f"right  {'  '.join(told)}  [{lines[1]} lines, {time.monotonic() - start:.0f} s]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--parallel", type=int, default=4, help="files at a time")
    parser.add_argument("--limit", type=float, default=600, help="seconds a file may take")
    parser.add_argument(
        "--launches", action="store_true", help="compares what is launched with `optimize`'s, without a GPU"
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", default="out/emitted")
    parser.add_argument("--emit", nargs=argparse.REMAINDER, default=[], help="further options of `transfuse emit`")
    options = parser.parse_args()
    models = known()
    if unknown := [name for name in options.names if name not in models]:
        parser.error(f"unknown model {unknown[0]!r}")
    chosen = {name: models[name] for name in options.names or models}
    Path(options.out).mkdir(parents=True, exist_ok=True)
    wrong = []
    with ThreadPoolExecutor(options.parallel) as pool:
        for name, right, told in pool.map(lambda item: checked(*item, options), chosen.items()):
            print(f"{name:<10} {told}", flush=True)
            wrong += [name] * (not right)
    print(f"{len(chosen) - len(wrong)} of {len(chosen)} right" + (f"; not {', '.join(wrong)}" if wrong else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
