"""What a call costs before anything is computed: the smallest layers, without gradients, beside PyTorch.

    PYTHONPATH=python .venv/bin/python bench/overhead.py

Processor time of one thread in microseconds a call, the best of many batches of calls. "operator" is transfuse::run alone, with
the little that there is to compute; the difference to "call" is spent in Python.
"""

import time

import torch
from torch import nn

import transfuse
from transfuse import library


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
    print(f"{'':24}{'call':>8}{'operator':>10}{'PyTorch':>9}")
    for name, model in (("one ConvTranspose2d", layer), ("six layers in a chain", chain)):
        ours = transfuse.optimize(model, (x,), never_slower=False)
        with torch.no_grad():
            ours(x)
            (bound,) = ours.__dict__["_transfuse"].entries.values()
            (region,) = bound.entry.cut.regions
            graph = bound.entry.cut.graph_module.graph
            values = dict(zip([n for n in graph.nodes if n.op == "placeholder"], [*[t[key] for t, key in bound.owners], x]))
            leaves = [values[leaf] for leaf in next(n for n in graph.nodes if n.op == "call_module").args]

            def operator(leaves=leaves, handle=region.handle):
                return library.run_detached(leaves, handle, (), library.INFERENCE)

            times = [microseconds(call) for call in (lambda ours=ours: ours(x), operator, lambda model=model: model(x))]
        print(f"{name:24}{times[0]:8.1f}{times[1]:10.1f}{times[2]:9.1f}")


if __name__ == "__main__":
    main()
