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
        # Eight processes share the graphs: the tools are slow, and a graph that breaks its context costs only its own share.
        for first in 0 4 8 12 16 20 24 28; do
            timeout "${LIMIT:-600}" compute-sanitizer --tool $tool --error-exitcode 9 \
                build/gpu_check families alone $first $((first == 28 ? 1 : 4)) >"$logs/$tool-$family-$first.log" 2>&1 &
        done
        wait
        clean=$(grep -lE 'SUMMARY: 0 (errors|hazards)' "$logs/$tool-$family"-*.log | wc -l)
        echo "$tool, $family kernels: $clean of 8 shares clean"
        [ "$clean" = 8 ] || status=1
    done
done
exit $status
