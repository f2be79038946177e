#!/bin/sh
# venv.sh yes|no PYTHON: makes .venv with the packages of requirements.txt (yes), or checks the given interpreter (no).
# A stamp named by the hash of requirements.txt says that .venv holds exactly these.
set -eu
install=$1
python=$2

if [ "$install" = no ]; then
    command -v "$python" >/dev/null 2>&1 || { echo "PYTHON=$python: there is no such interpreter." >&2; exit 1; }
    "$python" -c 'import torch' 2>/dev/null || echo "$python has no PyTorch: only the C++ parts are built and tested."
    exit 0
fi

stamp=.venv/requirements-$(sha256sum requirements.txt | cut -c1-16)
[ -e "$stamp" ] && exit 0
[ -x "$python" ] || python3 -m venv .venv || { echo "python3 could not make .venv (Debian package python3-venv)." >&2; exit 1; }
echo "Installing the Python packages of requirements.txt into .venv (PyTorch: about 4.5 GB with its CUDA libraries)"
log=.venv/install.log
if ! "$python" -m pip install -q --disable-pip-version-check -r requirements.txt >"$log" 2>&1; then
    echo "pip could not install requirements.txt (network? disk? all that it said is in $log); with PYTHON=<an interpreter that has PyTorch> nothing is installed." >&2
    exit 1
fi
rm -f "$log" .venv/requirements-*
touch "$stamp"
