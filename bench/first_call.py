"""What kernels cost until they run: compiled, and found again in the cache folder by another process.

    PYTHONPATH=python .venv/bin/python bench/first_call.py [ROW…]

For each row two fresh processes, which share a cache folder that is empty at first. In each the context, the model and its
capture are there before the clock starts, and nothing runs while it does: a plan is made, its kernels are compiled or found,
and loaded. Needs a GPU.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS = ("A", "C", "D", "d1", "f1", "f3", "f5", "f11")


def first_call(row: str) -> dict:
    import torch

    import transfuse
    from overhead import only_region
    from transfuse import problem
    from transfuse.native import library

    reference = problem.load(Path(__file__).parent / "models" / f"{row}.py")
    model, inputs = reference.model(device="cuda"), reference.inputs(device="cuda")
    ours = transfuse.optimize(model, tuple(inputs), never_slower=False)
    region, leaves = only_region(ours, inputs)
    torch.cuda.synchronize()
    before, start = kept(), time.perf_counter()
    library.scratch(leaves, region.handle, [], region.call_mode(inputs[0], False), [])
    taken = 1e3 * (time.perf_counter() - start)
    return {"ms": taken, "kernels": kept() - before}


def kept() -> int:
    return sum(1 for file in Path(os.environ["TRANSFUSE_CACHE_DIR"]).rglob("*") if file.is_file())


def in_a_process(row: str, folder: str) -> dict:
    environment = {**os.environ, "TRANSFUSE_CACHE_DIR": folder}
    run = subprocess.run([sys.executable, __file__, "--one", row], env=environment, capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"{row}: {run.stderr.strip().splitlines()[-1]}")
    return json.loads(run.stdout.splitlines()[-1])


def main(rows) -> None:
    print(f"{'row':8}{'kernels':>8}{'compiled ms':>13}{'from the cache ms':>19}")
    for row in rows:
        with tempfile.TemporaryDirectory() as folder:
            fresh, again = in_a_process(row, folder), in_a_process(row, folder)
        assert again["kernels"] == 0, "the second process compiled anew"
        print(f"{row:8}{fresh['kernels']:8}{fresh['ms']:13.0f}{again['ms']:19.1f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(first_call(sys.argv[2])))
    else:
        main(sys.argv[1:] or ROWS)
