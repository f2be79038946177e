"""What every file has: which calls its kernels serve, and what autograd is given."""

COMMON = '''
class Left(UserWarning):
    """A call that PyTorch's operators compute."""


_left = set()


def left(why):
    """Said once."""
    if why not in _left:
        _left.add(why)
        warnings.warn(f"{FILE}: PyTorch's operators compute this: {why}", Left, stacklevel=4)


def as_made(model):
    """Whether its parts are in its own mode, and have no other hooks than those of the constructor."""
    hooks = -HOOKS
    for part in model.modules():
        if part.training != model.training:
            return False
        if part is not model:
            hooks += len(part._forward_hooks) + len(part._forward_pre_hooks) + len(part._backward_hooks)
    return hooks == 0


def served(model, *given):
    """The method that computes a call with kernels of this file; None where PyTorch's operators do."""
    if torch.compiler.is_compiling():
        return None
    tensors = [t for t in given if isinstance(t, torch.Tensor)]
    way = SERVED.get((model.training, *[(t.dtype, t.shape) if isinstance(t, torch.Tensor) else repr(t) for t in given]))
    if torch._C._are_functorch_transforms_active() or not {*map(type, tensors)} <= {torch.Tensor, torch.nn.Parameter}:
        left("an input is no plain tensor")
    elif torch.is_autocast_enabled(tensors[0].device.type):
        left("autocast is on")
    elif way is None:
        told = ", ".join(f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in tensors)
        left(f"{told} is none of the sizes and dtypes that the file has kernels for")
    elif why := elsewhere(tensors[0].device):
        left(why)
    elif not as_made(model):
        left("a part of the model has a mode of its own, or a hook")
    elif way in OWN_GRADIENT and torch.is_grad_enabled():
        left("forward() has a gradient of its own")
    else:
        return way
    return None


class Call:
    """A region at one size."""

    def __init__(self, name, given, kinds):
        self.name, self.written, self.outputs, self.flows = name, *REGIONS[name]
        self.dtypes, self.strides, self.kinds = [g[0] for g in given], [g[2] for g in given], kinds
        self.rounds = {}

    def takes(self, leaves):
        """Whether the tensors are what the kernels were written for."""
        if [t.dtype for t in leaves] != self.dtypes or [t.stride() for t in leaves] != self.strides:
            left(f"{self.name} is called with tensors of another dtype or layout than its kernels take")
        elif len({t.device for t in leaves}) > 1:
            left(f"{self.name} is called with tensors on several devices")
        elif any([t.data_ptr() % 16 for t in leaves]):
            left(f"{self.name} is called with a tensor that does not begin on 16 bytes")
        else:
            return True
        return False


_calls = {(name, *[tuple(g[1]) for g in given], given[0][0]): Call(name, given, kinds) for name, given, kinds in CALLS}


def compute(name, leaves, sizes=()):
    """The results of a region, by kernels."""
    call = _calls.get((name, *[t.shape for t in leaves], leaves[0].dtype))
    if call is None or not call.takes(leaves):
        left(f"{name} has no kernels for these parameters") if call is None else None
        return REGIONS[name][0](*leaves, *sizes)
    if torch.is_grad_enabled() and any([t.requires_grad for t in leaves]):
        return differentiable(call, sizes, *leaves)
    plan = plan_of(call, ("inference",), leaves, sizes)
    return call.written(*leaves, *sizes) if plan is None else run(plan, leaves)[: call.outputs]


class Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx, call, sizes, *leaves):
        ctx.call, ctx.sizes, wanted = call, sizes, tuple([i for i, need in enumerate(ctx.needs_input_grad[2:]) if need])
        plan = plan_of(call, ("training", *wanted), leaves, sizes)
        results = call.written(*leaves, *sizes) if plan is None else run(plan, leaves)
        ctx.ours, everything = plan is not None, ([*range(len(leaves))], [], call.flows)
        read, shared, ctx.flows = SAVED.get((call.name, *wanted), everything) if ctx.ours else everything
        # What no plan for gradients reads may change meanwhile, as a bias may in PyTorch.
        kept = [*results[call.outputs :], *[results[i] for i in shared]]
        ctx.save_for_backward(*[t if i in read else None for i, t in enumerate(leaves)], *kept)
        ctx.others = [(None, 0) if i in read else (t, t._version) for i, t in enumerate(leaves)]
        ctx.set_materialize_grads(False)
        results = results[: call.outputs]
        ctx.mark_non_differentiable(*[y for i, y in enumerate(results) if i not in ctx.flows])
        return tuple(results)

    @staticmethod
    def backward(ctx, *gradients):
        call, needed, count = ctx.call, ctx.needs_input_grad[2:], len(ctx.others)
        saved = ctx.saved_tensors
        leaves, kept = [other if t is None else t for t, (other, _) in zip(saved, ctx.others)], saved[count:]
        given, wanted = [gradients[i] for i in ctx.flows], [i for i, need in enumerate(needed) if need]
        plan = None
        if torch.is_grad_enabled():
            left(f"a gradient of {call.name} that is to be differentiated again")
        elif any([g is None or torch._C._functorch.is_legacy_batchedtensor(g) for g in given]):
            left(f"gradients of {call.name} for some of its results, or many at once")
        elif ctx.ours:
            plan = plan_of(call, ("gradients", *wanted), leaves, ctx.sizes)
        if plan is None:
            if any([t is not None and t._version != version for t, version in ctx.others]):
                raise RuntimeError("a tensor that PyTorch's operators need for this gradient has been modified by an inplace operation")
            return None, None, *differentiated(call, leaves, ctx.sizes, gradients, needed)
        given = [g if g.stride() == s else torch.empty_strided(g.shape, s, dtype=g.dtype, device=g.device).copy_(g)
                 for g, s in zip(given, GRADIENTS[plan])]  # fmt: skip
        found = iter(run(plan, [*leaves, *given, *kept]))
        return None, None, *[next(found) if need else None for need in needed]


# Function.apply would look for functorch's transforms first, which `served` has done.
differentiable = super(torch.autograd.Function, Differentiable).apply


def differentiated(call, leaves, sizes, gradients, needed):
    """Gradients by PyTorch's operators, of the region as written."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # As seen here alone, whatever one of them was computed from.
        own = [t.view_as(t) if again else t.detach().requires_grad_(need) for t, need in zip(leaves, needed)]
        reached = [(y, g) for y, g in zip(call.written(*own, *sizes), gradients) if g is not None and y.requires_grad]
        wanted = [t for t, need in zip(own, needed) if need]
        found = iter([None] * len(wanted))
        if reached:
            results, given = zip(*reached)
            found = iter(torch.autograd.grad(results, wanted, given, create_graph=again, allow_unused=True))
    return [next(found) if need else None for need in needed]
'''

BATCH_NORM = '''
def batch_norm(x, weight, bias, eps):
    """In training: the result, the batch's mean and its unbiased variance."""
    own = x.new_zeros(2, x.shape[1], dtype=x.dtype if weight is None else weight.dtype).unbind()
    return torch.ops.aten.batch_norm(x, weight, bias, *own, True, 1.0, eps, torch.backends.cudnn.enabled), *own
'''

UPDATE = '''
def update(running, found, momentum):
    """running = (1 - momentum) * running + momentum * found"""
    torch._foreach_lerp_(running, [t.detach() for t in found], momentum)
'''

# How PyTorch multiplies fp32: transfuse/run/precision.py and rounding.py say why it is asked so.
ARITHMETIC = '''
def allows_tf32():
    """What PyTorch's switches say of convolutions."""
    said = torch._C._get_fp32_precision_getter("cuda", "conv")
    return said == "tf32" if said in ("tf32", "ieee") else torch.backends.cudnn.allow_tf32


STEP = 2.0**-12  # half of what TF32's ten bits resolve
SAMPLES = 1 << 16  # numbers looked at of each result
_rounding = {}


def signs(like, seed):
    """1 and -1 at random; PyTorch's own random numbers stay as they are."""
    generator = torch.Generator(like.device).manual_seed(seed)
    return torch.empty_like(like, requires_grad=False).bernoulli_(0.5, generator=generator).mul_(2).sub_(1)


def sample(result):
    """So many numbers all over a result, as it lies."""
    numbers = result.detach().new_empty(0).set_(result.untyped_storage())
    count = numbers.numel()
    return numbers[torch.arange(min(count, SAMPLES), device=result.device) * 2654435761 % max(count, 1)].double()


def rounding(operator, arguments):
    """Of each product of a convolution whether PyTorch rounds its operands to TF32. No switch tells; numbers that TF32 cannot hold do:
    with 1 + 2**-12 in the place of 1 a result grows, or, where operands are rounded, it does not."""
    told = [(t.shape, t.stride(), t.device) if isinstance(t, torch.Tensor) else str(t) for t in arguments]
    problem = (operator, *map(str, told))
    if problem not in _rounding:
        backward = operator is torch.ops.aten.convolution_backward.default
        tensors = 3 if backward else 2
        given = [*[signs(t, seed) for seed, t in enumerate(arguments[:tensors])], *arguments[tensors:]]
        if not backward and given[2] is not None:
            given[2] = torch.zeros_like(given[2])  # added, not multiplied
        found = []
        for factor in (1, 1 + STEP):
            given[0].mul_(factor)
            results = operator(*given)
            found.append([sample(r) for r in (results[:2] if backward else [results]) if r is not None])
        _rounding[problem] = [bool((b - a).norm() < STEP / 2 * a.norm()) for a, b in zip(*found)]
    return _rounding[problem]


class Asked(TorchDispatchMode):
    """Notes of every convolution whether it rounds: cuDNN does without TF32 for some."""

    def __init__(self):
        super().__init__()
        self.forward, self.backward = [], []

    def __torch_dispatch__(self, operator, types, arguments=(), named=None):
        noticed = {
            torch.ops.aten.convolution.default: self.forward, torch.ops.aten.convolution_backward.default: self.backward,
        }.get(operator)  # fmt: skip
        if noticed is not None and arguments[0].dtype is torch.float32:
            noticed += rounding(operator, arguments)
        return operator(*arguments, **(named or {}))


ABOVE = {("cuda", "conv"): ("cuda", "all"), ("cuda", "all"): ("generic", "all")}  # where a switch that is "none" looks next


def setting(switch):
    """What a switch itself is set to: reading one that is "none" gives what the one above says."""
    read, above = torch._C._get_fp32_precision_getter(*switch), ABOVE.get(switch)
    if above is None or torch._C._get_fp32_precision_getter(*above) != read:
        return read
    before = setting(above)
    torch._C._set_fp32_precision_setter(*above, "ieee" if read == "tf32" else "tf32")
    follows = torch._C._get_fp32_precision_getter(*switch) != read
    torch._C._set_fp32_precision_setter(*above, before)
    return "none" if follows else read


@contextlib.contextmanager
def in_full_fp32():
    with contextlib.ExitStack() as stack:
        stack.callback(torch._C._set_fp32_precision_setter, "cuda", "conv", setting(("cuda", "conv")))
        torch._C._set_fp32_precision_setter("cuda", "conv", "ieee")
        yield


def rounds(call, leaves, sizes, wanted, plan):
    """Whether PyTorch multiplies in TF32 here, forward and backward. Where only some convolutions do, the kernels may if they are as
    exact. None: nothing can be asked while a stream is captured, and the switches decide."""
    if torch.cuda.is_current_stream_capturing():
        return None
    with Asked() as seen, torch.set_grad_enabled(bool(wanted)):
        own = [t.detach().requires_grad_(i in wanted) for i, t in enumerate(leaves)]
        reached = [y for y in call.written(*own, *sizes) if y.requires_grad]
        if reached:
            torch.autograd.grad(reached, [own[i] for i in wanted], [*map(torch.ones_like, reached)], allow_unused=True)
    forward = any(seen.forward)
    if forward and not all(seen.forward):
        with torch.no_grad():
            theirs, ours = call.written(*leaves, *sizes), run(plan, leaves)
            with in_full_fp32():
                exact = call.written(*leaves, *sizes)
        forward = all((o - e).norm() <= 1.15 * (t - e).norm() for o, t, e in zip(ours, theirs, exact))
    return forward, forward and bool(seen.backward) and all(seen.backward)


def plan_of(call, kind, leaves, sizes):
    """The plan that multiplies as PyTorch does; None where the file has none."""
    tf32, strict = call.kinds.get(kind, (None, None))
    if tf32 == strict:
        if tf32 is None:
            left(f"{call.name} has no kernels for the gradients that are wanted here")
        return tf32
    plan, (what, *wanted) = strict, kind
    if allows_tf32() and leaves[0].dtype == torch.float32:
        found = call.rounds.get(kind[1:])
        if found is None:
            forward = call.kinds[("training" if wanted else "inference", *wanted)]
            with contextlib.suppress(torch.OutOfMemoryError):  # where there is no memory to ask the switches decide
                found = rounds(call, leaves, sizes, wanted, forward[0] or forward[1])
            if found is not None:
                call.rounds[kind[1:]] = found
        plan = tf32 if (found or (True, True))[what == "gradients"] else strict
    if plan is None:
        left(f"{call.name} has no kernels for {'full fp32' if strict is None else 'TF32'}")
    return plan

'''
