#!/bin/sh
# compute-sanitizer's memcheck, racecheck and synccheck over small graphs that use every kind of kernel, after `make build`:
#
#     sh tests/gpu/sanitize.sh [FOLDER]
#
# Logs go to FOLDER; exit status 1 where a tool reports anything.
set -u
cd "$(dirname "$0")/../.."
logs=${1:-build/gpu}
mkdir -p "$logs"
sh tests/gpu/link.sh || exit 1
status=0
for family in fastest portable; do
    export TRANSFUSE_CUDA_FAMILY=$family
    build/gpu_check families || exit 1 # fills the kernel cache: under the tools nothing is compiled
    for tool in memcheck racecheck synccheck; do
        # Nine processes share the graphs: the tools are slow, and a graph that breaks its context costs only its own share.
        for first in 0 5 10 15 20 25 30 35 40; do
            timeout "${LIMIT:-600}" compute-sanitizer --tool $tool --error-exitcode 9 \
                build/gpu_check families alone $first $((first == 40 ? 3 : 5)) >"$logs/$tool-$family-$first.log" 2>&1 &
        done
        wait
        clean=$(grep -lE 'SUMMARY: 0 (errors|hazards)' "$logs/$tool-$family"-*.log | wc -l)
        echo "$tool, $family kernels: $clean of 9 shares clean"
        [ "$clean" = 9 ] || status=1
    done
done
exit $status
