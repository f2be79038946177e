"""What people do with a model beside calling it: adversarial training, averaging, checkpointing, swapping, streaming."""

import copy
import io

import pytest
import torch
import zoo
from torch import nn
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

import transfuse
from transfuse import fallback


def decoder():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.ConvTranspose2d(3, 8, 4, 2, 1),
        nn.BatchNorm2d(8),
        nn.LeakyReLU(0.1),
        nn.ConvTranspose2d(8, 3, 4, 2, 1),
        nn.Tanh(),
    )


def pair():
    plain = decoder()
    return plain, transfuse.optimize(copy.deepcopy(plain), image(), never_slower=False)


def image():
    return torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(1))


def close(a, b):
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5)


def same_state(a, b):
    return all(close(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def is_ours(module):
    """Whether regions of it still run: none has failed."""
    return not any(r.failure for entry in module.__dict__["_transfuse"].traceable for r in entry.cut.regions)


def test_adversarial_training(no_fallback):
    """Generator and critic with an optimiser each, the generator's images detached for the critic, gradients clipped."""

    def train(wrap):
        torch.manual_seed(0)
        generator, inputs = zoo.model("dcgan")
        critic = nn.Sequential(
            nn.Conv2d(3, 4, 4, 4), nn.LeakyReLU(0.2), nn.Conv2d(4, 1, 4, 4), nn.Flatten(), nn.LazyLinear(1)
        )
        critic(torch.zeros(1, 3, 64, 64))
        generator, critic = wrap(generator), wrap(critic)
        steps = [torch.optim.SGD(m.parameters(), lr=0.01, momentum=0.5) for m in (generator, critic)]
        loss = nn.functional.binary_cross_entropy_with_logits
        real = torch.rand(inputs[0].shape[0], 3, 64, 64)
        for _ in range(2):
            made = generator(inputs[0])
            steps[1].zero_grad()
            judged, seen = critic(made.detach()), critic(real)
            (loss(judged, torch.zeros_like(judged)) + loss(seen, torch.ones_like(seen))).backward()
            steps[1].step()
            steps[0].zero_grad()
            judged = critic(made)
            loss(judged, torch.ones_like(judged)).backward()
            nn.utils.clip_grad_norm_(generator.parameters(), 1.0)
            steps[0].step()
        return generator, critic

    for plain, ours in zip(train(lambda m: m), train(lambda m: transfuse.optimize(m, never_slower=False)), strict=True):
        assert same_state(plain, ours) and is_ours(ours)


def test_averaged_weights(no_fallback):
    """swa_utils.AveragedModel deep-copies the model and moves its parameters in place."""
    results = []
    for model in pair():
        average = torch.optim.swa_utils.AveragedModel(model, avg_fn=lambda a, b, _: 0.9 * a + 0.1 * b)
        optimiser = torch.optim.SGD(model.parameters(), lr=1e-1, momentum=0.9)
        for _ in range(3):
            optimiser.zero_grad()
            model(image()).square().mean().backward()
            optimiser.step()
            average.update_parameters(model)
        results.append((average.eval()(image()).detach(), model.eval()(image()).detach()))
    assert all(close(a, b) for a, b in zip(*results, strict=True))
    assert not close(*results[0])


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing(reentrant, no_fallback):
    """The forward runs a second time in backward; with a part of it frozen."""
    found = []
    for model in pair():
        model[0].weight.requires_grad_(False)
        x = image().requires_grad_()
        with set_checkpoint_early_stop(False):  # else statistics are updated once here, twice by PyTorch
            checkpoint(model, x, use_reentrant=reentrant).square().mean().backward()
        assert model[0].weight.grad is None
        found.append([x.grad, *[p.grad for p in model.parameters() if p.requires_grad], *model.buffers()])
    assert all(close(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("never_slower", [False, True])
def test_a_first_call_that_is_checkpointed(never_slower, no_fallback):
    """What capturing and measuring save for backward is not the call's."""
    plain = decoder().eval()
    ours = transfuse.optimize(copy.deepcopy(plain), never_slower=never_slower)
    gradients = []
    for model in (plain, ours):
        x = image().requires_grad_()
        checkpoint(model, x, use_reentrant=False).square().mean().backward()
        gradients.append(x.grad)
    assert close(*gradients)


def test_a_first_call_with_other_parameters(no_fallback):
    plain = decoder().eval()
    ours = transfuse.optimize(copy.deepcopy(plain), never_slower=False)
    others = {name: torch.randn_like(p).requires_grad_() for name, p in plain.named_parameters()}
    results = [torch.func.functional_call(model, others, (image(),)) for model in (plain, ours)]
    gradients = [torch.autograd.grad(result.sum(), list(others.values())) for result in results]
    assert close(*results) and all(close(a, b) for a, b in zip(*gradients, strict=True))
    assert close(ours(image()), plain(image())) and not close(results[0], plain(image()))
    assert all(isinstance(p, nn.Parameter) for p in ours.parameters())


def test_functional_call(no_fallback):
    """Other tensors in the place of parameters and buffers, for one call."""
    results = []
    for model in pair():
        others = {name: 1.1 * t.detach() for name, t in model.named_parameters()}
        others |= {name: t.clone() for name, t in model.named_buffers()}
        results += [torch.func.functional_call(model, others, (image(),)), model(image())]
    assert close(results[0], results[2]) and close(results[1], results[3]) and not close(results[0], results[1])


@pytest.fixture
def swapping():
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(False)


def test_swapped_parameters(swapping, no_fallback):
    """torch.utils.swap_tensors, as module conversions and load_state_dict may use it, puts other tensors into the same objects."""
    plain, ours = pair()
    before = list(ours.parameters())
    for model in (plain, ours):
        model(image()).sum().backward()
        model.zero_grad()
        model.double()
        model.load_state_dict({name: 1.5 * t for name, t in model.state_dict().items()})
        weight = nn.Parameter(torch.ones_like(model[3].weight))
        torch.utils.swap_tensors(model[3].weight, weight)
    assert all(a is b for a, b in zip(before, ours.parameters(), strict=True))
    assert close(plain(image().double()), ours(image().double())) and ours[0].weight.dtype is torch.float64


def test_dual_numbers_and_symbolic_tracing_see_pytorch(no_fallback):
    plain, ours = [model.eval() for model in pair()]
    with torch.no_grad():
        ours(image())
    for grad in (True, False):
        with forward_ad.dual_level(), torch.set_grad_enabled(grad):
            tangents = [
                forward_ad.unpack_dual(m(forward_ad.make_dual(image(), image()))).tangent for m in (plain, ours)
            ]
        assert close(*tangents)
    layer = transfuse.nn.ConvTranspose2d(3, 4, 3)
    with forward_ad.dual_level():
        dual = layer(forward_ad.make_dual(image(), image()))
        expected = nn.functional.conv_transpose2d(image(), layer.weight)
        assert close(forward_ad.unpack_dual(dual).tangent, expected)
    traced = torch.fx.symbolic_trace(ours)
    assert close(traced(image()), plain(image())) and is_ours(ours)


def test_many_gradients_at_once(no_fallback):
    """is_grads_batched maps the backward; afterwards ours computes single gradients as before."""
    plain, ours = [model.eval() for model in pair()]
    jacobians = [
        torch.autograd.functional.jacobian(lambda x, m=m: m(x).mean((2, 3)), image(), vectorize=True)
        for m in (plain, ours)
    ]
    assert close(*jacobians)
    assert not any(r.gradient.failure for e in ours._transfuse.traceable for r in e.cut.regions)


def test_cached_parametrisations(no_fallback):
    """Capturing inside parametrize.cached() takes nothing from the cache and leaves nothing there."""
    layer = nn.utils.parametrizations.weight_norm(nn.ConvTranspose1d(3, 4, 3))
    plain, x = nn.Sequential(layer, nn.ReLU()), torch.randn(2, 3, 5)
    ours = transfuse.optimize(plain, never_slower=False)
    with nn.utils.parametrize.cached():
        weight = layer.weight
        assert close(ours(x), plain(x)) and layer.weight is weight
    with torch.no_grad():
        layer.parametrizations.weight.original0.mul_(2.0)
    assert close(ours(x), plain(x))


def test_a_whole_module_is_saved_and_loaded(no_fallback):
    plain, ours = pair()
    ours(image()), plain(image())
    file = io.BytesIO()
    torch.save(ours, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert same_state(loaded, plain) and close(loaded(image()), plain(image()))
    assert "region_0" in str(transfuse.report(loaded))


def test_a_model_begun_on_meta(no_fallback):
    with torch.device("meta"):
        ours = transfuse.optimize(decoder(), never_slower=False)
    ours = ours.to_empty(device="cpu")
    ours.load_state_dict(decoder().state_dict())
    assert close(ours(image()), decoder()(image()))


def test_a_vocoder_speaks_in_pieces(no_fallback):
    """Frames arrive in pieces of any length; each is synthesised with a margin around it, and the margins are cut away."""
    model, inputs = zoo.model("hifigan")
    model.eval()
    ours = transfuse.optimize(model, tuple(inputs), never_slower=False)
    mels = torch.randn(1, inputs[0].shape[1], 64)
    with torch.inference_mode():
        whole = model(mels)
        rate, margin = whole.shape[-1] // mels.shape[-1], 24
        pieces, at = [], 0
        for length in (17, 3, 44):
            left, right = max(0, at - margin), min(mels.shape[-1], at + length + margin)
            piece = ours(mels[..., left:right])
            pieces.append(piece[..., (at - left) * rate : (at - left + length) * rate])
            at += length
    assert at == mels.shape[-1]
    assert torch.allclose(torch.cat(pieces, -1), whole, rtol=1e-4, atol=1e-4)


def test_training_in_mixed_precision(no_fallback):
    """autocast to bfloat16 with a scheduler and accumulated gradients: the losses fall as PyTorch's do."""
    losses = []
    for model in pair():
        optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
        scheduler = torch.optim.lr_scheduler.StepLR(optimiser, 2, gamma=0.5)
        for _ in range(4):
            for _ in range(2):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    result = model(image())
                    loss = (result.float() - 0.3).square().mean() / 2
                loss.backward()
            optimiser.step(), optimiser.zero_grad(), scheduler.step()
        losses.append(loss.item())
        assert all(p.dtype is torch.float32 for p in model.parameters())
    assert losses[1] == pytest.approx(losses[0], rel=2e-2)


def test_replicas_of_data_parallel_are_pytorchs():
    """As nn.DataParallel makes them on every device, for one call."""
    plain, ours = pair()
    ours(image())
    fallback._said.clear()
    with pytest.warns(fallback.Warned, match="DataParallel"):
        replica = ours._replicate_for_data_parallel()
    replica._parameters, replica._modules = {}, {name: copy.deepcopy(child) for name, child in plain.named_children()}
    with torch.no_grad():
        replica[0].weight.mul_(2.0), plain[0].weight.mul_(2.0)
    assert type(replica) is nn.Sequential and close(replica(image()), plain(image()))
    assert type(ours) is not nn.Sequential and is_ours(ours)
