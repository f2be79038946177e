#!/bin/sh
# versions.sh [MINOR...]: the Python tests marked "versions" on PyTorch 2.11 and every minor version after it up to the one that
# requirements.txt pins, or on those named (11 15), each in an environment of its own (.venv-2.11), which stays.
set -u
newest=$(sed -n 's/^torch==2\.\([0-9]*\)\..*/\1/p' requirements.txt)
status=0
closing=""
out=$(mktemp)
trap 'rm -f "$out" "$out.rc"' EXIT
for minor in ${*:-$(seq 11 "$newest")}; do
    python=$PWD/.venv-2.$minor/bin/python
    tools/venv.sh yes "$python" "2.$minor" || exit 1
    echo "PyTorch 2.$minor"
    { "$python" -m pytest -q -n "$JOBS" -m versions tests/python 2>&1; echo $? >"$out.rc"; } | tee "$out"
    [ "$(cat "$out.rc")" = 0 ] || status=1
    closing="$closing
PyTorch 2.$minor: $(grep -E '(passed|failed|error|no tests ran).* in [0-9]' "$out" | tail -n 1)"
done
echo "$closing"
exit $status
