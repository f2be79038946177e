"""What a call costs before anything is computed: the smallest layers, without gradients, beside PyTorch; and what a new size costs.

    PYTHONPATH=python .venv/bin/python bench/overhead.py [sizes]

Processor time of one thread in microseconds a call, the best of many batches of calls. "operator" is transfuse::run alone, with
the little that there is to compute; the difference to "call" is spent in Python; "new size" is the first call of a size, the
median of twenty: rewriting and planning. Where there is a GPU, the host's time of a call follows, until it returns: without
gradients for several rows, beside y.mul(2) of PyTorch, one launch, which tells how fast the host is; and for row A without gradients, with
them, and forward with backward. "nothing" is an autograd function of the same tensors that computes nothing: what PyTorch's engine
itself takes. `sizes`: what a new size costs, and nothing else.
"""

import os
import random
import statistics
import sys
import time
from functools import partial
from pathlib import Path

import torch
from torch import nn

import transfuse
from transfuse import problem
from transfuse.native import library


def microseconds(call, calls=300, batches=60) -> float:
    best = float("inf")
    for _ in range(batches):
        start = time.thread_time()
        for _ in range(calls):
            call()
        best = min(best, time.thread_time() - start)
    return 1e6 * best / calls


def main() -> None:
    torch.set_num_threads(1)
    x = torch.rand(1, 2, 2, 2)
    layer = nn.ConvTranspose2d(2, 2, 2)
    chain = nn.Sequential(*[part for _ in range(3) for part in (nn.ConvTranspose2d(2, 2, 2), nn.ReLU())])
    print(f"{'':24}{'call':>8}{'operator':>10}{'PyTorch':>9}{'new size':>10}")
    for name, model in (("one ConvTranspose2d", layer), ("six layers in a chain", chain)):
        ours = transfuse.optimize(model, (x,), never_slower=False)
        with torch.no_grad():
            ours(x)
            (bound,) = ours.__dict__["_transfuse"].entries.values()
            (region,) = bound.entry.cut.regions
            graph = bound.entry.cut.graph_module.graph
            values = dict(
                zip([n for n in graph.nodes if n.op == "placeholder"], [*[t[key] for t, key in bound.owners], x])
            )
            leaves = [values[leaf] for leaf in next(n for n in graph.nodes if n.op == "call_module").args]

            def operator(leaves=leaves, handle=region.handle):
                return library.run_detached(leaves, handle, (), library.INFERENCE)

            times = [microseconds(call) for call in (lambda ours=ours: ours(x), operator, lambda model=model: model(x))]
            sizes = [torch.rand(1, 2, n, n + 1) for n in range(3, 23)]
            first = [microseconds(lambda ours=ours, y=y: ours(y), calls=1, batches=1) for y in sizes]
        print(f"{name:24}{times[0]:8.1f}{times[1]:10.1f}{times[2]:9.1f}{statistics.median(first):10.0f}")


def new_sizes(device: str, met=30, count=60) -> None:
    """Rewriting and planning for sizes that were never met, after so many that were; and how many of them compiled a kernel. On a
    GPU until the call returns, as kernels are compiled in other threads and processes; else processor time."""
    clock = time.perf_counter if device == "cuda" else time.thread_time
    growing = [2 * i + 3 for i in range(met + count)]
    anywhere = random.Random(1).sample(range(200, 2200), met + count)
    print(f"\n{'a new size on ' + device:24}{'median ms':>10}{'worst':>8}{'compiled':>10}")
    for name, more in (("A", growing), ("f1", growing), ("f5", growing), ("hifigan", growing), ("hifigan", anywhere)):
        reference = problem.load(Path(__file__).parent / "models" / f"{name}.py")
        for key, value in {"batch_size": 2, "height": 24, "width": 24, "depth": 12}.items():
            if hasattr(reference.module, key) and name != "hifigan":
                setattr(reference.module, key, value)
        model, (x,) = reference.model(device=device).eval(), reference.inputs(device=device)
        ours = transfuse.optimize(model, (x,), never_slower=False)
        with torch.no_grad():
            ours(x)
        taken, compiled = [], 0
        for longer in more:
            shape = [*x.shape[:2], *[size + longer for size in x.shape[2:]]]
            region, leaves = only_region(ours, [torch.empty(shape, device=device)])
            mode, kernels = region.call_mode(x, False), kept_kernels()
            start = clock()
            library.scratch(leaves, region.handle, [], mode, [])
            taken.append(1e3 * (clock() - start))
            compiled += kept_kernels() > kernels and len(taken) > met
        median, worst = statistics.median(taken[met:]), max(taken[met:])
        title = f"{name}, random lengths" if more is anywhere else name
        print(f"{title:24}{median:10.2f}{worst:8.2f}{compiled:>7}/{count}", flush=True)


def only_region(ours, inputs):
    """The region of a model that is one, and the leaves that it is given for these inputs."""
    (entry,) = ours.__dict__["_transfuse"].traceable
    (region,) = entry.cut.regions
    graph = entry.cut.graph_module.graph
    values = [*[table[key] for table, key in entry.bind(ours, ours.__dict__["_transfuse"]).owners], *inputs]
    given = dict(zip([node for node in graph.nodes if node.op == "placeholder"], values))
    return region, [given[leaf] for leaf in next(node for node in graph.nodes if node.op == "call_module").args]


def kept_kernels() -> int:
    folder = os.environ.get("TRANSFUSE_CACHE_DIR") or Path.home() / ".cache" / "transfuse"
    return sum(1 for file in Path(folder).rglob("*") if file.is_file()) if torch.cuda.is_available() else 0


def host_batches(call, calls=20, seconds=0.3) -> list[float]:
    """Until the call returns, for many batches, sorted: so few calls in each that the GPU's queue never fills, so many
    batches that the processor is awake (in the first hundredths of a second a call takes half as long again)."""
    taken, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        taken.append(1e6 * (time.perf_counter() - start) / calls)
    return sorted(taken)


def host_microseconds(call) -> float:
    return host_batches(call)[0]


def calls_of_rows(rows=("A", "B", "C", "D", "d1", "f1", "f5")) -> None:
    """A call of the module from Python, in eval mode; the operator that it ends in, alone; PyTorch's y.mul(2)."""
    y = torch.rand(64, device="cuda")
    print(f"\n{'host, no_grad':24}{'call':>8}{'median':>8}{'operator':>10}{'PyTorch':>9}{'y.mul(2)':>10}")
    for name in rows:
        reference = problem.load(Path(__file__).parent / "models" / f"{name}.py")
        reference.module.batch_size = 1  # the queue must not fill
        model, (x,) = reference.model(device="cuda").eval(), reference.inputs(device="cuda")
        ours = transfuse.optimize(model, (x,), never_slower=False)
        with torch.no_grad():
            ours(x)
            region, leaves = only_region(ours, [x])
            whole = host_batches(partial(ours, x))
            bare = partial(library.run_detached, leaves, region.handle, (), region.call_mode(x, False))
            operator, plain, mul = [host_microseconds(call) for call in (bare, partial(model, x), partial(y.mul, 2))]
        median = whole[len(whole) // 2]
        print(f"{name:24}{whole[0]:8.1f}{median:8.1f}{operator:10.1f}{plain:9.1f}{mul:10.1f}", flush=True)


class Nothing(torch.autograd.Function):
    """Results and gradients of the right shapes, never written."""

    @staticmethod
    def forward(ctx, like, *leaves):
        ctx.save_for_backward(*leaves)
        return torch.empty_like(like)

    @staticmethod
    def backward(ctx, gradient):
        return None, *[torch.empty_like(leaf) for leaf in ctx.saved_tensors]


def on_a_gpu() -> None:
    reference = problem.load(Path(__file__).parent / "models" / "A.py")
    model, (x,) = reference.model(device="cuda"), reference.inputs(device="cuda")
    ours = transfuse.optimize(model, (x,), never_slower=False)
    x.requires_grad_()
    gradient = torch.ones_like(ours(x))

    leaves = (x, *model.parameters())

    def nothing(x):
        return Nothing.apply(gradient, *leaves)

    def step(module):
        for tensor in leaves:
            tensor.grad = None
        module(x).backward(gradient)

    print(f"\n{'row A, host':24}{'no_grad':>8}{'forward':>10}{'backward too':>14}")
    for name, module in (("ours", ours), ("PyTorch", model), ("nothing", nothing)):
        with torch.no_grad():
            module(x)
            plain = host_microseconds(lambda module=module: module(x))
        step(module)
        print(
            f"{name:24}{plain:8.1f}{host_microseconds(lambda m=module: m(x)):10.1f}{host_microseconds(lambda m=module: step(m)):14.1f}"
        )
    recall = ours.__dict__["_transfuse"].recall
    with torch.no_grad():
        call = recall.find_bare((x,))
        look, behind = host_microseconds(lambda: recall.find_bare((x,))), host_microseconds(lambda: call(x))
    print(f"ours without gradients: {look:.1f} to look whether anything has changed, {behind:.1f} behind it")


if __name__ == "__main__":
    if sys.argv[1:] != ["sizes"]:
        main()
        if torch.cuda.is_available():
            calls_of_rows()
            on_a_gpu()
    new_sizes("cuda" if torch.cuda.is_available() else "cpu")
