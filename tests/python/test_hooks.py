"""Hooks of modules run as often as they would, whenever they were registered."""

import copy
import functools

import pytest
import torch
from decoder import optimized, same
from torch import nn

import transfuse
from transfuse import fallback
from transfuse.capture.parts import KEPT
from transfuse.recent import MOST_SIZES

pytestmark = pytest.mark.versions


def chain(device, inplace=True):
    return nn.Sequential(
        nn.ConvTranspose2d(3, 4, 3, 2), nn.BatchNorm2d(4), nn.ReLU(inplace), nn.ConvTranspose2d(4, 5, 3, 2), nn.LeakyReLU(0.2, inplace),
        nn.Conv2d(5, 3, 3), nn.Tanh(),
    ).to(device)  # fmt: skip


def keeps(module, seen):
    module.register_forward_hook(lambda _, given, output: seen.extend([*given, output]))


def changes(module, seen):
    module.register_forward_hook(lambda _, given, output: seen.append(output) or 2 * output)


def stands_before(module, seen):
    module.register_forward_pre_hook(lambda _, given: seen.extend(given) or (given[0] + 1,))


def sees_gradients(module, seen):
    module.register_full_backward_hook(lambda _, *gradients: seen.extend(g for (g,) in gradients if g is not None))


def sees_gradients_first(module, seen):
    module.register_full_backward_pre_hook(lambda _, gradients: seen.extend(gradients) or (2 * gradients[0],))


def always(module, seen):
    module.register_forward_hook(lambda _, given, output: seen.append(output), always_call=True)


@pytest.mark.parametrize(
    "hook, place", [(keeps, 2), (keeps, 3), (changes, 3), (stands_before, 2), (stands_before, 3), (sees_gradients, 2),
                    (sees_gradients_first, 3), (always, 2)],
)  # fmt: skip
def test_a_part_with_a_hook_leaves_the_others_ours(hook, place, no_fallback, device):
    """It runs as often as it would and sees what it would, also in tensors that it keeps and that operators change in place later."""
    inplace = "gradients" not in hook.__name__  # PyTorch lets nobody write to what such hooks give
    model = chain(device, inplace)
    twin = copy.deepcopy(model)
    seen, expected = [], []
    hook(twin[place], expected)
    hook(model[place], seen)
    ours = optimized(model)
    for size in (5, 5, 6):
        given = torch.randn(2, 3, size, 4, device=device)
        x, y = given.clone().requires_grad_(), given.clone().requires_grad_()
        for net, leaf in ((ours, x), (twin, y)):
            net(leaf).square().sum().backward()
        same(x.grad, y.grad, 1e-4)
        for a, b in zip([*model.parameters(), *model.buffers()], [*twin.parameters(), *twin.buffers()]):
            same(a.grad if a.grad is not None else a, b.grad if b.grad is not None else b, 1e-4)
        with torch.no_grad():
            same(ours(given), twin(given), 1e-4)
    assert len(seen) == len(expected) > 0
    for a, b in zip(seen, expected):
        same(a, b, 1e-4)
    told = transfuse.report(ours)
    assert told.taken >= 4 and "it has a hook" in str(told)


def test_activations_and_their_gradients_can_be_asked_for(no_fallback, device):
    """As Grad-CAM does: a hook keeps a part's result, and the gradient of the model's with respect to it is taken."""
    model = chain(device).eval()
    kept = []
    model[3].register_forward_hook(lambda _, given, output: kept.append(output))
    ours = optimized(model)
    x = torch.randn(2, 3, 5, 4, device=device)
    (a,) = torch.autograd.grad(ours(x).sum(), kept[-1:])
    (b,) = torch.autograd.grad(model(x).sum(), kept[-1:])
    same(a, b)


def test_a_hook_on_a_block_leaves_what_it_computes_ours(no_fallback, device):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = chain(device)
            self.head = nn.Conv2d(3, 2, 3)

        def forward(self, x, *, scale, names=("a", "b")):
            y = self.block(x)
            return {names[0]: self.head(y) * scale["by"], names[1]: self.block(x)}

    model = Two().to(device).eval()
    calls = []
    model.block.register_forward_hook(lambda part, args, kwargs, y: calls.append(part), with_kwargs=True)
    model.block[3].register_forward_pre_hook(lambda part, args: calls.append(part))
    ours = optimized(model)
    x, by = torch.randn(2, 3, 5, 4, device=device), torch.tensor(3.0, device=device)
    found, expected = ours(x, scale={"by": by}), model(x, scale={"by": by})
    for name in "ab":
        same(found[name], expected[name])
    assert calls == [model.block[3], model.block, model.block[3], model.block] * 2
    report = str(transfuse.report(ours))
    assert "hook of Sequential" in report and "ConvTranspose2d" in report and "region_0" in report


def test_hooks_inside_a_part_that_stays_whole_see_nothing_else(no_fallback, device):
    model = nn.Sequential(chain(device), nn.Conv2d(3, 2, 3)).to(device).eval()
    model[0].register_forward_pre_hook(lambda part, args: None)
    seen = []
    keeps(model[0][3], seen)
    x = torch.randn(2, 3, 5, 4, device=device)
    ours = optimized(model, x)
    assert not seen
    for calls in (1, 2, 3):
        same(ours(x), model[1](model[0](x)))
        assert len(seen) == 4 * calls and all(type(tensor) is torch.Tensor for tensor in seen)


def test_a_hook_that_computes_a_weight(no_fallback, device):
    """As many libraries' own: it stands before a part, and puts a weight there."""
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Tanh()).to(device)
    size = nn.Parameter(torch.ones(1, device=device))
    direction = model[0].weight
    del model[0].weight
    model[0].register_parameter("direction", direction)
    model[0].register_parameter("size", size)

    def make(part, _):
        part.weight = part.direction * part.size

    make(model[0], None)
    model[0].register_forward_pre_hook(make)
    ours = optimized(model)
    x = torch.randn(2, 3, 5, 4, device=device)
    for _ in range(2):
        same(ours(x), model(x))
        with torch.no_grad():
            size.mul_(2)
    ours(x).sum().backward()
    assert size.grad is not None
    assert transfuse.report(ours).taken == 3


def test_hooks_that_give_other_sizes_leave_the_model_to_pytorch(device):
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Flatten()).eval().to(device)
    model[1].register_forward_hook(lambda _, given, output: output[:, :, 1:])
    ours = optimized(model)
    x = torch.randn(2, 3, 5, 4, device=device)
    fallback._said.clear()
    ours(x)  # the first call is PyTorch's
    with pytest.warns(fallback.Warned, match="hook of ReLU 1 gives"):
        same(ours(x), model(x))
    same(ours(x), model(x))
    assert "hook of ReLU 1 gives" in str(transfuse.report(ours))


def test_what_is_known_of_ever_new_sizes_is_bounded(device):
    model = chain(device, inplace=False)
    keeps(model[3], [])
    ours = optimized(model, torch.randn(2, 3, 5, 4, device=device))
    ((entry,),) = ours.__dict__["_transfuse"].captures.values()
    (kept,) = [node.meta[KEPT] for node in entry.cut.graph_module.graph.nodes if KEPT in node.meta]
    given = [torch.empty(size, device="meta") for size in ((2, 4, 11, 9), (2, 5, 23, 19))]
    for batch in range(1, 2 * MOST_SIZES):
        (shape, *_), *_ = kept._sizes_of([tensor[:1].expand(batch, -1, -1, -1) for tensor in given])
        assert shape == (batch, 5, 23, 19)
    assert len(kept._expected.items()) <= MOST_SIZES


def test_parts_with_hooks_are_told_by_require_full_compilation(device):
    model = chain(device, inplace=False)
    model[3].register_forward_pre_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="ConvTranspose2d stays with PyTorch: it has a hook"):
        optimized(model, torch.randn(2, 3, 5, 4, device=device), require_full_compilation=True)


def test_compiled_around_and_copied(no_fallback, device):
    model = chain(device).eval()
    calls = []
    model[3].register_forward_hook(lambda *_: calls.append(1))
    x = torch.randn(2, 3, 5, 4, device=device)
    ours = optimized(model, x)
    twin = copy.deepcopy(ours)
    same(twin(x), model(x))
    assert len(calls) == 2
    same(torch.compile(ours, backend="eager")(x), model(x))
    assert len(calls) == 4


def test_hooks_added_later_are_not_lost(device):
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU()).to(device)
    x = torch.randn(1, 3, 4, 4, device=device)
    ours = optimized(model, x)
    ours(x)
    seen = []
    handle = model[0].register_forward_hook(lambda *_: seen.append(1))
    ours(x)
    assert seen == [1]
    handle.remove()
    ours(x)
    assert seen == [1]


def test_hooks_of_the_model_itself_run_once(no_fallback, device):
    """They stand around what is captured, also if they are there when it is captured."""
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.Tanh()).to(device)
    x = torch.randn(1, 3, 4, 4, device=device)
    plain = model(x)
    doubles = model.register_forward_hook(lambda module, inputs, output: 2 * output)
    ours = optimized(model)
    for _ in range(2):
        same(ours(x), 2 * plain)
    doubles.remove()
    ours.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    for length in (4, 5):  # known and new
        y = torch.randn(1, 3, length, 4, device=device)
        same(ours(y), model(y))


def test_hooks_on_all_modules_see_every_one(device):
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU()).to(device)
    x = torch.randn(1, 3, 4, 4, device=device)
    ours = optimized(model, x)
    ours(x)
    seen = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(type(module).__name__))
    try:
        ours(x)
    finally:
        handle.remove()
    assert seen == ["ConvTranspose2d", "ReLU", "Sequential"]
    ours(x)
    assert len(seen) == 3


def test_a_forward_that_needs_what_its_hooks_do():
    class Collects(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.head, self.found = nn.ConvTranspose2d(3, 4, 3), nn.Conv2d(4, 3, 3), {}
            self.up.register_forward_hook(self.collect)

        def collect(self, _, given, output):
            self.found["up"] = output

        def forward(self, x):
            self.found.clear()
            self.up(x)
            return self.head(self.found["up"])

    model, x = Collects().eval(), torch.randn(1, 3, 5, 5)
    with pytest.warns(fallback.Warned, match=r"hooks of its parts do not run .* module up: it has a hook \(collect\)"):
        ours = optimized(copy.deepcopy(model), (x,))
    with torch.no_grad():
        same(ours(x), model(x))


class Collecting(nn.Module):
    """Gives what hooks of its parts have seen, as models that return their hidden states do."""

    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(nn.Conv1d(2, 2, 3), nn.Conv1d(2, 2, 3))
        self.seen = None
        for part in self.parts:
            part.register_forward_hook(self.note)

    def note(self, part, args, result):
        if SEEN:
            SEEN[-1].append(result)

    def forward(self, x):
        SEEN.append([])
        y = self.parts(x)
        return y, tuple(SEEN.pop())


SEEN: list[list] = []


@pytest.mark.parametrize("dynamic", [True, False])
def test_what_hooks_collect_and_forward_gives_is_not_lost(dynamic):
    model, x = Collecting(), torch.randn(1, 2, 9)
    ours = transfuse.optimize(model, never_slower=False, dynamic=dynamic)
    with pytest.warns(fallback.Warned, match="know the same variables"):
        ours(x)
    for _ in range(2):
        y, seen = ours(x)
        assert len(seen) == 2
        torch.testing.assert_close(seen[1], y)


switch, doubled = [False], False


class Tracker:
    on = False

    def __call__(self, part, args, result):
        return 2 * result if self.on else None

    def see(self, part, args, result):
        return self(part, args, result)


class Told(nn.Module):
    """Its forward() tells a hook of a part something, or is told."""

    def __init__(self, hook, tracker=None):
        super().__init__()
        self.up, self.head, self.tracker = nn.Sequential(nn.ConvTranspose2d(3, 4, 3)), nn.Conv2d(4, 4, 3), tracker
        if hook is not None:
            self.up.register_forward_hook(hook)

    def forward(self, x):
        return self.head(self.up(x))


class Collects(Told):
    def forward(self, x):
        SEEN.clear()
        y = super().forward(x)
        return y + sum(seen.mean() for seen in SEEN)


class Switches(Told):
    def forward(self, x):
        switch[0] = True
        y = super().forward(x)
        switch[0] = False
        return y


class Sets(Told):
    def forward(self, x):
        global doubled
        doubled = True
        y = super().forward(x)
        doubled = False
        return y


class Tracks(Told):
    def forward(self, x):
        self.tracker.on = True
        y = super().forward(x)
        self.tracker.on = False
        return y


def closed():
    on = False

    def hook(part, args, result):
        return 2 * result if on else None

    class Closed(Told):
        def forward(self, x):
            nonlocal on
            on = True
            y = super().forward(x)
            on = False
            return y

    return Closed(hook)


class Takes(nn.Sequential):
    def forward(self, x, _):
        return super().forward(x)


class Gives(Told):
    def __init__(self):
        super().__init__(None)
        self.up = Takes(self.up)
        self.up.register_forward_hook(lambda part, args, result: args[1].append(result))

    def forward(self, x):
        y = self.head(self.up(x, found := []))
        return y + sum(seen.mean() for seen in found)


TOLD = {
    "a list it is given": Gives,
    "a list it fills": lambda: Collects(lambda part, args, result: SEEN.append(result)),
    "a list": lambda: Switches(lambda part, args, result: 2 * result if switch[0] else None),
    "a global variable": lambda: Sets(lambda part, args, result: 2 * result if doubled else None),
    "a variable of a closure": closed,
    "an object": lambda: Tracks(tracker := Tracker(), tracker),
    "an object's method": lambda: Tracks((tracker := Tracker()).see, tracker),
    "an argument": lambda: Tracks(functools.partial(Tracker.see, tracker := Tracker()), tracker),
}


@pytest.mark.parametrize("kind", TOLD)
@pytest.mark.filterwarnings("ignore::transfuse.fallback.Warned")
def test_what_forward_and_a_hook_tell_each_other(kind, device):
    model = TOLD[kind]().to(device).eval()
    ours = optimized(model)
    with torch.no_grad():
        for size in (5, 5, 5, 6):
            x = torch.randn(2, 3, size, 4, device=device)
            same(ours(x), model(x))
    told = transfuse.report(ours)
    assert told.taken == 1 and ("know the same variables" in str(told) or "is given a list" in str(told))


def test_a_hook_that_changes_what_forward_gives():
    """It finds no variable of forward()'s, and the results are other ones all the same."""

    class Tagged(Told):
        def forward(self, x):
            y = self.up(x)
            return (y, y.tag) if hasattr(y, "tag") else y

    model, x = Tagged(lambda part, args, result: setattr(result, "tag", result.mean())), torch.randn(1, 3, 4, 4)
    ours = optimized(model.eval())
    with pytest.warns(fallback.Warned, match="what hooks of its parts have collected"):
        ours(x)
    for _ in range(2):
        same(ours(x)[1], model(x)[1])
