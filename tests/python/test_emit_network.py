"""Files of whole networks: several regions, each with many kernels, launched one behind another."""

import copy
import re
import weakref

import pytest
import torch

from emitted import device_part, namespace
from test_emit import FORBIDDEN, names_from_elsewhere, plain
from transfuse import emit, library
from transfuse.emit.compiler import refused

NETWORK = """
import torch, torch.nn as nn
class Up(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.up = nn.ConvTranspose2d(inner, outer, 4, 2, 1)
        self.norm = nn.BatchNorm2d(outer)
        self.mix = nn.Conv2d(outer, outer, 3, padding=1)
    def forward(self, x):
        x = torch.relu(self.norm(self.up(x)))
        return x + torch.relu(self.mix(x))
class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = Up(width, width // 2), Up(width // 2, width // 4)
        self.smooth = nn.Upsample(scale_factor=2, mode="bilinear")
        self.last = nn.ConvTranspose2d(width // 4, 16, 4, 2, 1)
    def forward(self, x):
        return torch.tanh(self.last(self.smooth(self.second(self.first(x)))))
width = 64
def get_inputs(): return [torch.rand(8, width, 32, 32)]
def get_init_inputs(): return [width]
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("network") / "problem.py"
    path.write_text(NETWORK)
    return emit.emit(path)


def test_a_network_is_one_file_of_its_own(network):
    assert names_from_elsewhere(network) == set()
    for what, pattern in FORBIDDEN.items():
        assert not re.search(pattern, plain(network)), what


def test_regions_run_in_order_at_sizes_that_only_the_call_tells(network):
    for mode in ("train", "eval"):
        regions = re.findall(rf'extern "C" long long ({mode}_\d)\((.*?)\n}}', network, re.S)
        assert [name for name, _ in regions] == [f"{mode}_0", f"{mode}_1"]
        assert all("batch = size[0], height = size[1], width = size[2]" in body for _, body in regions)
        assert regions[0][1].count("launch(") > 4
    assert not re.search(
        r"(?:batch|height|width) != \d", regions[0][1] + regions[1][1]
    )  # no size is the example's alone
    written = re.findall(r"^__global__ void __launch_bounds__\([^)]*\) (\w+)\(", network, re.M)
    launched = re.findall(r"\blaunch\((\w+),", network)
    assert len(written) == len(set(written)) < len(launched)  # what is equal stands once
    assert set(launched) == set(written)
    # Cut up by nvcc before its optimiser, kernels with statistics keep arrays in local memory.
    assert "-Xptxas=--split-compile=0" in network and '"--split-compile' not in network


def test_the_compiler_takes_the_kernels_of_a_network(network):
    if library.nvrtc_unavailable() is not None:
        pytest.skip("no NVRTC here")
    device = device_part(namespace(network)["SOURCE"])
    assert refused(device, "-DSTORED=float") is None
    assert refused(device + "\nint wrong = ;\n", "-DSTORED=float") is not None


@pytest.mark.parametrize("training", (True, False))
def test_a_network_computes_what_its_model_does(network, training):
    """Its regions as written, which stand for the kernels here, between the operators that are left to PyTorch."""
    theirs, ours = namespace(NETWORK), namespace(network)
    torch.manual_seed(3)
    reference = theirs["Model"](64).train(training)
    torch.manual_seed(3)
    model = ours["ModelNew"](64).train(training)
    mine, state = model.state_dict(), reference.state_dict()
    assert list(mine) == list(state) and all(torch.equal(mine[k], state[k]) for k in state)
    with pytest.raises(RuntimeError, match="written for CUDA tensors, got one on cpu"):
        model(torch.rand(1, 64, 4, 4))
    written = {name: next(filter(callable, told[2:])) for name, told in ours["PROGRAMS"].items()}
    ours["run"] = lambda name, *leaves: written[name](torch.ops.aten.convolution, *leaves)
    x = torch.rand(3, 64, 6, 10)
    with torch.no_grad():
        torch.testing.assert_close(model(x), reference(x))
    for name, value in reference.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value)


def test_layers_that_were_replaced_or_parametrized_are_found(network):
    """Parameters are looked up by name once; what has changed since is seen."""
    theirs, ours = namespace(NETWORK), namespace(network)
    written = {name: next(filter(callable, told[2:])) for name, told in ours["PROGRAMS"].items()}
    ours["run"] = lambda name, *leaves: written[name](torch.ops.aten.convolution, *leaves)
    reference, model = theirs["Model"](64).eval(), ours["ModelNew"](64).eval()
    model.load_state_dict(reference.state_dict())
    x = torch.rand(2, 64, 4, 6)

    def same():
        with torch.no_grad():
            torch.testing.assert_close(model(x), reference(x))

    same()
    for owner in (model, reference):
        torch.manual_seed(5)
        owner.second.mix = torch.nn.Conv2d(16, 16, 3, padding=1)
        owner.last.weight = torch.nn.Parameter(torch.rand(16, 16, 4, 4))
    same()
    for owner in (model, reference):
        torch.nn.utils.parametrizations.weight_norm(owner.first.mix)
    same()
    copied = copy.deepcopy(model)
    with torch.no_grad():
        copied.last.bias += 1
        assert not torch.equal(copied(x), model(x))
    same()
    gone = weakref.ref(copied)
    del copied
    assert gone() is None


def test_at_the_examples_sizes_a_network_has_the_kernels_of_optimize(network):
    programs = dict(re.findall(r'extern "C" long long (\w+_\d)\((.*?)\n}', network, re.S))
    assert len(programs) == 4
    alone = programs.pop("train_0")  # its statistics have no formula of the sizes
    assert set(re.findall(r"launch\((train_0_\w+?_)", alone)) == {"train_0_example_"}
    several = [body for body in programs.values() if "_example_" in body]  # others are optimize's at all sizes
    assert several
    for body in several:
        (when, here), (where, anywhere) = re.findall(r"    if \((arch == 90 [^{]*)\) \{\n(.*?)\n    \}", body, re.S)
        assert re.match(r"arch == 90 && batch == 8 && height == (\d+) && width == \1 && aligned", when)
        assert re.search(r"launch\(\w+_example_", here) and not re.search(r"\b(?:batch|height|width)\b", here)
        assert "batch ==" not in where and re.search(r"\bbatch\b", anywhere)
