#!/bin/sh
# venv.sh yes|no PYTHON [TORCH]: makes the environment that PYTHON lies in (.venv/bin/python) with the packages of requirements.txt, and
# this PyTorch (2.12: its newest patch) instead of the pinned one (yes), or checks the given interpreter (no).
# A stamp named by the hash of what was asked for says that the environment holds exactly these.
set -eu
install=$1
python=$2
torch=${3:-}

if [ "$install" = no ]; then
    command -v "$python" >/dev/null 2>&1 || { echo "PYTHON=$python: there is no such interpreter." >&2; exit 1; }
    "$python" -c 'import torch' 2>/dev/null || echo "$python has no PyTorch: only the C++ parts are built and tested."
    exit 0
fi

folder=${python%/bin/*}  # of the environment
wanted=$(cat requirements.txt)
[ -z "$torch" ] || wanted=$(echo "$wanted" | sed "s/^torch==.*/torch==$torch.*/")
stamp=$folder/requirements-$(echo "$wanted" | sha256sum | cut -c1-16)
[ -e "$stamp" ] && exit 0
[ -x "$python" ] || python3 -m venv "$folder" || { echo "python3 could not make $folder (Debian package python3-venv)." >&2; exit 1; }
echo "Installing the Python packages of requirements.txt into $folder (PyTorch${torch:+ $torch}: about 5 GB with its CUDA libraries)"
log=$folder/install.log
echo "$wanted" >"$folder/requirements.txt"
if ! "$python" -m pip install -q --disable-pip-version-check -r "$folder/requirements.txt" >"$log" 2>&1; then
    echo "pip could not install requirements.txt (network? disk? all that it said is in $log); with PYTHON=<an interpreter that has PyTorch> nothing is installed." >&2
    exit 1
fi
rm -f "$log" "$folder"/requirements-*
touch "$stamp"
