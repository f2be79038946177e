"""Run by `transfuse emit --check` in a process of its own, where transfuse cannot be imported: an emitted file beside its reference.

Arguments: reference file, emitted file, and options as key=value (device, seeds, backward, dtype)."""

import sys

sys.modules["transfuse"] = None

import copy  # noqa: E402
import time  # noqa: E402

import torch  # noqa: E402

ENOUGH = 16  # numbers: the RMS of fewer errors is as much luck as the worst of them


def loaded(path: str) -> dict:
    """As a harness does it: the text is executed, there is no __file__."""
    space = {"__name__": "emitted"}
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), space)
    return space


def made(cls, arguments, seed: int, device: str, dtype):
    torch.manual_seed(seed)
    model = cls(**arguments) if isinstance(arguments, dict) else cls(*arguments)
    return model.to(device=device, dtype=dtype)


def tensors(value) -> list:
    """The tensors of what forward returns."""
    if isinstance(value, dict):
        value = list(value.values())
    return [t for item in value for t in tensors(item)] if isinstance(value, (tuple, list)) else [value]


def cast(value, device: str, dtype):
    """An input as a harness gives it: floats in the dtype asked for."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(device=device, dtype=dtype if value.is_floating_point() else value.dtype)


def ramp(t):
    return torch.linspace(-1, 1, t.numel(), dtype=torch.float64, device=t.device).reshape(t.shape).to(t.dtype)


def results(model, inputs, backward: bool) -> dict:
    """Outputs, the gradients of inputs and parameters if asked for, and every buffer, by name. Who draws random numbers draws the
    same ones at every call."""
    torch.manual_seed(0)
    if not backward:
        with torch.no_grad():
            outputs = tensors(model(*inputs))
        found = {}
    else:
        floats = lambda t: isinstance(t, torch.Tensor) and t.is_floating_point()  # noqa: E731
        inputs = [t.detach().requires_grad_() if floats(t) else t for t in inputs]
        outputs = tensors(model(*inputs))
        wanted = {f"gradient of input {i}": t for i, t in enumerate(inputs) if floats(t)}
        wanted |= {f"gradient of {name}": p for name, p in model.named_parameters()}
        weights = [ramp(t) for t in outputs]
        grads = torch.autograd.grad(outputs, list(wanted.values()), weights, allow_unused=True)
        found = {name: g for name, g in zip(wanted, grads) if g is not None}
    found |= {f"output {i}": t.detach() for i, t in enumerate(outputs)}
    return found | {name: b.clone() for name, b in model.named_buffers() if b.is_floating_point()}


def errors(got: dict, truth: dict) -> dict:
    """Of each tensor the rms and the worst error, relative to the truth's rms."""
    found = {}
    for name in truth:
        difference = (got[name].double() - truth[name]).abs()
        scale = truth[name].pow(2).mean().sqrt().item() or 1.0
        found[name] = (difference.pow(2).mean().sqrt().item() / scale, difference.max().item() / scale)
    return found


def seconds(call, device: str) -> float:
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    for _ in range(3):
        call()
    wait()
    start = time.perf_counter()
    call()
    wait()
    count = max(3, min(200, int(0.2 / max(time.perf_counter() - start, 1e-6))))
    best = float("inf")
    for _ in range(5):
        wait()
        if device == "cuda":
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(count):
                call()
            end.record()
            wait()
            best = min(best, begin.elapsed_time(end) / 1e3 / count)
        else:
            start = time.perf_counter()
            for _ in range(max(1, count // 5)):
                call()
            best = min(best, (time.perf_counter() - start) / max(1, count // 5))
    return best


def other_sizes(inputs: list) -> list[tuple[str, list]]:
    """The same inputs cut: half of the batch; of a model with one input a row less, and a width that no vector divides."""
    tensors_of = [t for t in inputs if isinstance(t, torch.Tensor)]
    batch = min((len(t) for t in tensors_of if t.dim() > 1), default=1)
    if batch < 2 or any(t.dim() < 2 or len(t) != batch for t in tensors_of):
        return []
    cut = lambda take: [take(t).contiguous() if isinstance(t, torch.Tensor) else t for t in inputs]  # noqa: E731
    found = [("half", cut(lambda t: t[: batch // 2]))]
    if len(inputs) == 1 and inputs[0].dim() > 3 and inputs[0].shape[2] > 3:
        found.append(("row", cut(lambda t: t[:1, :, :-1])))
    if len(inputs) == 1 and inputs[0].dim() > 2 and inputs[0].shape[-1] > 5:
        found.append(("width", cut(lambda t: t[:1, ..., :-3])))
    return found


def compared(name: str, seed: int, new, model, inputs: list, backward: bool, same: bool, device: str, dtype) -> bool:
    """Whether the file's results are right; prints a line, and one for every tensor that is not."""
    floor = {torch.float32: 1e-7, torch.float64: 1e-15}.get(dtype, 1e-5)  # where PyTorch happens to be exact
    wide = copy.deepcopy(model).double()
    got = results(new, inputs, backward)
    other = results(model, inputs, backward)
    truth = results(wide, [cast(t, device, torch.float64) for t in inputs], backward)
    alike = (
        same
        and list(got) == list(truth)
        and all(got[n].shape == t.shape and got[n].dtype == other[n].dtype for n, t in truth.items())
    )
    a, b = errors(got, truth) if alike else {}, errors(other, truth)
    far = [
        n
        for n, x in a.items()
        if not (
            x[0] <= max((1.2 if truth[n].numel() >= ENOUGH else 2) * b[n][0], floor)
            and x[1] <= max(2 * b[n][1], 8 * floor)
        )
    ]
    right = alike and not far
    top = lambda e, i: max((x[i] for x in e.values()), default=float("nan"))  # noqa: E731
    verdict = "right" if right else "other parameters" if not same else "WRONG"
    print(
        f"{name:<12}{seed:>5}{top(a, 0):>11.2e}{top(b, 0):>11.2e}{top(a, 1):>11.2e}{top(b, 1):>13.2e}  {verdict}",
        flush=True,
    )
    for n in far:
        print(f"  {n}: rms {a[n][0]:.2e} (PyTorch {b[n][0]:.2e}), worst {a[n][1]:.2e} ({b[n][1]:.2e})")
    return right


def other_arithmetics(device: str, dtype) -> list[tuple]:
    """What else a file for these tensors computes in: a name, the dtype, and whether TF32 is allowed."""
    halves = [("fp16", torch.float16, True), ("bf16", torch.bfloat16, True)]
    if dtype == torch.float32:
        return [("strict", dtype, False)] * (device == "cuda") + halves
    return [half for half in halves if half[1] != dtype] * (dtype != torch.float64)


def runs(model, inputs: list) -> bool:
    """Whether the reference takes these sizes; its statistics stay as they are."""
    try:
        with torch.no_grad():
            copy.deepcopy(model)(*inputs)
    except (RuntimeError, ValueError, AssertionError):
        return False
    return True


def main(reference: str, emitted: str, *words: str) -> int:
    options = dict(word.split("=") for word in words)
    device, seeds = options.get("device", "cuda"), int(options.get("seeds", 5))
    dtype = getattr(torch, options.get("dtype", "float32"))
    backward = options.get("backward", "1") == "1"
    theirs, ours = loaded(reference), loaded(emitted)
    arguments = theirs["get_init_inputs"]()
    wrong = 0
    print(f"{'mode':<12}{'seed':>5}{'rms':>11}{'torch rms':>11}{'worst':>11}{'torch worst':>13}  verdict")
    for training in (True, False):
        mode = "train" if training else "eval"
        for seed in range(seeds):
            model = made(theirs["Model"], arguments, seed, device, dtype).train(training)
            new = made(ours["ModelNew"], arguments, seed, device, dtype).train(training)
            mine, base = new.state_dict(), model.state_dict()
            same = list(mine) == list(base) and all(torch.equal(mine[k], base[k]) for k in base)
            torch.manual_seed(1000 + seed)
            inputs = [cast(t, device, dtype) for t in theirs["get_inputs"]()]
            grads = backward and seed == 0
            told = device, dtype
            wrong += not compared(mode + "+b" * grads, seed, new, model, inputs, grads, same, *told)
        for label, cut in other_sizes(inputs):
            if runs(model, cut):  # of fresh models, whose running statistics are equal
                both = (
                    made(cls, arguments, seed, *told).train(training) for cls in (ours["ModelNew"], theirs["Model"])
                )
                wrong += not compared(f"{mode} {label}", seed, *both, cut, False, same, *told)
        for label, other, tf32 in other_arithmetics(device, dtype):
            torch.backends.cudnn.allow_tf32 = tf32
            told = device, other
            both = [made(cls, arguments, seed, *told).train(training) for cls in (ours["ModelNew"], theirs["Model"])]
            given = [cast(t, *told) for t in inputs]
            if runs(both[1], given):
                wrong += not compared(f"{mode} {label}", seed, *both, given, False, same, *told)
            torch.backends.cudnn.allow_tf32 = True
    for training in (True, False):
        new.train(training), model.train(training)
        mine, base = seconds(lambda: new(*inputs), device), seconds(lambda: model(*inputs), device)
        print(
            f"{'train' if training else 'eval'}: {mine * 1e3:.4f} ms, PyTorch {base * 1e3:.4f} ms, {base / mine:.2f} times as fast",
            flush=True,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
