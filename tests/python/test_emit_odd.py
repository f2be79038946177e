"""Models with habits of their own: what a file makes of them is what they compute, or it says why not."""

import copy
import warnings

import pytest
import torch
from emitted import namespace

from transfuse import emit
from transfuse.problem import ProblemError

HEAD = """
import torch, torch.nn as nn
from torch.nn.utils.parametrizations import weight_norm
class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.relu(x)
    @staticmethod
    def backward(ctx, g):
        return 3 * g
class Model(nn.Module):
    def __init__(self, channels=8, *, gain=1.0, widths=(4, 8)):
        super().__init__()
        self.gain, self.first = gain, nn.Conv2d(widths[0], channels, 3, padding=1)
        self.up, self.norm = nn.ConvTranspose2d(channels, channels, 2, 2), nn.BatchNorm2d(channels)
"""
TAIL = """
def get_inputs(): return [torch.rand(2, 4, 8, 8)]
def get_init_inputs(): return {"channels": 8, "gain": 1.5}
"""
PLAIN = """
    def forward(self, x):
        return self.gain * torch.tanh(self.norm(self.up(self.first(x))))
"""
CASES = {
    "arguments by name": PLAIN,
    "one weight twice": """
        self.again = nn.ConvTranspose2d(channels, channels, 2, 2)
        self.again.weight = self.up.weight
        self.register_buffer("shift", torch.rand(8, 1, 1), persistent=False)
        self.register_buffer("count", torch.tensor(3))
    def forward(self, x):
        y = self.up(self.first(x)) + self.shift
        return torch.relu(self.norm(y)), self.again(y).mean((2, 3)) * self.count
""",
    "a weight that is computed": """
        self.up = weight_norm(self.up)
    def forward(self, x):
        return torch.tanh(self.norm(self.up(self.first(x))))
""",
    "hooks of the constructor": """
        self.up = torch.nn.utils.weight_norm(self.up)
    def forward(self, x):
        return torch.tanh(self.norm(self.up(self.first(x))))
""",
    "without gradients": """
    @torch.no_grad()
    def forward(self, x):
        return torch.tanh(self.norm(self.up(self.first(x))))
""",
    "random numbers": """
    def forward(self, x):
        return nn.functional.dropout(torch.tanh(self.norm(self.up(self.first(x)))), 0.5, self.training)
""",
    "a number in a tensor": """
    def forward(self, x):
        return torch.min(self.norm(self.up(self.first(x))), torch.tensor(0.5))
""",
    "nothing, and a number": """
    def forward(self, x, skip=None, *, scale: float = 2.0):
        y = torch.tanh(self.norm(self.up(self.first(x))))
        return [None, y if skip is None else y + skip, {"scale": scale}]
""",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A case's reference and its file, in whose place of kernels PyTorch's operators stand."""
    folder, known = tmp_path_factory.mktemp("odd"), {}

    def make(case: str, text: str) -> tuple[dict, dict]:
        if case not in known:
            (folder / "problem.py").write_text(HEAD + text + TAIL)
            known[case] = emit.emit(folder / "problem.py", emit.Request(precisions=("tf32",), gradients=False)).text
        ours = namespace(known[case])
        ours["elsewhere"] = lambda device: None
        called = ours["called"] = []
        ours["compute"] = lambda name, leaves, sizes=(): called.append(name) or ours["REGIONS"][name][0](
            *leaves, *sizes
        )
        return namespace(HEAD + text + TAIL), ours

    return make


def both(theirs: dict, ours: dict, training: bool) -> list:
    models = []
    for cls in (theirs["Model"], ours["ModelNew"]):
        torch.manual_seed(1)
        models.append(cls(**theirs["get_init_inputs"]()).train(training))
    assert list(models[0].state_dict()) == list(models[1].state_dict())
    torch.testing.assert_close(dict(models[1].state_dict()), dict(models[0].state_dict()), rtol=0, atol=0)
    return models


def computed(model, x) -> list:
    torch.manual_seed(2)
    x = x.clone().requires_grad_()
    results = model(x)
    found = [results, *model.buffers()]
    total = sum(
        t.square().sum() for t in torch.utils._pytree.tree_leaves(results) if torch.is_tensor(t) and t.requires_grad
    )
    if torch.is_tensor(total):
        found += torch.autograd.grad(total, [x, *model.parameters()], allow_unused=True)
    return found


def alike(found, expected) -> bool:
    if torch.is_tensor(expected):
        return torch.allclose(found, expected, rtol=1e-4, atol=1e-5) and found.requires_grad == expected.requires_grad
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(map(alike, found, expected))
    return found == expected


@pytest.mark.parametrize("case", CASES)
def test_it_computes_what_the_reference_does(made, case):
    theirs, ours = made(case, CASES[case])
    for training in (True, False):
        reference, model = both(theirs, ours, training)
        x = torch.rand(2, 4, 8, 8)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = computed(model, x)
        assert ours["called"], "by its regions"
        ours["called"].clear()
        assert alike(found, computed(reference, x))
        for owner in (reference, model):
            owner.double()
        with pytest.warns(ours["Left"], match="is none of the sizes and dtypes"):
            found = computed(model, x.double())
        assert not ours["called"] and alike(found, computed(reference, x.double()))
        ours["_left"].clear()


def test_parts_in_another_mode_and_hooks_are_seen(made):
    theirs, ours = made("arguments by name", PLAIN)
    reference, model = both(theirs, ours, True)
    x = torch.rand(2, 4, 8, 8)
    for change in (
        lambda m: m.norm.eval(),
        lambda m: m.up.register_forward_hook(lambda part, given, result: 2 * result),
        lambda m: m.first.register_full_backward_hook(lambda part, of_inputs, of_results: (5 * of_inputs[0],)),
    ):
        ours["_left"].clear()
        pair = copy.deepcopy(reference), copy.deepcopy(model)
        for owner in pair:
            change(owner)
        with pytest.warns(ours["Left"], match="a mode of its own, or a hook"):
            found = computed(pair[1], x)
        assert not ours["called"] and alike(found, computed(pair[0], x))


def test_a_gradient_of_its_own_is_pytorchs(made):
    theirs, ours = made(
        "own", PLAIN.replace("self.norm(self.up(self.first(x)))", "Round.apply(self.norm(self.up(self.first(x))))")
    )
    reference, model = both(theirs, ours, True)
    x = torch.rand(2, 4, 8, 8)
    with pytest.warns(ours["Left"], match="a gradient of its own"):
        found = computed(model, x)
    assert not ours["called"] and alike(found, computed(reference, x))
    with torch.no_grad():
        assert alike(model(x), reference(x)) and ours["called"]


REFUSED = {
    "return self.up(x) if torch.is_grad_enabled() else self.up(x).relu()": "asks whether gradients are wanted",
    "return self.up(x).relu() if x.requires_grad else self.up(x)": "asks whether gradients are wanted",
    "self.gain = 2.0\n        return self.up(x)": "changes attributes of the module",
    "return self.up(x) if x.sum() > 0 else x": "depends on the values of a tensor",
    "return torch.Size([1]), torch.return_types.max(torch.max(self.up(x), 1))": "a file can return",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_a_file_cannot_hold_gets_a_sentence(line, tmp_path):
    text = HEAD.replace("nn.ConvTranspose2d(channels", "nn.ConvTranspose2d(4")
    (tmp_path / "problem.py").write_text(f"{text}\n    def forward(self, x):\n        {line}\n{TAIL}")
    with pytest.raises(ProblemError, match=REFUSED[line]):
        emit.emit(tmp_path / "problem.py")
