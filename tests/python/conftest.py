import faulthandler
import shlex
import sys
import warnings
from collections import Counter
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
torch.set_num_threads(2)


GPU_SECONDS = 120  # for one test, its kernels compiled: a kernel that hangs is not waited for


@pytest.hookimpl(tryfirst=True)  # before what is marked is left out
def pytest_collection_modifyitems(items):
    # Where time is short the first tests are the ones to have: the common layout, then the other, then what takes long.
    items.sort(key=lambda item: (item.get_closest_marker("slow") is not None, "channels_last" in item.name))
    met = Counter()
    for item in items:
        if sweep := item.get_closest_marker("sweep"):
            if met[item.function] % sweep.args[0]:
                item.add_marker(pytest.mark.long)
            met[item.function] += 1
    if not torch.cuda.is_available():
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="no CUDA device here"))


_allclose = torch.allclose
_difference = ""  # of the last tensors that were compared and differ


def _noted_allclose(found, expected, rtol=1e-5, atol=1e-8, equal_nan=False):
    global _difference
    alike = _allclose(found, expected, rtol, atol, equal_nan)
    if not alike:
        found, expected = torch.broadcast_tensors(found.detach(), expected.detach())
        beyond = (found - expected).abs() - atol - rtol * expected.abs()
        beyond = torch.where(found == expected, -torch.inf, torch.nan_to_num(beyond, torch.inf, torch.inf))
        place = [int(i) for i in torch.unravel_index(beyond.argmax(), beyond.shape)]
        _difference = (
            f"{int((beyond > 0).sum())} of {beyond.numel()} elements; most at {place}: "
            f"got {found[tuple(place)].item()}, expected {expected[tuple(place)].item()}"
        )
    return alike


torch.allclose = _noted_allclose


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    global _difference
    outcome = yield
    report = outcome.get_result()
    if call.when == "setup":
        _difference = ""
    if report.failed:
        if _difference:
            report.sections.append(("the last difference", _difference))
        command = f"PYTHONPATH=python {sys.executable} -m pytest {shlex.quote(item.nodeid)}"
        report.sections.append(("to run it alone", command))


@pytest.fixture
def no_fallback():
    """Nothing may be left to PyTorch silently: its warning is an error."""
    from transfuse import fallback

    fallback._said.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error", fallback.Warned)
        yield


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    """Where a test's models and tensors lie. On CUDA both sides multiply in full fp32."""
    if request.param == "cpu":
        yield "cpu"
    else:  # (PyTorch's own test utilities forbid setting the switch itself, once somebody has imported them.)
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            yield "cuda"


@pytest.fixture
def pair():
    """A model, its optimised twin and an input."""
    from decoder import Decoder, optimized

    model = Decoder()
    x = torch.randn(2, 3, 5, 6)
    return model, optimized(model, (x,)), x


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def limited(request):
    """No signal reaches a thread that waits for a GPU: where a test takes too long its process says where, and ends."""
    on_gpu = request.node.get_closest_marker("gpu") is not None
    if on_gpu:
        faulthandler.dump_traceback_later(GPU_SECONDS, exit=True)
    yield
    if on_gpu:
        faulthandler.cancel_dump_traceback_later()
