#!/bin/sh
# compute-sanitizer's memcheck, racecheck and synccheck over small graphs that use every kind of kernel, after `make build`:
#
#     sh tests/gpu/sanitize.sh [FOLDER]
#
# JOBS (14) graphs at a time, each in a process of its own that has LIMIT (60) seconds; FAMILIES (fastest portable): whose kernels. Logs go to FOLDER; exit status 1 where
# a tool reports anything, or a graph does not end.
set -u
cd "$(dirname "$0")/../.."
logs=${1:-build/gpu}
mkdir -p "$logs"
sh tests/gpu/link.sh || exit 1
status=0
for family in ${FAMILIES:-fastest portable}; do
    export TRANSFUSE_CUDA_FAMILY=$family
    build/gpu_check families >"$logs/families-$family.log" || status=1 # fills the kernel cache: under the tools nothing is compiled
    tail -n 1 "$logs/families-$family.log"
    count=$(sed -n 's/^families: .* of \([0-9]*\) graphs.*/\1/p' "$logs/families-$family.log")
    for tool in racecheck memcheck synccheck; do
        # Reads beside a tensor are seen where only the tool lays bands around it.
        alone=""
        [ $tool = memcheck ] && alone="--padding 4096"
        seq 0 $((count - 1)) | xargs -P "${JOBS:-14}" -I N sh -c \
            "TRANSFUSE_BANDS=${alone:+0} timeout -k 2 ${LIMIT:-60} compute-sanitizer --tool $tool $alone build/gpu_check run families N 1 >'$logs/$tool-$family-N.log' 2>&1"
        clean=$(grep -lE 'SUMMARY: 0 (errors|hazards)' "$logs/$tool-$family"-*.log | wc -l)
        echo "$tool, $family kernels: $clean of $count graphs clean"
        for log in $(grep -LE 'SUMMARY: 0 (errors|hazards)' "$logs/$tool-$family"-*.log); do
            echo "    $(basename "$log" .log): $(grep -m 1 -E '^[0-9]+ ' "$log" || echo 'did not end'), $(grep -m 1 -E 'Error|Warning' "$log")"
        done
        [ "$clean" = "$count" ] || status=1
    done
done
exit $status
