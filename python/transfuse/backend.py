"""torch.compile(model, backend="transfuse")."""

from __future__ import annotations

import collections
import contextlib
import copy
import weakref

import torch
from torch import nn
from torch.fx import Graph

from transfuse import fallback
from transfuse.choose import choice, inductor
from transfuse.cut.account import Report, graph_report
from transfuse.cut.regions import Cut, cut
from transfuse.native import library
from transfuse.options import Options
from transfuse.pytorch.versions import untested
from transfuse.run.direct import direct
from transfuse.translate.table import Unsupported
from transfuse.pytorch.torch_private import (
    FUNCTORCH,
    FakeTensor,
    HigherOrderOperator,
    detect_fake_mode,
    enter_autocast,
    get_data,
)

# The last graphs that torch.compile handed us, as long as they can be called: what a report of a compiled model shows.
_cuts: collections.deque[weakref.ref[Cut]] = collections.deque(maxlen=64)
_failures: collections.deque[str] = collections.deque(maxlen=64)


def cuts() -> list[Cut]:
    return [cut for each in _cuts if (cut := each()) is not None]


def account(model: str) -> Report:
    """Every operator of those graphs, who runs it, and why."""
    graphs = [graph_report(each, f"graph {i} of torch.compile") for i, each in enumerate(cuts())]
    return Report(model, graphs, list(dict.fromkeys(_failures)))


def reset() -> None:
    """Forgets the graphs that the report shows."""
    _cuts.clear()
    _failures.clear()


CHECKPOINTS = ("wrap_activation_checkpoint", "tag_activation_checkpoint")


def _as_pytorch(leaves, handle: int, sizes, mode: int):
    return list(library.eager_of(handle)(*leaves, *sizes))


def _body(graph_module, *arguments, **settings):
    return _traceable(graph_module)(*arguments)


def _instead(node: torch.fx.Node):
    """`x.data` is a call that make_fx does not see, and takes for a constant. What an optimised part has fused joins what is around it,
    and so does what is checkpointed: of ours little is kept for backward."""
    if node.op != "call_function":
        return None
    if node.target == get_data:
        return torch.detach
    if isinstance(node.target, HigherOrderOperator) and node.target.name() in CHECKPOINTS:
        return _body
    ours = node.target in (torch.ops.transfuse.run, torch.ops.transfuse.run.default)
    return _as_pytorch if ours and library.eager_of(node.args[1]) is not None else None


def _traceable(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph with calls in it that make_fx can follow, in the place of others."""
    if not any(map(_instead, graph_module.graph.nodes)):
        return graph_module
    graph = copy.deepcopy(graph_module.graph)
    for node in graph.nodes:
        node.target = _instead(node) or node.target
    return torch.fx.GraphModule(graph_module, graph)


def _refuse_lost_values(traced: torch.fx.GraphModule) -> None:
    """What a call computed that make_fx did not see stands in its graph as a constant that never was."""
    for node in traced.graph.nodes:
        value = getattr(traced, node.target, None) if node.op == "get_attr" else None
        if isinstance(value, FakeTensor) and value.constant is None:
            raise Unsupported("a tensor is set or read where its tracing does not look")


def _aten(graph_module: torch.fx.GraphModule, example_inputs: list) -> torch.fx.GraphModule:
    """Dynamo's graph in ATen operators, before autograd and autocast decompose anything."""
    from torch.fx.experimental.proxy_tensor import make_fx

    placeholders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    values = [node.meta.get("example_value", value) for node, value in zip(placeholders, example_inputs)]
    modes = [v.fake_mode for v in values if isinstance(v, FakeTensor)]
    mode = modes[0] if modes else detect_fake_mode(example_inputs)
    fakes = [
        mode.from_tensor(v) if isinstance(v, torch.Tensor) and not isinstance(v, FakeTensor) and mode else v
        for v in values
    ]
    trace = make_fx(
        _traceable(graph_module),
        tracing_mode="fake" if mode is None else "real",
        pre_dispatch=True,
        _allow_non_fake_inputs=True,
    )
    # Constants that a decomposition makes must be fake as well.
    with mode or contextlib.nullcontext(), torch.enable_grad():
        traced = trace(*fakes)
    _refuse_lost_values(traced)
    return traced


def _refuse_own_ways(graph_module: torch.fx.GraphModule) -> None:
    """What would be lost by tracing through it: autocast that is entered inside, and transforms."""
    targets = _targets(graph_module)
    if enter_autocast in targets:
        raise Unsupported("autocast is entered inside it")
    if any(str(getattr(t, "__module__", "")).startswith(FUNCTORCH) for t in targets):
        raise Unsupported("a transform of torch.func is applied inside it")


# Operators around graphs of their own whose gradient is that of the graph.
_TRANSPARENT = ("wrap", "wrap_with_set_grad_enabled", "wrap_with_autocast", *CHECKPOINTS)


class OwnGradient(Unsupported):
    """A gradient that the model makes its own: PyTorch runs the graph as written, as compiled it may be another's, too."""


def _refuse_own_gradients(graph_module: torch.fx.GraphModule, traced: torch.fx.GraphModule) -> None:
    """Gradients that the model makes its own, where they may be asked for: Dynamo writes an autograd function, or a hook on a tensor,
    as an operator around graphs, of which tracing leaves the forward alone. (Dynamo looks at whether gradients are on before every
    call.)"""
    if not torch.is_grad_enabled():
        return
    if reason := untested():
        raise OwnGradient(reason)
    for target in _targets(graph_module) - _targets(traced):
        if isinstance(target, HigherOrderOperator) and target.name() not in _TRANSPARENT:
            raise OwnGradient(f"{target.name()} (an autograd function, a hook on a tensor) has a gradient of its own")


def _targets(graph_module: torch.fx.GraphModule) -> set:
    """What is called in a graph and in those inside it."""
    return {node.target for part in graph_module.modules() for node in getattr(part, "graph", Graph()).nodes}


def _is_parameter(node, value) -> bool:
    if isinstance(value, nn.Parameter):
        return True
    name = str(node.target)
    return "_parameters_" in name or "_buffers_" in name


def backend(
    graph_module: torch.fx.GraphModule,
    example_inputs: list,
    *,
    options: dict | None = None,
    mode=None,
    name=None,
    **more,
):
    """The torch.compile backend. Options: rest ("inductor", "eager"), mode, dryrun, require_full_compilation, torch_executed_ops,
    min_block_size, freeze, never_slower, autotune, precision, memory. (Dynamo itself sees to `dynamic`, and `name` is for its logs.)"""
    settings = {"rest": "inductor", "mode": mode, **(options or {}), **more}
    dryrun = settings.pop("dryrun", False)
    unknown = set(settings) - set(Options.__dataclass_fields__)
    if unknown:
        raise ValueError(
            f"transfuse: unknown option {sorted(unknown)[0]!r}; known: dryrun, {', '.join(Options.__dataclass_fields__)}"
        )
    chosen = Options(**settings)
    if chosen.rest == "eager" and inductor.patches(chosen.mode).get("triton.cudagraphs"):
        fallback.say(
            f"mode={chosen.mode!r} makes CUDA graphs where the rest goes to Inductor (rest='inductor'), and none here"
        )
    try:
        result = _cut(graph_module, example_inputs, chosen)
    except OwnGradient as error:
        _left(error, chosen, "a graph of torch.compile is run as written")
        return graph_module.forward
    if dryrun:
        if result is not None:
            print(Report("graph of torch.compile", [graph_report(result, "dry run")]))
        return _with(result, graph_module.forward)
    if chosen.rest == "inductor":
        return _with(result, _through_inductor(result, graph_module, example_inputs, chosen))
    if result is None or not result.regions:
        return _with(result, graph_module.forward)
    return _with(result, direct(result.graph_module))


def _with(cut: Cut | None, call):
    """A call that keeps what is known of its graph. Compiled code names regions by numbers, which keep nothing: they last as long as
    the graph can be called, or a gradient be asked of what it gave."""
    if cut is None:
        return call
    trains = torch.is_grad_enabled() and bool(cut.regions)

    def run(*inputs):
        results = call(*inputs)
        if trains:
            for tensor in (*results, *inputs):
                if isinstance(tensor, torch.Tensor) and (grad_fn := tensor.grad_fn) is not None:
                    grad_fn.metadata["transfuse"] = cut
        return results

    return run


def _cut(graph_module: torch.fx.GraphModule, example_inputs: list, chosen: Options) -> Cut | None:
    """The graph in ATen operators, its regions cut out; None where it is PyTorch's."""
    placeholders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    fixed = [_is_parameter(n, v) for n, v in zip(placeholders, example_inputs)]
    try:
        _refuse_own_ways(graph_module)
        traced = _aten(graph_module, example_inputs)
        _refuse_own_gradients(graph_module, traced)
        names = {
            n.name for n, is_fixed in zip((n for n in traced.graph.nodes if n.op == "placeholder"), fixed) if is_fixed
        }
        result = cut(traced, names, chosen)
    except OwnGradient:
        raise
    except Exception as error:
        _left(error, chosen, "a graph of torch.compile could not be taken")
        return None
    left = [line for line in result.lines if line.left]
    if chosen.require_full_compilation and left:
        raise RuntimeError(
            f"transfuse: require_full_compilation, but {left[0].op} stays with PyTorch: {left[0].reason}"
        )
    _cuts.append(weakref.ref(result))
    return result


def _through_inductor(result: Cut | None, graph_module: torch.fx.GraphModule, example_inputs: list, chosen: Options):
    """The graph with our regions as operators, compiled by Inductor; where none is ours, the graph as it was."""
    settings = inductor.patches(chosen.mode)
    grad = torch.is_grad_enabled()
    wants = [grad and isinstance(value, torch.Tensor) and value.requires_grad for value in example_inputs]
    if result is not None and result.regions:
        try:
            made = choice.chosen(result, example_inputs, wants, settings, inductor.graphs_calls(settings))
            result.again = None  # with the graph that it holds
            if result.regions:
                inductor.keep_sources(made, graph_module)
                return inductor.compiled(made, example_inputs, settings)
        except torch._dynamo.exc.RestartAnalysis:  # Dynamo begins anew, knowing more
            _cuts.pop()
            raise
        except Exception as error:
            _left(error, chosen, "a graph of torch.compile is compiled without ours")
    return inductor.compiled(graph_module, example_inputs, settings)


def _left(error: Exception, chosen: Options, what: str) -> None:
    if chosen.require_full_compilation:
        raise error
    lines = str(error).strip().splitlines()
    reason = f"{what} ({type(error).__name__}: {lines[0] if lines else ''})"
    fallback.warn(reason)
    _failures.append(reason)


backend.reset = inductor.reset  # torch._dynamo.reset() calls it
