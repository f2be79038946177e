"""What the machine can do, and the floor under a model's time that follows from it."""

from __future__ import annotations

import copy
import platform
import subprocess
import time

import torch

from .accuracy import tensors

# Dense flop/s by precision and bytes/s that one H200 reaches in practice (cuBLAS 8192³, copies); strict fp32 counts three TF32
# products for one.
H200 = {"tf32": 400e12, "fp32": 400e12 / 3, "fp16": 800e12, "bf16": 800e12, "bandwidth": 4.0e12}


def device_name(device: str) -> str:
    if device == "cuda":
        return torch.cuda.get_device_name()
    try:
        listing = subprocess.run(["lscpu"], capture_output=True, text=True, timeout=10).stdout
        model = next(line.split(":", 1)[1].strip() for line in listing.splitlines() if line.startswith("Model name"))
    except (OSError, StopIteration):
        model = ""
    return f"{model or platform.processor() or 'CPU'} ({platform.machine()}, {torch.get_num_threads()} threads)"


def peaks(device: str, precision: str) -> dict:
    """flop/s and bytes/s: known for the H200, else measured with a matrix product and a copy."""
    if device == "cuda" and "H200" in torch.cuda.get_device_name():
        return {"flops": H200[precision], "bandwidth": H200["bandwidth"], "source": "H200 constants"}
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)
    n = 8192 if device == "cuda" else 1024
    a, b = (torch.rand(n, n, device=device, dtype=dtype) for _ in range(2))
    allowed = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    flops = 2 * n**3 / _best(lambda: a @ b, device)
    torch.backends.cuda.matmul.allow_tf32 = allowed
    source = torch.rand((1 << 30 if device == "cuda" else 1 << 27) // 4, device=device)
    target = torch.empty_like(source)
    bandwidth = 2 * source.numel() * 4 / _best(lambda: target.copy_(source), device)
    return {"flops": flops, "bandwidth": bandwidth, "source": f"measured: {n}³ matmul, copy"}


def _best(call, device: str) -> float:
    best = float("inf")
    for _ in range(7):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def work(model: torch.nn.Module, inputs: list, backward: bool) -> dict:
    """Flops of the convolutions and matrix products as written (PyTorch's own counter, on meta tensors, no zeros of a stride
    counted) and compulsory bytes: inputs, parameters and outputs once, whatever lies between them."""
    from torch.utils.flop_counter import FlopCounterMode

    shadow = copy.deepcopy(model).to("meta")
    shadow_inputs = [t.to("meta") if isinstance(t, torch.Tensor) else t for t in inputs]
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        outputs = tensors(shadow(*shadow_inputs))
    size = lambda ts: sum(t.numel() * t.element_size() for t in ts)  # noqa: E731
    ins, params, outs = size(tensors(shadow_inputs)), size(shadow.parameters()), size(outputs)
    flops = float(counter.get_total_flops())
    if backward:  # the forward's values and the incoming gradient are read, the gradients written
        return {"flops": 3 * flops, "bytes": 2 * (ins + params + outs)}
    return {"flops": flops, "bytes": ins + params + outs}
