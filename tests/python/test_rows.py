"""Every row and the whole models: through optimize and through torch.compile, forward and gradients, train and eval."""

import copy

import pytest
import torch
import zoo

import transfuse

MODES = ("train", "eval")


@pytest.mark.sweep(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [*zoo.ROWS, *zoo.WHOLE])
def test_optimize_forward(name, mode, no_fallback):
    model, inputs = zoo.model(name)
    model.train(mode == "train")
    ours = transfuse.optimize(copy.deepcopy(model), tuple(inputs), never_slower=False)
    zoo.assert_as_good_as_pytorch(ours, model, inputs)
    told = transfuse.report(ours)
    assert told.left == 0, str(told)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", [*zoo.ROWS, *zoo.WHOLE])
def test_optimize_gradients(name, no_fallback):
    model, inputs = zoo.model(name)
    ours = transfuse.optimize(copy.deepcopy(model), tuple(inputs), never_slower=False)
    zoo.assert_as_good_as_pytorch(ours, model, inputs, run=zoo.outputs_and_gradients)


@pytest.mark.parametrize("name", ["C", "f5", "f10", "dcgan", "unet"])
def test_optimize_gradients_in_eval(name, no_fallback):
    model, inputs = zoo.model(name)
    model.eval()
    ours = transfuse.optimize(copy.deepcopy(model), tuple(inputs), never_slower=False)
    zoo.assert_as_good_as_pytorch(ours, model, inputs, run=zoo.outputs_and_gradients)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", [*zoo.ROWS, *zoo.WHOLE])
def test_compile_backend(name, no_fallback):
    model, inputs = zoo.model(name)
    torch._dynamo.reset()
    mine = copy.deepcopy(model)
    ours = torch.compile(mine, backend="transfuse", options={"rest": "eager", "never_slower": False})
    zoo.assert_as_good_as_pytorch(ours, model, inputs, run=zoo.outputs_and_gradients)


@pytest.mark.parametrize(("before", "after"), [(3, 16), (8, 16), (16, 32)])
def test_sums_of_few_terms_are_as_exact(before, after, no_fallback):
    """PyTorch adds over channels, then over taps: short sums. A single chain of as many terms as there are is worse."""
    model = torch.nn.ConvTranspose3d(before, after, 3, stride=2, padding=1, output_padding=1)
    ours = transfuse.optimize(copy.deepcopy(model), never_slower=False)
    zoo.assert_as_good_as_pytorch(ours, model, [torch.rand(2, before, 5, 6, 7)])


@pytest.mark.parametrize(
    ("channels", "kernel"),
    [(8, 3), (16, 3), (32, 3), (32, 5), (64, 3), (16, (3, 3, 3)), (48, (2, 2, 2)), (48, (3, 3, 3))],
)
def test_rows_in_pairs_are_as_exact(channels, kernel, no_fallback):
    """Sums and differences of rows stand for rows on the CPU: their rounding is made up for by shorter sums."""
    layer = torch.nn.ConvTranspose2d if isinstance(kernel, int) else torch.nn.ConvTranspose3d
    model = layer(channels, channels, kernel, bias=False)
    ours = transfuse.optimize(copy.deepcopy(model), never_slower=False)
    zoo.assert_as_good_as_pytorch(
        ours, model, [torch.rand(1, channels, *([40, 40] if isinstance(kernel, int) else [12, 12, 12]))]
    )
