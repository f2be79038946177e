"""Many threads, many models, many sizes: results stay right, switches as they are, and memory flat.

    PYTHONPATH=python python tests/python/stress.py [--seconds 180] [--sizes 10000] [--device cuda]

For so many seconds one thread captures ever new models while three serve one that all share, at ever other sizes; every result
is compared with PyTorch's, and a watcher looks at PyTorch's precision switches. Then one model meets so many sizes: what the
process keeps in memory at the end is what it kept when the tables had filled.
"""

import argparse
import copy
import ctypes
import gc
import random
import sys
import threading
import time
from pathlib import Path

import torch
from torch import nn

import transfuse
from transfuse.native import library


class Upsampler(nn.Module):
    def __init__(self, channels: int = 8, blocks: int = 1):
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.up = norm(nn.ConvTranspose1d(4, channels, 8, 4, 2))
        self.blocks = nn.ModuleList(
            [norm(nn.Conv1d(channels, channels, 3, padding=d, dilation=d)) for d in range(1, blocks + 1)]
        )
        self.tail = nn.Conv1d(channels, 1, 7, padding=3)

    def forward(self, x):
        y = self.up(x)
        for block in self.blocks:
            y = y + block(nn.functional.leaky_relu(y, 0.1))
        return torch.tanh(self.tail(y))


def resident(device: str) -> int:
    """Of this process, and what is allocated on the device outside of PyTorch's cache."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    own = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    if device == "cuda":
        free, whole = torch.cuda.mem_get_info()
        own += whole - free - torch.cuda.memory_reserved()
    return own


def switches() -> tuple:
    read = torch._C._get_fp32_precision_getter
    kinds = [("generic", "all"), *[("cuda", kind) for kind in ("all", "conv", "rnn", "matmul")]]
    return tuple([read(*kind) for kind in kinds]), torch.get_float32_matmul_precision()


def compare(found, expected) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def threads(seconds: float, device: str) -> dict[str, int]:
    """How often each thread came round; raises what any of them met."""
    torch.manual_seed(0)
    plain = Upsampler().eval().to(device)
    shared = transfuse.optimize(copy.deepcopy(plain), never_slower=False)
    until, met, counts, switched = time.monotonic() + seconds, [], {}, []
    before = switches()

    def serve(number: int) -> None:
        numbers = random.Random(number)
        stream = torch.cuda.Stream() if device == "cuda" else None
        with torch.no_grad(), torch.cuda.stream(stream):
            x = torch.randn(1, 4, numbers.randrange(5, 400), device=device)
            compare(shared(x), plain(x))

    def capture(number: int) -> None:
        torch.manual_seed(number)
        model = Upsampler(2 + number % 5, number % 3).to(device)
        x = torch.randn(2, 4, 5 + number % 7, device=device)
        ours = transfuse.optimize(copy.deepcopy(model), (x,), never_slower=number % 2 == 0, freeze=number % 3 == 0)
        compare(ours(x), model(x))
        with torch.no_grad():
            compare(ours.eval()(x), model.eval()(x))

    def watch(number: int) -> None:
        if (now := switches()) != before:
            switched.append(now)
        time.sleep(0.001)

    def again(name: str, work, first: int) -> None:
        count = 0
        try:
            while time.monotonic() < until and not met:
                work(first + count)
                count += 1
        except BaseException as error:
            met.append(error)
        counts[name] = count

    roles = [("captures", capture, 0), *[(f"serves {i}", serve, i << 20) for i in range(3)], ("watches", watch, 0)]
    running = [threading.Thread(target=again, args=role) for role in roles]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if met:
        raise met[0]
    assert switches() == before
    counts["switches changed"] = len(switched)
    return counts


def planned() -> int:
    """Bytes of plans and weights that all programs keep: 64 MB of each, once it has met enough."""
    return sum(library.describe(handle)["kept_bytes"] for handle in list(library._programs))


def sizes(count: int, device: str, blocks: int = 8) -> list[tuple[int, int]]:
    """At every tenth of so many sizes: bytes that programs keep, and what the process keeps beside them."""
    torch.manual_seed(0)
    plain = Upsampler(blocks=blocks).eval().to(device)
    ours, kept = transfuse.optimize(copy.deepcopy(plain), never_slower=False), []
    lengths = random.Random(0).sample(range(5, 5 + 2 * count), count)
    with torch.no_grad():
        for i, length in enumerate(lengths):
            x = torch.randn(1, 4, length, device=device)
            found = ours(x)
            if i % 50 == 0:
                compare(found, plain(x))
            if (i + 1) % max(count // 10, 1) == 0:
                kept.append((planned(), resident(device) - planned()))
    return kept


def grown(kept: list[tuple[int, int]]) -> int:
    """What is kept beside plans after the second half of the sizes, that was not there in the first."""
    beside = [bytes for _, bytes in kept]
    return max(beside[len(kept) // 2 :]) - max(beside[: len(kept) // 2])


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--seconds", type=float, default=180)
    options.add_argument("--sizes", type=int, default=10000)
    options.add_argument("--device", default="cpu")
    given = options.parse_args()
    if given.device == "cuda":
        torch.backends.cudnn.conv.fp32_precision = "ieee"
    counts = threads(given.seconds, given.device)
    print(", ".join(f"{name} {count}" for name, count in counts.items()), flush=True)
    kept = sizes(given.sizes, given.device)
    print("MB of plans, and beside them: " + ", ".join(f"{plans / 1e6:.0f} {rest / 1e6:.0f}" for plans, rest in kept))
    if counts["switches changed"] or grown(kept) > 32 << 20:
        sys.exit("precision switches were seen changed, or memory grows")


if __name__ == "__main__":
    main()
