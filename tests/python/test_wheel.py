"""`pip install .`: the wheel is built as a user would build it, and works in an environment that knows nothing of this folder."""

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import sys, torch, transfuse
from pathlib import Path
assert Path(sys.prefix) in Path(transfuse.__file__).parents, transfuse.__file__
model = torch.nn.Sequential(torch.nn.ConvTranspose2d(3, 4, 3, 2, 1), torch.nn.ReLU()).eval()
x = torch.rand(2, 3, 5, 6)
ours = transfuse.optimize(model, (x,), require_full_compilation=True, never_slower=False)
assert torch.allclose(ours(x), model(x), atol=1e-5)
assert "transfuse" in torch._dynamo.list_backends()
assert torch.allclose(torch.compile(model, backend="transfuse")(x), model(x), atol=1e-5)
"""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.skipif(
    importlib.util.find_spec("scikit_build_core") is None,
    reason="scikit-build-core builds the wheel and is not installed",
)
# (Where pip is looked for by `find_spec`, setuptools no longer imports in this process.)
@pytest.mark.skipif(not any(importlib.metadata.distributions(name="pip")), reason="this interpreter has no pip")
@pytest.mark.skipif(
    shutil.which("ccache") is None, reason="without ccache the whole library would be compiled a second time"
)
def test_a_wheel_is_built_installed_and_used(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "TRANSFUSE_LIBRARY_DIR")}
    environment.setdefault("CXX", "c++")  # CMake's own choice: under another name ccache knows nothing of it
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    run(
        *pip,
        "wheel",
        "--no-build-isolation",
        "--no-deps",
        "--no-index",
        "-w",
        str(tmp_path),
        str(ROOT),
        env=environment,
        cwd=tmp_path,
    )
    (wheel,) = tmp_path.glob("transfuse-*.whl")
    assert "-py3-none-" in wheel.name  # one wheel for every Python

    run(sys.executable, "-m", "venv", str(tmp_path / "venv"))
    python = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv" / "lib").glob("python3*/site-packages")
    (site / "torch.pth").write_text(sysconfig.get_path("purelib") + "\n")  # PyTorch is the one of this interpreter
    run(
        str(python),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "-q",
        "install",
        "--no-deps",
        "--no-index",
        str(wheel),
        env=environment,
    )
    run(str(python), "-c", SCRIPT, env=environment, cwd=tmp_path)
    told = run(str(tmp_path / "venv" / "bin" / "transfuse"), "collect-env", env=environment, cwd=tmp_path)
    assert "transfuse" in told.lower()
