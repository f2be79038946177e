import sys
import warnings
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
torch.set_num_threads(2)


def pytest_collection_modifyitems(items):
    if not torch.cuda.is_available():
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="no CUDA device here"))


@pytest.fixture
def no_fallback():
    """Nothing may be left to PyTorch silently: its warning is an error."""
    from transfuse import fallback

    fallback._said.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error", fallback.Warned)
        yield


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
