#!/bin/sh
# test.sh PYTHON [long]: CTest, then pytest; the closing lines of both come last, and either's failure is ours. long: all cases of
# every sweep, all seeds and architectures, and each fuzz target for minutes.
set -u
python=$1
chosen="not long"
patience=600 # seconds for a C++ test
if [ "${2:-}" = long ]; then
    chosen=
    patience=3600
    export TRANSFUSE_TESTS=long TRANSFUSE_FUZZ_SECONDS="${TRANSFUSE_FUZZ_SECONDS:-300}"
fi
status=0
closing=""
out=$(mktemp)
trap 'rm -f "$out"' EXIT

if [ -e "$BUILD/CTestTestfile.cmake" ]; then
    { ctest --test-dir "$BUILD" --output-on-failure --timeout "$patience" -j "$JOBS" 2>&1; echo $? >"$out.rc"; } | tee "$out"
    [ "$(cat "$out.rc")" = 0 ] || status=1
    closing=$(grep -E '^[0-9]+% tests passed|^No tests were found' "$out")
else
    closing="C++ tests: not built here."
fi

if ! ls tests/python/test_*.py >/dev/null 2>&1; then
    closing="$closing
Python tests: none."
elif ! "$python" -c 'import torch, pytest, hypothesis' 2>/dev/null; then
    closing="$closing
Python tests: left out, $python lacks torch, pytest or hypothesis."
else
    spread=""
    "$python" -c 'import xdist' 2>/dev/null && spread="-n $JOBS"
    { "$python" -m pytest -q -m "$chosen" $spread tests/python 2>&1; echo $? >"$out.rc"; } | tee "$out"
    [ "$(cat "$out.rc")" = 0 ] || status=1
    closing="$closing
$(grep -E '(passed|failed|error|no tests ran).* in [0-9]' "$out" | tail -n 1)"
fi
rm -f "$out.rc"
echo
echo "$closing"
exit $status
