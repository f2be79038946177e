"""optimize(): the same module, its regions run by Transfuse."""

from __future__ import annotations

import functools

import torch
from torch import nn
from torch.compiler import is_compiling

from transfuse import fallback
from transfuse.calls.dispatch import called, prepare, refuse
from transfuse.calls.remembered import State
from transfuse.capture.derived import derive, written
from transfuse.capture.views import bare
from transfuse.cut.account import Report, graph_report
from transfuse.options import Options
from transfuse.pytorch import trials


@functools.cache
def _optimized_class(base: type) -> type:
    @functools.wraps(base.forward)
    def run(self, *args, **kwargs):
        return called(self, self._transfuse, args, kwargs)

    def call(self, *args, **kwargs):
        """nn.Module's own call, less its way to forward() where nothing stands around it and the inputs are known."""
        if not kwargs and not (is_compiling() and trials.traced()):
            recall = self._transfuse.recall
            if recall is not None and (found := recall.find_bare(args)) is not None:
                return found(*args)
        return base.__call__(self, *args, **kwargs)

    def init(self, *args, **kwargs):
        """Whoever makes another one of the model's class, as Sequential does for a slice, has not optimised that one."""
        self.__class__ = base
        self.__init__(*args, **kwargs)

    def reduce(self, protocol=None):
        state = {k: v for k, v in self.__dict__.items() if k != "_transfuse"}
        return _rebuild, (base, self.__dict__["_transfuse"].options, self.__dict__["_transfuse"].dynamic), state

    def replicate(self):
        """nn.DataParallel makes copies for every call, with parameters of their own that nothing remembered here knows."""
        fallback.warn(
            f"replicas of {base.__name__} for DataParallel live for one call (DistributedDataParallel keeps them)"
        )
        replica = base._replicate_for_data_parallel(self)
        del replica.__dict__["_transfuse"]
        replica.__class__ = base
        return replica

    def prepare_scriptable(self):
        """torch.jit.script compiles what was written."""
        own = _as_written(self)
        return own.__prepare_scriptable__() if hasattr(base, "__prepare_scriptable__") else own

    body = {
        "forward": run, "__init__": init, "__reduce_ex__": reduce, "_replicate_for_data_parallel": replicate,
        "__prepare_scriptable__": prepare_scriptable,
    }  # fmt: skip
    if base.__call__ is nn.Module.__call__:
        body["__call__"] = call
    return derive(base, body | _own_ways(base) | {"_transfuse_base": base})


def _own_ways(base: type) -> dict:
    """Of models that see to their own copies, as torch.fx.GraphModule, and write their own forward: both are left to them."""
    ways = {}

    def like(self, model: nn.Module) -> nn.Module:
        return _optimized(model, self.__dict__["_transfuse"].options, self.__dict__["_transfuse"].dynamic)

    if base.__reduce__ is not object.__reduce__ or base.__reduce_ex__ is not object.__reduce_ex__:
        ways["__reduce_ex__"] = lambda self, protocol=None: (
            _optimized,
            (_as_written(self), self.__dict__["_transfuse"].options, self.__dict__["_transfuse"].dynamic),
        )
    if hasattr(base, "__deepcopy__"):
        ways["__deepcopy__"] = lambda self, memo: like(self, base.__deepcopy__(_as_written(self), memo))
    if issubclass(base, torch.fx.GraphModule):

        def recompile(self):
            view = _as_written(self)
            code = view.recompile()  # the forward of `base`
            self.__dict__ = like(self, view).__dict__
            return code

        ways["recompile"] = recompile
    return ways


def _as_written(module: nn.Module) -> nn.Module:
    """The same attributes under the class of the model."""
    table = {k: v for k, v in module.__dict__.items() if k != "_transfuse"}
    return bare(type(module)._transfuse_base, module, table)


def _optimized(model: nn.Module, options: Options, dynamic: bool) -> nn.Module:
    base = written(type(model))
    return bare(_optimized_class(base), model, {**model.__dict__, "_transfuse": State(base, options, dynamic)})


def _rebuild(base: type, options: Options, dynamic: bool):
    return bare(_optimized_class(base), None, {"_transfuse": State(base, options, dynamic)})


def is_optimized(module) -> bool:
    return "_transfuse" in getattr(module, "__dict__", {})


def optimize(
    model: nn.Module,
    example_inputs=None,
    *,
    freeze: bool = False,
    dynamic: bool = True,
    never_slower: bool = True,
    autotune: bool = False,
    dryrun: bool = False,
    require_full_compilation: bool = False,
    torch_executed_ops=(),
    min_block_size: int = 1,
    precision: str = "pytorch",
    memory: float = 1.5,
    rest: str = "eager",
    mode: str | None = None,
    graphs: bool = False,
    engine: str = "auto",
) -> nn.Module:
    """The model with its regions run by Transfuse: same signature, the same Parameter and buffer objects, the same state_dict.

    example_inputs   a tensor, a tuple of positional or a dict of keyword arguments; given, the model is captured at once,
                     else at its first call
    freeze           the user's word that parameters will not change: weights are prepared once (in eval and without gradients)
    never_slower     measure PyTorch's own way beside ours for new sizes and use the faster
    autotune         on CUDA: measure configurations of the dense kernels when they are made, remember the fastest
    dryrun           capture and report, but let PyTorch run
    require_full_compilation, torch_executed_ops, min_block_size   as in Torch-TensorRT
    precision        fp32 on CUDA: TF32 where PyTorch's convolutions use it ("pytorch"), or wherever its switches allow it ("switches")
    memory           where a region of ours is faster, it may take so many times PyTorch's peak
    rest, mode       who runs what is not ours: PyTorch's operators as they are ("eager"), or Inductor, with one of torch.compile's modes
                     ("inductor": the first call takes longer)
    graphs           calls are recorded in CUDA graphs and replayed (rest="inductor", mode="reduce-overhead"); results are the caller's own
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"transfuse.optimize: model must be a torch.nn.Module, got {type(model).__name__}")
    options = Options(
        freeze=freeze, require_full_compilation=require_full_compilation, torch_executed_ops=torch_executed_ops,
        min_block_size=min_block_size, never_slower=never_slower, autotune=autotune,
        precision=precision, memory=memory, rest=rest, mode=mode, graphs=graphs, engine=engine,
    )  # fmt: skip
    if isinstance(model, torch.jit.ScriptModule):
        # No class of its own says what it computes, nor can one be put before it.
        fallback.give_up(f"{type(model).__name__} is a TorchScript module: optimise what it was made from", options)
        return model
    module = _optimized(model, options, dynamic)
    if "forward" in model.__dict__:
        refuse(module, f"forward() was set on this {type(model).__name__} itself, not on its class: optimise it before")
    elif example_inputs is not None:
        args, kwargs = arguments(example_inputs)
        prepare(module, args, kwargs)
    if dryrun:
        print(account(module))
        return model
    return module


def arguments(example_inputs) -> tuple[tuple, dict]:
    if isinstance(example_inputs, torch.Tensor):
        return (example_inputs,), {}
    if isinstance(example_inputs, dict):
        return (), example_inputs
    if not isinstance(example_inputs, (tuple, list)):
        kind = type(example_inputs).__name__
        raise TypeError(
            f"transfuse: example_inputs must be a tensor, a tuple of arguments or a dict of them, got {kind}"
        )
    return tuple(example_inputs), {}


def account(module: nn.Module) -> Report:
    """Of an optimised module: every operator that was captured, who runs it, and why."""
    graphs, failures = _told(module.__dict__["_transfuse"], "")
    return Report(type(module).__name__, graphs, failures)


def _told(state: State, path: str) -> tuple[list, list[str]]:
    """Graphs, and why calls are not captured, of a module and its parts that are captured each on its own."""
    where = f"{path}: " if path else ""
    graphs, failures = [], [f"{where}{reason}" for reason in state.reasons()]
    for (mode, *_), entries in state.captures.items():
        for entry in entries:
            when = f"{where}{'training' if entry.flags[0] else 'eval'}{', autocast' if mode[1] else ''}"
            graphs.append(graph_report(entry.cut, f"{when}, inputs {', '.join(entry.capture.inputs())}"))
    for name, part in state.apart.named() if state.apart is not None else ():
        of_part, why = _told(part, f"{path}.{name}" if path else name)
        graphs += of_part
        failures += why
    return graphs, failures
