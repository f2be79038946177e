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
        timeout "${LIMIT:-600}" compute-sanitizer --tool $tool --error-exitcode 9 build/gpu_check families alone >"$logs/$tool-$family.log" 2>&1 || status=1
        echo "$tool, $family kernels: $(grep -E 'SUMMARY' "$logs/$tool-$family.log" | tail -n 1)"
    done
done
exit $status
