"""Layers with a state of their own: running statistics, weights computed from parameters, dropout."""

import copy

import pytest
import torch
import torch.nn.functional as F
from decoder import Decoder, optimized, same
from torch import nn
from torch.nn.utils import prune

import transfuse


@pytest.mark.parametrize("momentum", [0.1, 0.5, None])
@pytest.mark.parametrize("affine", [True, False])
def test_running_statistics(momentum, affine, no_fallback):
    model = nn.Sequential(
        nn.ConvTranspose1d(3, 4, 4, stride=2), nn.BatchNorm1d(4, momentum=momentum, affine=affine), nn.Tanh()
    )
    plain = copy.deepcopy(model)
    ours = optimized(model)
    for i in range(4):
        x = torch.randn(3, 3, 7) * (i + 1)
        same(ours(x), plain(x))
        for (name, a), b in zip(ours.named_buffers(), plain.buffers()):
            assert torch.allclose(a, b, rtol=1e-5, atol=1e-6), name
    x = torch.randn(2, 3, 7)
    same(ours.eval()(x), plain.eval()(x))


def test_averages_of_16_bits_are_rounded_once(no_fallback):
    """The mean of all batches so far: what is far from the first average is no less exact for it."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, momentum=None)).bfloat16()
    with torch.no_grad():
        model[0].weight.mul_(0.1)
    plain, wide = copy.deepcopy(model), copy.deepcopy(model).double()
    ours = optimized(model)
    x = torch.randn(4, 3, 9, 9).bfloat16()
    ours(x), plain(x), wide(x.double())
    for name, truth in wide[1].named_buffers():
        mine, theirs = ((m[1].get_buffer(name) - truth).double().norm() for m in (ours, plain))
        assert mine <= 1.5 * theirs + 2**-9 * truth.double().norm(), name


class OneNorm(nn.Module):
    """Three calls move the same running averages, one of them by another momentum."""

    def __init__(self):
        super().__init__()
        self.conv = nn.ConvTranspose2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x):
        y = torch.tanh(self.norm(self.conv(x)))
        mean, var = self.norm.running_mean, self.norm.running_var
        y = torch.relu(F.batch_norm(self.conv(y), mean, var, training=self.training, momentum=0.7))
        return self.norm(self.conv(y))


@pytest.mark.parametrize("compiled", [False, True], ids=["", "compiled"])
def test_a_norm_called_several_times_moves_its_averages_step_by_step(compiled, no_fallback, device):
    model = OneNorm().to(device)
    plain = copy.deepcopy(model)
    ours = optimized(model)
    call = torch.compile(ours, backend="eager", fullgraph=True) if compiled else ours
    for i in range(3):
        x = torch.randn(2, 3, 5, 6, device=device) + i
        if compiled and i == 0:  # torch.compile takes what was captured before
            with torch.no_grad():
                ours(x), plain(x)
        same(call(x), plain(x))
        for (name, a), b in zip(ours.named_buffers(), plain.buffers()):
            assert torch.allclose(a, b, rtol=1e-4, atol=1e-5), name


def test_batch_norm_without_running_statistics(no_fallback):
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 2), nn.BatchNorm2d(4, track_running_stats=False))
    x = torch.randn(2, 3, 4, 4)
    ours = optimized(model, x)
    same(ours(x), copy.deepcopy(model)(x))
    same(ours.eval()(x), copy.deepcopy(model).eval()(x))


def test_statistics_do_not_carry_gradients(pair):
    _, ours, x = pair
    ours(x.requires_grad_()).sum().backward()
    assert not ours.norm.running_mean.requires_grad and x.grad is not None


def test_shared_batch_norm_part_in_eval():
    """A frozen BatchNorm in a model that trains: fine-tuning."""
    model = Decoder().train()
    model.norm.eval()
    x = torch.randn(2, 3, 5, 6)
    ours = optimized(model, (x,))
    before = model.norm.running_mean.clone()
    same(ours(x), copy.deepcopy(model)(x))
    assert torch.equal(before, model.norm.running_mean)


@pytest.mark.parametrize("old", [True, False])
def test_weight_norm(old, no_fallback):
    make = nn.utils.weight_norm if old else nn.utils.parametrizations.weight_norm
    model = nn.Sequential(
        make(nn.ConvTranspose1d(3, 4, 4, stride=2, padding=1)), nn.LeakyReLU(0.1), make(nn.Conv1d(4, 2, 3))
    )
    names = list(model.state_dict())
    x = torch.randn(2, 3, 9)
    ours = optimized(model, x)
    assert list(ours.state_dict()) == names
    reference = nn.Sequential(nn.ConvTranspose1d(3, 4, 4, stride=2, padding=1), nn.LeakyReLU(0.1), nn.Conv1d(4, 2, 3))
    with torch.no_grad():
        reference[0].weight.copy_(model[0].weight)
        reference[0].bias.copy_(model[0].bias)
        reference[2].weight.copy_(model[2].weight)
        reference[2].bias.copy_(model[2].bias)
    same(ours(x), reference(x))
    loss = ours(x).square().sum()
    mine = torch.autograd.grad(loss, list(ours.parameters()))
    theirs = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    for a, b in zip(mine, theirs):
        same(a, b, 1e-4)
    with torch.no_grad():
        next(p for n, p in model.named_parameters() if "g" in n or "original0" in n).mul_(2)
    same(ours(x), model(x))


@pytest.mark.parametrize("old", [True, False])
def test_spectral_norm(old):
    make = nn.utils.spectral_norm if old else nn.utils.parametrizations.spectral_norm
    model = nn.Sequential(make(nn.ConvTranspose2d(3, 4, 3, stride=2)), nn.ReLU())
    plain = copy.deepcopy(model)
    x = torch.randn(2, 3, 5, 5)
    ours = optimized(model, x)
    for _ in range(3):
        same(ours(x), plain(x))
    for (name, a), b in zip(ours.named_buffers(), plain.buffers()):
        assert torch.allclose(a, b, atol=1e-5), name
    same(ours.eval()(x), plain.eval()(x))
    assert list(ours.state_dict()) == list(plain.state_dict())


@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.spectral_norm])
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::transfuse.fallback.Warned")
def test_a_normalised_layer_alone(norm):
    """Its hook computes the weight; spectral_norm's changes a buffer with every call."""
    torch.manual_seed(0)
    model = norm(nn.ConvTranspose2d(3, 4, 3))
    plain = norm(nn.ConvTranspose2d(3, 4, 3))
    plain.load_state_dict(model.state_dict())
    ours = optimized(model)
    for mode in (True, True, False):
        x = torch.randn(2, 3, 5, 5)
        same(ours.train(mode)(x), plain.train(mode)(x))
    for (name, a), b in zip(ours.state_dict().items(), plain.state_dict().values()):
        assert torch.allclose(a, b, atol=1e-5), name


def test_pruned_weights(no_fallback):
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU())
    prune.l1_unstructured(model[0], "weight", amount=0.4)
    x = torch.randn(2, 3, 5, 5)
    ours = transfuse.optimize(model, x, never_slower=False)
    for _ in range(2):
        same(ours(x), model(x))
        with torch.no_grad():
            model[0].weight_orig.mul_(1.5)


def test_dropout_in_training_stays_with_pytorch():
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.Dropout(0.5), nn.Conv2d(4, 2, 3))
    plain = copy.deepcopy(model)
    x = torch.randn(2, 3, 5, 5)
    ours = optimized(model, x)
    torch.manual_seed(3)
    a = ours(x)
    torch.manual_seed(3)
    same(a, plain(x))
    assert "dropout in training" in str(transfuse.report(ours))
    same(ours.eval()(x), plain.eval()(x))
    assert transfuse.report(ours).graphs[-1].lines[1].taken


def test_a_batch_of_nothing_leaves_running_statistics_alone(no_fallback):
    """As a detector's head has it where nothing was detected."""
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3, 2), nn.BatchNorm2d(4), nn.ReLU())
    plain, ours = copy.deepcopy(model), transfuse.optimize(model, never_slower=False)
    for count in (2, 0, 3):
        x = torch.randn(count, 3, 5, 6)
        for each in (ours, plain):
            each.zero_grad()
            each(x).sum().backward()
        for a, b in zip([*ours.buffers(), *ours.parameters()], [*plain.buffers(), *plain.parameters()]):
            torch.testing.assert_close(a, b)
            if a.requires_grad:
                torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-3)
