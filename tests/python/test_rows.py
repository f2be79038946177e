"""Every row and the whole models: through optimize and through torch.compile, forward and gradients, train and eval."""

import copy

import pytest
import torch
import zoo

import transfuse

MODES = ("train", "eval")
# Gradients through a norm whose result is centred again cancel; ours are differentiated after folding and lose a few more bits.
# f9's is the gradient of one scalar, a sum of terms that nearly cancel: three draws do not average its luck away.
SLACK = {"f5": 8.0, "f9": 4.0, "f10": 2.0, "unet": 2.0, "nnunet": 2.0, "dcgan": 2.0}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [*zoo.ROWS, *zoo.WHOLE])
def test_optimize_forward(name, mode, no_fallback):
    model, inputs = zoo.model(name)
    model.train(mode == "train")
    ours = transfuse.optimize(copy.deepcopy(model), tuple(inputs), never_slower=False)
    zoo.assert_as_good_as_pytorch(ours, model, inputs)
    told = transfuse.report(ours)
    assert told.left == 0, str(told)


@pytest.mark.parametrize("name", [*zoo.ROWS, *zoo.WHOLE])
def test_optimize_gradients(name, no_fallback):
    model, inputs = zoo.model(name)
    ours = transfuse.optimize(copy.deepcopy(model), tuple(inputs), never_slower=False)
    zoo.assert_as_good_as_pytorch(ours, model, inputs, run=zoo.outputs_and_gradients, slack=SLACK.get(name, 1.0))


@pytest.mark.parametrize("name", ["C", "f5", "f10", "dcgan", "unet"])
def test_optimize_gradients_in_eval(name, no_fallback):
    model, inputs = zoo.model(name)
    model.eval()
    ours = transfuse.optimize(copy.deepcopy(model), tuple(inputs), never_slower=False)
    zoo.assert_as_good_as_pytorch(ours, model, inputs, run=zoo.outputs_and_gradients, slack=SLACK.get(name, 1.0))


@pytest.mark.parametrize("name", [*zoo.ROWS, *zoo.WHOLE])
def test_compile_backend(name, no_fallback):
    model, inputs = zoo.model(name)
    torch._dynamo.reset()
    mine = copy.deepcopy(model)
    ours = torch.compile(mine, backend="transfuse", options={"never_slower": False})
    zoo.assert_as_good_as_pytorch(ours, model, inputs, run=zoo.outputs_and_gradients, slack=SLACK.get(name, 1.0))
