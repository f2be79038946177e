#!/bin/sh
# demo.sh PYTHON: the four seed models through PyTorch, or, where the interpreter has none, as text graphs through the C++ command.
set -eu
python=$1
if "$python" -c 'import torch' 2>/dev/null && [ -e python/transfuse/__init__.py ]; then
    exec "$python" -m transfuse.bench.demo
fi
for model in examples/seed_*.tf; do
    transfuse explain "$model"
    transfuse check "$model"
done
