#!/bin/sh
# demo.sh PYTHON: the four seed models.
set -eu
python=$1
if "$python" -c 'import transfuse' 2>/dev/null; then
    exec "$python" -m transfuse demo
fi
for model in examples/*.tf; do
    transfuse explain "$model"
    transfuse check "$model"
done
