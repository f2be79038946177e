"""Sizes, layouts, dtypes and autocast: what a call may change without anybody telling."""

import copy

import pytest
import torch
import torch.nn.functional as F
import zoo
from decoder import optimized
from torch import nn

import transfuse


def captures(module):
    return sum(map(len, module.__dict__["_transfuse"].captures.values()))


def test_a_hundred_lengths_of_a_vocoder(no_fallback):
    model, inputs = zoo.model("hifigan")
    model.eval()
    ours = optimized(model, tuple(inputs))
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(4, 40, (100,), generator=generator).tolist()
    with torch.no_grad():
        for i, length in enumerate(lengths):
            x = torch.randn(1 + i % 2, 5, length)
            y = ours(x)
            if i % 10 == 0:
                assert torch.allclose(y, model(x), atol=1e-5)
    assert captures(ours) <= 2  # one for a batch, one for a batch of one


def test_sizes_computed_by_the_model(no_fallback):
    class Reshaping(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose2d(3, 4, 3, stride=2)

        def forward(self, x):
            y = self.up(x)
            n, c, h, w = y.shape
            y = y.reshape(n, c, h * w).mean(1, keepdim=True).view(n, 1, h, w)
            return y[:, :, : h // 2] * 2

    model = Reshaping()
    ours = optimized(model, (torch.randn(2, 3, 5, 6),))
    for shape in ((2, 3, 5, 6), (4, 3, 7, 3), (3, 3, 4, 4)):
        x = torch.randn(shape)
        assert torch.allclose(ours(x), model(x), atol=1e-5)
    assert captures(ours) == 1 and transfuse.report(ours).left == 0, str(transfuse.report(ours))


RESHAPES = {
    "flattened": lambda y: y.flatten(2).softmax(1),
    "flattened from the front": lambda y: y.flatten(0, 1) * 2,
    "a channel": lambda y: y[:, 1].tanh(),
    "the last channel": lambda y: y.relu()[:, -1],
    "squeezed": lambda y: y.mean(1, keepdim=True).squeeze(1) + 1,
    "squeezed all": lambda y: y.amax(1, keepdim=True).squeeze(),
    "unsqueezed": lambda y: y.unsqueeze(2) * 3,
    "unflattened": lambda y: y.unflatten(1, (2, 2)).sum(2),
    "unflattened to a size that is left open": lambda y: y.unflatten(1, (-1, 2)).sum(1),
    "as another": lambda y: y.flatten(2).view_as(y.flatten(1, 1).flatten(2) * 2).exp(),
    "stacked": lambda y: torch.stack([y, y.tanh(), y * 2], 2).amax(2),
    "stacked at the end": lambda y: torch.stack([y.relu(), -y], -1).sum(1),
    "complex numbers' parts": lambda y: torch.stack([y[:, :2], y[:, 2:]], -1).square().sum(-1).sqrt(),
    "expanded": lambda y: y.amax(1, keepdim=True).expand(-1, 3, -1, -1) * 2,
    "expanded to sizes": lambda y: y.mean((2, 3), keepdim=True).expand(-1, -1, y.shape[2] + 1, 3) + 1,
    "expanded as another": lambda y: y - y.mean(1, keepdim=True).expand_as(y),
    "repeated over the image": lambda y: y.mean((2, 3), keepdim=True).repeat(1, 1, y.shape[2], 3) - y[..., :3],
    "repeated channels": lambda y: y.repeat(1, 2, 1, 1).tanh(),
    "repeated batches": lambda y: y.relu().repeat(2, 1, 1, 3).sum(1),
    "repeated along a new axis": lambda y: y.mean(1).repeat(2, 1, 1, 1).exp(),
    "tiled": lambda y: y.amax(1, keepdim=True).tile(3, 1, 2) * 2,
    "broadcast": lambda y: y.mean(1, keepdim=True).broadcast_to(y.shape) * y,
    "halves of an image": lambda y: torch.add(*y[..., : 2 * (y.shape[-1] // 2)].chunk(2, -1)).relu(),
    "parts by sizes": lambda y: y.split([2, y.shape[2] - 2], 2)[1].tanh(),
    "a part": lambda y: y.narrow(2, 1, y.shape[2] - 1) * 2,
    "a part counted from the end": lambda y: y.narrow(3, -2, 2) * 2,
    "the last row": lambda y: y.relu()[:, :, -1] * 3,
    "a gate beside": lambda y: F.glu(y, 1) + 1,
    "pixels shuffled": lambda y: F.pixel_shuffle(y, 2).tanh(),
    "pixels shuffled back": lambda y: F.pixel_unshuffle(F.pad(y, (0, y.shape[3] % 2, 0, y.shape[2] % 2)), 2).relu(),
    "padded to a multiple": lambda y: F.pad(y, (0, -y.shape[3] % 8, 0, -y.shape[2] % 8)).exp(),
    "padded or cut": lambda y: F.pad(y, (1, 13 - y.shape[3], y.shape[2] - 10, 0), value=2.0) * 3,
}


@pytest.mark.parametrize("name", RESHAPES)
def test_reshapes_beside_sizes_that_the_call_tells(name, no_fallback):
    class Reshaping(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose2d(3, 4, 3, stride=2)

        def forward(self, x):
            return RESHAPES[name](self.up(x))

    model = Reshaping()
    ours = optimized(model, (torch.randn(2, 3, 5, 6),))
    for shape in ((2, 3, 5, 6), (4, 3, 7, 3), (3, 3, 4, 9)):
        x = torch.randn(shape)
        y = model(x)
        assert torch.allclose(ours(x), y, atol=1e-5) and ours(x).shape == y.shape
    assert captures(ours) == 1 and transfuse.report(ours).left == 0, str(transfuse.report(ours))


def test_a_label_beside_an_image(no_fallback):
    """As a generator is told what to make: the label is repeated over the image and concatenated with it."""

    class Told(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.up = nn.Conv2d(5, 4, 3), nn.ConvTranspose2d(4, 3, 4, 2)

        def forward(self, x, label):
            label = label[:, :, None, None].repeat(1, 1, x.size(2), x.size(3))
            return self.up(self.down(torch.cat([x, label], 1)).relu())

    model = Told()
    ours = optimized(model, (torch.randn(2, 3, 5, 6), torch.randn(2, 2)))
    for height, width in ((5, 6), (7, 4)):
        given = [torch.randn(2, 3, height, width, requires_grad=True), torch.randn(2, 2, requires_grad=True)]
        results = [net(*given) for net in (ours, model)]
        assert torch.allclose(*results, atol=1e-5)
        leaves = [*given, *model.parameters()]
        found, expected = [torch.autograd.grad(y.square().sum(), leaves) for y in results]
        for a, b in zip(found, expected):
            assert torch.allclose(a, b, rtol=1e-4, atol=1e-4)
    assert captures(ours) == 1 and transfuse.report(ours).left == 0, str(transfuse.report(ours))


def test_sizes_that_cannot_vary_are_fixed_for_whole_numbers_too(no_fallback):
    """What torch.export has written on a tensor when it fails is not there when it is asked again, nor for anybody else."""

    class Strict(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.up = nn.Embedding(9, 3), nn.ConvTranspose1d(3, 4, 3)

        def forward(self, x):
            if isinstance(x.shape[1], torch.SymInt):
                raise ValueError
            return self.up(self.table(x).transpose(1, 2)).relu()

    model, x = Strict(), torch.randint(0, 9, (2, 6))
    ours = optimized(model, (x,))
    assert torch.allclose(ours(x), model(x), atol=1e-5) and transfuse.report(ours).taken
    assert not vars(x)


def test_shapes_that_a_graph_does_not_hold_for():
    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose1d(3, 4, 3)

        def forward(self, x):
            y = self.up(x)
            return y.relu() if x.shape[2] > 6 else -y

    model = Branching()
    ours = optimized(model, (torch.randn(2, 3, 9),))
    for length in (9, 4, 7, 6, 12, 1):
        x = torch.randn(2, 3, length)
        assert torch.allclose(ours(x), model(x), atol=1e-5), length


def test_unsqueezed_beside_unknown_sizes(no_fallback):
    class Squeezing(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose2d(3, 4, 3)

        def forward(self, x):
            return self.up(x).amax(1).unsqueeze(1) + 1

    model = Squeezing()
    ours = optimized(model, (torch.randn(2, 3, 4, 5),))
    for shape in ((2, 3, 4, 5), (3, 3, 6, 5)):
        x = torch.randn(shape)
        assert torch.allclose(ours(x), model(x), atol=1e-5)
    assert transfuse.report(ours).left == 0


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("weights", [False, True])
def test_channels_last_in_and_out(rank, weights, no_fallback):
    form = torch.channels_last if rank == 2 else torch.channels_last_3d
    layer = nn.ConvTranspose2d if rank == 2 else nn.ConvTranspose3d
    model = nn.Sequential(layer(3, 4, 3, stride=2), nn.ReLU())
    if weights:
        model = model.to(memory_format=form)
    x = torch.randn(2, 3, *[5, 4, 3][:rank])
    ours = optimized(model, x)
    for given in (x, x.contiguous(memory_format=form)):
        expected, got = model(given), ours(given)
        assert torch.allclose(got, expected, atol=1e-5)
        if rank == 2 or (given is x and not weights):
            assert got.is_contiguous(memory_format=form) == expected.is_contiguous(memory_format=form)
    given = x.contiguous(memory_format=form).requires_grad_()
    (mine,) = torch.autograd.grad(ours(given).square().sum(), given)
    (theirs,) = torch.autograd.grad(model(given).square().sum(), given)
    assert torch.allclose(mine, theirs, rtol=1e-4, atol=1e-4)


def test_odd_strides(no_fallback):
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3, stride=2), nn.Tanh())
    ours = optimized(model)
    base = torch.randn(4, 6, 9, 10)
    for x in (
        base[::2, ::2, 1:6, 2:9],
        base[:, 1:4].transpose(2, 3),
        base[:1, :3].expand(3, 3, 9, 10),
        base.flip(3)[:, :3],
    ):
        assert torch.allclose(ours(x), model(x), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dtypes(dtype, no_fallback):
    model = (
        nn.Sequential(nn.ConvTranspose2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.AvgPool2d(2))
        .to(dtype)
        .eval()
    )
    x = torch.randn(2, 3, 6, 6, dtype=dtype)
    ours = optimized(model, x)
    got = ours(x)
    exact = copy.deepcopy(model).double()(x.double())
    assert got.dtype is dtype
    assert (got - exact).abs().max() <= 2 * (model(x) - exact).abs().max() + 4 * torch.finfo(
        dtype
    ).eps * exact.abs().max()


@pytest.mark.parametrize("training", [True, False])
def test_autocast(training, no_fallback):
    model = nn.Sequential(
        nn.ConvTranspose2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 2, 3), nn.Softmax(1)
    ).train(training)  # fmt: skip
    plain = copy.deepcopy(model)
    x = torch.randn(2, 3, 6, 6)
    ours = optimized(model, x)
    exact = copy.deepcopy(model).double()(x.double())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got, expected = ours(x), plain(x)
        assert got.dtype is expected.dtype
        assert (got - exact).abs().max() <= 2 * (expected - exact).abs().max() + 1e-2
        got.float().square().sum().backward()
        expected.float().square().sum().backward()
    for a, b in zip(model.parameters(), plain.parameters()):
        assert a.grad.dtype is b.grad.dtype and torch.allclose(a.grad, b.grad, rtol=0.1, atol=0.1)
    assert transfuse.report(ours).left == 0
    out = ours(x)
    assert out.dtype is torch.float32


def test_in_place_operators(no_fallback):
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose2d(3, 4, 3)

        def forward(self, x):
            y = self.up(x)
            y.mul_(2).add_(1)
            F.relu_(y)
            return y.clamp_(max=3)

    model = InPlace()
    x = torch.randn(2, 3, 4, 4)
    ours = optimized(model, x)
    assert torch.allclose(ours(x), model(x), atol=1e-5)
    assert transfuse.report(ours).left == 0


def test_in_place_through_a_view_stays_right():
    class Views(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose2d(3, 4, 3)

        def forward(self, x):
            y = self.up(x)
            y[:, 0].zero_()
            x = x.clone()
            z = x * 2
            x.mul_(3)
            return y.relu() + 1, z + x

    model = Views()
    x = torch.randn(2, 3, 4, 4)
    before = x.clone()
    ours = optimized(model, x)
    with torch.no_grad():
        for a, b in zip(ours(x), model(x)):
            assert torch.allclose(a, b, atol=1e-5)
    assert torch.equal(x, before)


def test_a_model_that_changes_its_input():
    class Changing(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose2d(3, 4, 3)

        def forward(self, x):
            y = self.up(x)
            x.add_(1)
            return y + self.up(x)

    model = Changing()
    a, b = torch.zeros(1, 3, 4, 4), torch.zeros(1, 3, 4, 4)
    ours = optimized(model)
    with torch.no_grad():
        assert torch.allclose(ours(a), model(b), atol=1e-5)
    assert torch.equal(a, b) and a.mean() == 1


def test_what_stays_between_two_regions(no_fallback):
    class Between(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.mid, self.down = nn.ConvTranspose2d(3, 4, 3), nn.Linear(6, 6), nn.Conv2d(4, 2, 3)

        def forward(self, x):
            y = self.up(x).relu()
            z = self.mid(y)  # leaves and comes back: y must not be fused with what needs z
            return self.down(z * y) + y.mean()

    model = Between()
    x = torch.randn(2, 3, 4, 4)
    ours = optimized(model, x)
    assert torch.allclose(ours(x), model(x), atol=1e-5)
    told = transfuse.report(ours)
    assert len(told.graphs[0].regions) == 2 and [line.op for line in told.graphs[0].lines if line.left] == [
        "aten.linear.default"
    ]
