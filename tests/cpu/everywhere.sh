#!/bin/sh
# everywhere.sh [asan] [tsan] [x86_64] [aarch64]: the CPU engine's tests under AddressSanitizer with UndefinedBehaviorSanitizer, under
# ThreadSanitizer, and as x86-64 code in an emulator (packages g++-x86-64-linux-gnu, qemu-user) at the levels that Debian 12's emulator
# has, which are those without AVX-512, or as aarch64 code (g++-aarch64-linux-gnu) with NEON and with SVE of 256 bits. Only the rooms that the CPU engine needs are built. Without arguments: the first three.
set -eu
cd "$(dirname "$0")/../.."
tests="cpu_math_test cpu_edges_test cpu_lines_test cpu_pairs_test cpu_rows_test cpu_random_test cpu_gradient_test cpu_unwritten_test"
[ $# -gt 0 ] || set -- asan tsan x86_64

run() {  # run PRESET: every test, one after another; the first that fails ends the script
    ctest --preset "$1" -R '^cpu_' --no-tests=error
}

for preset in "$@"; do
    echo "== $preset"
    cmake --preset "$preset" "-DTRANSFUSE_ROOMS=graph;algebra;plan;reference;cpu" >/dev/null
    cmake --build --preset "$preset" --parallel "${JOBS:-$(nproc)}" --target $tests
    case $preset in
    tsan) GTEST_FILTER="-CpuEdges.RepeatedRowsStandForHugeTensors:CpuEdges.OffsetsBeyondTwoToThe31" run tsan ;; # minutes each
    x86_64)
        export GTEST_FILTER="-CpuEdges.RepeatedRowsStandForHugeTensors" # billions of emulated additions
        for level in x86_64_v3 x86_64_v2; do
            echo "-- level $level"
            TRANSFUSE_CPU_LEVEL=$level run x86_64
        done
        ;;
    aarch64)
        export GTEST_FILTER="-CpuEdges.RepeatedRowsStandForHugeTensors"
        for level in neon sve256; do
            echo "-- level $level"
            TRANSFUSE_CPU_LEVEL=$level run aarch64
        done
        ;;
    *) run "$preset" ;;
    esac
done
