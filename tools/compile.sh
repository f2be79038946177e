#!/bin/sh
# compile.sh all|demo: builds everything, or what the demo and the benchmarks need (no tests).
set -eu
exec cmake --build "$BUILD" --parallel "$JOBS" --target "$1"
