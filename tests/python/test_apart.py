"""A model that cannot be captured whole runs as it is written, and each of its parts is captured on its own."""

import contextvars
import copy
import threading

import pytest
import torch
from decoder import optimized, same
from torch import nn
from torch.utils.checkpoint import checkpoint

import transfuse

pytestmark = [pytest.mark.versions, pytest.mark.filterwarnings("ignore::transfuse.fallback.Warned")]


def block(channels_in, channels_out):
    return nn.Sequential(nn.ConvTranspose2d(channels_in, channels_out, 3, 2), nn.BatchNorm2d(channels_out), nn.ReLU())


class Branches(nn.Module):
    """On values, so that no graph is of the whole."""

    def __init__(self):
        super().__init__()
        self.first, self.more = block(3, 4), nn.ModuleList([block(4, 4), block(4, 4)])
        self.last = nn.Conv2d(4, 2, 3)

    def forward(self, x):
        y = self.first(x)
        for part in self.more:
            y = part(y) if y.detach().mean() > 0 else 2 * y
        return self.last(y)


def with_gradients(net, x):
    net.zero_grad()
    leaf = x.clone().requires_grad_()
    y = net(leaf)
    y.square().mean().backward()
    return [y.detach(), leaf.grad, *[p.grad for p in net.parameters() if p.grad is not None]]


def test_control_flow_that_depends_on_values(device):
    model = Branches().to(device)
    twin, kinds = copy.deepcopy(model), [*map(type, model.modules())]
    ours = optimized(model)
    for training in (True, False):
        ours.train(training), twin.train(training)
        for size in (5, 5, 6):
            x = torch.randn(2, 3, size, 4, device=device)
            for a, b in zip(with_gradients(ours, x), with_gradients(twin, x), strict=True):
                same(a, b, 1e-4)
            with torch.no_grad():
                same(ours(x), twin(x), 1e-4)
        for a, b in zip(model.state_dict().values(), twin.state_dict().values()):
            same(a, b, 1e-4)
    told = transfuse.report(ours)
    assert told.taken >= 9 and "more.1: eval" in str(told) and "depends on the values" in str(told)
    assert [*map(type, model.modules())] == kinds  # as they were


collector = contextvars.ContextVar("collector", default=None)


class Collecting(nn.Module):
    """Gives what its parts have given, as its hooks see them while it runs."""

    def __init__(self):
        super().__init__()
        self.stages = nn.Sequential(block(3, 4), block(4, 4))
        for stage in self.stages:
            stage.register_forward_hook(self.note)

    @staticmethod
    def note(part, args, result):
        if (found := collector.get()) is not None:
            found.append(result)

    def forward(self, x):
        token = collector.set([])
        self.stages(x)
        found = collector.get()
        collector.reset(token)
        return found[0], found[1]


class Estimator(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = Collecting(), nn.Sequential(nn.ConvTranspose2d(4, 3, 3, 2), nn.Tanh())

    def forward(self, x):
        first, second = self.backbone(x)
        return self.head(second), first


@pytest.mark.parametrize("wanted", [True, False])
def test_what_hooks_collect_while_forward_runs(wanted, device):
    model = Estimator().to(device).eval()
    ours = optimized(model)
    with torch.set_grad_enabled(wanted):
        for size in (4, 4, 4, 5):
            x = torch.randn(2, 3, size, 4, device=device)
            for a, b in zip(ours(x), model(x)):
                same(a, b)
    told = str(transfuse.report(ours))
    assert "head: eval" in told and "backbone.stages: eval" in told  # the backbone is run apart in turn


def test_a_part_that_is_called_again_in_backward(device):
    class Checkpointed(Branches):
        reentrant = False

        def forward(self, x):
            y = checkpoint(self.first, x, use_reentrant=self.reentrant)
            return self.last(y) if y.detach().mean() > -1 else y

    for reentrant in (False, True):
        model = Checkpointed().to(device).eval()
        model.reentrant = reentrant
        ours, twin = optimized(model), copy.deepcopy(model)
        for _ in range(3):
            x = torch.randn(2, 3, 5, 4, device=device)
            for a, b in zip(with_gradients(ours, x), with_gradients(twin, x), strict=True):
                same(a, b, 1e-4)


def test_parts_that_are_changed_replaced_and_copied(device):
    class Copying(Branches):
        def forward(self, x):
            other = copy.deepcopy(self.first)
            other[0].weight.data.mul_(2)
            return super().forward(x) + other(x).mean() + self.first(x).mean()

    model = Copying().to(device).eval()
    ours = optimized(model)
    x = torch.randn(2, 3, 5, 4, device=device)
    changes = [
        lambda: model.first[0].weight.data.mul_(3),
        lambda: model.first.register_forward_hook(lambda part, given, result: result + 1),
        lambda: setattr(model, "first", block(3, 4).to(device).eval()),
        lambda: model.first.append(nn.Sigmoid()),
        lambda: model.more.__setitem__(0, nn.Conv2d(4, 4, 1).to(device)),
    ]
    with torch.no_grad():
        for change in (lambda: None, *changes):
            change()
            for _ in range(2):
                same(ours(x), model(x), 1e-4)
    twin = copy.deepcopy(ours)
    with torch.no_grad():
        twin.more[1][0].weight.mul_(2)
        model.more[1][0].weight.mul_(2)
        for _ in range(2):
            same(twin(x), model(x), 1e-4)


def test_parts_that_stand_in_each_other_and_are_called_with_other_parameters(device):
    class Sharing(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = block(3, 3)
            self.two, self.again = nn.Sequential(self.one, block(3, 3)), nn.ModuleList([self.one])

        def forward(self, x):
            y = self.one(x)
            y = self.again[0](self.two(y if y.detach().mean() > 9 else 2 * y))
            doubled = {name: 2 * parameter for name, parameter in self.one.named_parameters()}
            return y + torch.func.functional_call(self.one, doubled, (x,)).mean()

    model = Sharing().to(device).eval()
    ours = optimized(model)
    for size in (4, 4, 4, 5):
        x = torch.randn(2, 3, size, 4, device=device)
        for a, b in zip(with_gradients(ours, x), with_gradients(copy.deepcopy(model), x), strict=True):
            same(a, b, 1e-4)
    assert transfuse.report(ours).taken == 9


@pytest.mark.parametrize("training", [True, False])
def test_parts_that_are_lazy_until_the_first_call(training, device):
    model = nn.Sequential(nn.Sequential(nn.LazyConvTranspose2d(4, 3), nn.ReLU()), nn.LazyConv2d(2, 3)).to(device)
    x = torch.randn(2, 3, 5, 4, device=device)
    ours = optimized(model.train(training), (x,))
    for _ in range(4):
        found = ours(x)
        same(found, model(x))
    assert type(model[1]) is nn.Conv2d and transfuse.report(ours).taken >= 2


def test_parts_that_forward_compiles(device):
    """Of a class that comes and goes they would be compiled anew, and a tracer of Python code would see how we look who is around."""

    class Compiling(Branches):
        def forward(self, x):
            y = torch.compile(lambda part, y: part(y), fullgraph=True, backend="eager")(self.first, x)
            return super().forward(x) + y.mean()

    model = Compiling().to(device).eval()
    model.more[0].compile(backend="eager", fullgraph=True)
    ours = optimized(model)
    x = torch.randn(2, 3, 5, 4, device=device)
    with torch.no_grad():
        for _ in range(3):
            same(ours(x), model(x), 1e-4)
    told = str(transfuse.report(ours))
    assert "more.1: eval" in told and "more.0" not in told


def test_threads_that_run_it_and_the_model_itself():
    model = Branches().eval()
    ours = optimized(model)
    images = [torch.randn(2, 3, size, 4) for size in (4, 5)]
    with torch.no_grad():
        expected = [copy.deepcopy(model)(x) for x in images]
    failures = []

    def serve(net):
        try:
            with torch.no_grad():
                for _ in range(20):
                    for x, y in zip(images, expected):
                        torch.testing.assert_close(net(x), y, rtol=1e-4, atol=1e-4)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=serve, args=(net,)) for net in (ours, model, ours)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert type(model.first) is nn.Sequential and transfuse.report(ours).taken > 0
