#!/bin/sh
# Everything that needs a GPU, side by side, after `make build`:
#
#     sh tests/gpu/all.sh PYTHON FOLDER
#
# GRAPHS (300) random graphs of two kinds each, a third as many on the portable kernels and of gradients, in every precision, layout and alignment; the graphs of tests/gpu/rows;
# the Python tests; the rows at full size in the precisions of PRECISIONS. Nothing here is timed. Logs go to FOLDER; exit status 1
# where anything is wrong.
set -u
cd "$(dirname "$0")/../.."
python=${1:-python3}
logs=${2:-build/gpu}
graphs=${GRAPHS:-300}
limit=${LIMIT:-600}
mkdir -p "$logs"
export PYTHONPATH="$PWD/python${PYTHONPATH:+:$PYTHONPATH}"
status=0

sh tests/gpu/link.sh || exit 1

spread=""
"$python" -c 'import xdist' 2>/dev/null && spread="-n ${JOBS:-8} --maxschedchunk=1"
timeout "$limit" "$python" -m pytest -v --tb=short --durations=15 -p no:cacheprovider $spread -m gpu tests/python/test_cuda.py tests/python/test_hooks.py tests/python/test_infinite.py tests/python/test_saved.py >"$logs/pytest.log" 2>&1 &
tests=$!
timeout "$limit" "$python" -m transfuse bench --rows rows --peers channels_last --precision "${PRECISIONS:-tf32,fp32,fp16,bf16}" \
    --parallel 11 --forced --rounds 2 --seconds 0.02 --no-launches --no-details --row-limit 60 --time-limit "$limit" \
    --json "$logs/rows.json" >"$logs/rows.log" 2>&1 &
rows=$!
{
    code=0
    for file in tests/gpu/rows/*_small.tf; do
        for words in "" "last" "tf32"; do timeout 60 build/gpu_check file "$file" $words || code=1; done
    done
    timeout "$limit" build/gpu_check rows || code=1
    timeout "$limit" build/gpu_check random 1 "$graphs" || code=1
    timeout "$limit" build/gpu_check random 1000000 "$graphs" || code=1
    TRANSFUSE_CUDA_FAMILY=portable timeout "$limit" build/gpu_check random 20001 $((graphs / 3)) || code=1
    timeout "$limit" build/gpu_check gradient 1 $((graphs / 3)) || code=1
    exit $code
} >"$logs/random.log" 2>&1 &
random=$!
wait $tests || status=1
wait $rows || status=1
wait $random || status=1
grep -E '^(case|WRONG|right|FAILED|rows:|random:|gradient:)' "$logs/random.log"
grep -E '^(FAILED|ERROR)|passed|failed' "$logs/pytest.log" | cut -c1-220 | tail -n 60
grep -E 'wrong|failed|error|limit' "$logs/rows.log" | cut -c1-260 | tail -n 60
exit $status
