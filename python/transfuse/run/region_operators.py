"""Regions as operators of PyTorch, for graphs that Inductor compiles:

    region(Tensor[] leaves, int region, SymInt[] sizes) -> Tensor[]           results and batch statistics; differentiable
    region_detached(…)                                                        the same without a gradient
    region_forward(…, int[] keep, SymInt[] forms, int[] copied) -> Tensor[]   and, behind these, what backward takes: what is kept
                                                                              for it (kept_forms.py), and copies of leaves that may
                                                                              change
    region_backward(leaves, gradients, kept, region, sizes, outputs, wanted, keep)   the gradients of the leaves wanted

Inductor sees shapes and strides alone. TF32 is settled inside the operator, for each size at its first call; whether a region is ours
at all is settled before, when a graph is compiled (`inductor.py`). What cannot run is run by PyTorch inside the operator. A region
goes by a number made from its text, its PyTorch version, its options and the library's build: it means the same in every process, and
what another build has left in Inductor's caches is not found.
"""

from __future__ import annotations

import hashlib
import weakref

import torch

from transfuse.native import library
from transfuse.pytorch.torch_private import multiplied_each, without_modes
from transfuse.run import kept_forms
from transfuse.run.region import Region

_regions: weakref.WeakValueDictionary[int, Region] = weakref.WeakValueDictionary()


def numbered(region: Region, device: str, own_memory: bool) -> tuple[int, Region]:
    """A region's number, under which the operators find it, and whose it is: this one's or that of an equal one of another graph,
    which is kept with it. `own_memory`: calls keep no memory between them, for CUDA graphs."""
    region.autocast = device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    eager = f"{region.eager.code}{sorted(region.inputs)}{region.reach}{region.multiplied}{region.autocast}"
    what = f"{region.handle} {region.text} {eager} {region.options} {region.lean} {own_memory} {library.build()}"
    found = int.from_bytes(hashlib.sha256(what.encode()).digest()[:8], "big") >> 1
    if own_memory:
        region.training_mode |= library.OWN_MEMORY
        region.inference_mode |= library.OWN_MEMORY
    known = _regions.setdefault(found, region)
    if known is not region:
        region.alike[found] = known
        region.choices, region.modes, region.measured = known.choices, known.modes, known.measured
    return found, known


_operators = torch.library.Library("transfuse", "FRAGMENT")
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)
_operators.define("region(Tensor[] leaves, int region, SymInt[] sizes) -> Tensor[]", tags=_TAGS)
_operators.define("region_detached(Tensor[] leaves, int region, SymInt[] sizes) -> Tensor[]", tags=_TAGS)
_operators.define(
    "region_forward(Tensor[] leaves, int region, SymInt[] sizes, int[] keep, SymInt[] forms, int[] copied) -> Tensor[]",
    tags=_TAGS,
)
_operators.define(
    "region_backward(Tensor[] leaves, Tensor[] gradients, Tensor[] kept, int region, SymInt[] sizes, int[] outputs,"
    " int[] wanted, int[] keep) -> Tensor[]",
    tags=_TAGS,
)


def _as_captured(region):
    """Autocast as it was where the region was captured: PyTorch's version of it has its casts from there."""
    device, enabled, dtype = region.autocast
    return torch.autocast(device, dtype=dtype, enabled=enabled)


def _region(leaves, region, sizes):
    if torch.is_grad_enabled() and any([leaf.requires_grad for leaf in leaves]):
        return list(_Differentiable.apply(region, tuple(sizes), *leaves))
    return torch.ops.transfuse.region_detached(leaves, region, sizes)


def _detached(leaves, number, sizes):
    region = _regions[number]
    if region.failure is None:
        try:
            return list(library.run_detached(leaves, region.handle, sizes, region.settled_mode(leaves, sizes, False)))
        except RuntimeError as error:
            region.failed(error)
    with torch.no_grad(), _as_captured(region):
        return _as_promised(region, leaves, sizes, region.eager(*leaves, *sizes))


def _forward(leaves, number, sizes, keep, forms, copied):
    region = _regions[number]
    copies = multiplied_each([leaves[i] for i in copied], 1.0) if copied else []
    if region.failure is None:
        mode = region.settled_mode(leaves, sizes, True)
        try:
            given = library.run_keeping(leaves, region.handle, sizes, mode, keep)
            kept = given[region.outputs :]
            if not kept_forms.are_of(kept, forms):  # a size at which something else is worth keeping: nothing is
                region.kept_otherwise = True
                kept = kept_forms.tensors(forms, leaves[0].device)
            return [*given[: region.outputs], *kept, *copies]
        except RuntimeError as error:
            region.failed(error)
    with torch.no_grad(), _as_captured(region):
        results = _as_promised(region, leaves, sizes, region.eager(*leaves, *sizes))
    return [*results, *kept_forms.tensors(forms, leaves[0].device), *copies]


def _backward(leaves, gradients, kept, number, sizes, outputs, wanted, keep):
    region = _regions[number]
    own = region.gradient
    if region.failure is None and own.failure is None:
        mode = region.settled_mode(leaves, sizes, True)
        if region.kept_otherwise and keep and not kept_forms.are_promised(region.handle, leaves, sizes, keep, kept):
            kept, keep = [], []
        given = [*gradients, *kept]
        try:
            return list(library.run_backward(leaves, given, region.handle, sizes, mode, outputs, wanted, keep))
        except RuntimeError as error:
            own.failed(error)
    given = dict(zip(outputs, gradients))
    needed = [i in wanted for i in range(len(leaves))]
    given = [given.get(i) for i in range(region.outputs)]
    with torch.no_grad(), _as_captured(region):
        found = library._eager_gradients(region.handle, sizes, leaves, given, needed)
    made = []
    for i, like in zip(wanted, _like_leaves(leaves, wanted)):
        made.append(like.zero_() if found[i] is None else like.copy_(found[i]))
    return made


def _promised(region, leaves, sizes) -> list[torch.Tensor]:
    with _as_captured(region):
        results = library._fake_outputs(region.handle, leaves, sizes)
    return [result.to(dtype) for result, dtype in zip(results, region.output_dtypes, strict=True)]


def _as_promised(region, leaves, sizes, results) -> list[torch.Tensor]:
    """In the layout that ours gives, and nobody else's memory."""
    made = []
    for result, last in zip(results, library.channels_last(region.handle, leaves, sizes)):
        form = torch.contiguous_format
        if last:
            form = torch.channels_last if result.dim() == 4 else torch.channels_last_3d
        made.append(torch.empty_like(result, memory_format=form).copy_(result))
    return made


def _like_leaves(leaves, wanted) -> list[torch.Tensor]:
    whole = [torch.ops.aten.is_non_overlapping_and_dense(leaf) for leaf in leaves]
    kept, plain = torch.preserve_format, torch.contiguous_format
    return [torch.empty_like(leaves[i], memory_format=kept if whole[i] else plain) for i in wanted]


for _name, _function in (("region_detached", _detached), ("region_forward", _forward), ("region_backward", _backward)):
    # They have no gradients of their own, and leave those switches alone that PyTorch's way inside them needs.
    _operators.impl(_name, torch.library.fallthrough_kernel, "Autograd")
    _operators.impl(_name, _function, "CPU")
    _operators.impl(_name, _function, "CUDA")
_operators.impl("region", _region, "CompositeImplicitAutograd")


@torch.library.register_fake("transfuse::region_detached", lib=_operators)
def _(leaves, region, sizes):
    return _promised(_regions[region], leaves, sizes)


@torch.library.register_fake("transfuse::region_forward", lib=_operators)
def _(leaves, region, sizes, keep, forms, copied):
    return [
        *_promised(_regions[region], leaves, sizes),
        *kept_forms.tensors(forms, leaves[0].device),
        *[torch.empty_like(leaves[i]) for i in copied],
    ]


@torch.library.register_fake("transfuse::region_backward", lib=_operators)
def _(leaves, gradients, kept, region, sizes, outputs, wanted, keep):
    return _like_leaves(leaves, wanted)


class _Differentiable(torch.autograd.Function):
    """What AOTAutograd traces into one operator for the forward and one for the backward pass."""

    @staticmethod
    def forward(ctx, number, sizes, *leaves):
        region = _regions[number]
        wants = ctx.needs_input_grad[2:]
        keep, forms, shared, copied = _kept(region, leaves, sizes, wants)
        given = list(torch.ops.transfuse.region_forward(list(leaves), number, list(sizes), keep, forms, copied))
        count = region.outputs
        kept = len(given) - count - len(copied)
        saved = list(leaves)
        for i, copy in zip(copied, given[count + kept :]):
            saved[i] = copy
        ctx.region, ctx.number, ctx.sizes, ctx.keep = region, number, sizes, keep
        ctx.save_for_backward(*saved, *given[count : count + kept], *[given[i] for i in shared])
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*[given[i] for i in region.program.roles(wants)[1]])
        return tuple(given[:count])

    @staticmethod
    def backward(ctx, *gradients):
        region, needed = ctx.region, ctx.needs_input_grad[2:]
        leaves, kept = list(ctx.saved_tensors[: len(needed)]), list(ctx.saved_tensors[len(needed) :])
        outputs = [i for i, gradient in enumerate(gradients) if gradient is not None]
        wanted = library._reached(region.reach, needed, gradients)
        if not wanted:
            return (None,) * (2 + len(needed))
        found = torch.ops.transfuse.region_backward(
            leaves, [gradients[i] for i in outputs], kept, ctx.number, list(ctx.sizes), outputs, wanted, ctx.keep
        )
        made = dict(zip(wanted, found))
        return None, None, *[made.get(i) for i in range(len(needed))]


def _kept(region, leaves, sizes, wants) -> tuple[list[int], list, list[int], list[int]]:
    """Program.kept, of tensors that are being traced, and the forms of what is kept."""
    shown, numbers = [kept_forms.Shown(leaf) for leaf in leaves], kept_forms.hints(sizes)
    with without_modes(), _as_captured(region):
        keep, shared, loose = region.program.kept(wants, shown, numbers)
        forms = kept_forms.forms(region.handle, leaves, sizes, keep)
    if forms is None:
        keep, forms, shared = [], [], []
    return keep, forms, shared, [i for i in loose if all([isinstance(n, int) for n in leaves[i].shape])]
