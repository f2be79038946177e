#!/bin/sh
# Builds tests/gpu/check with nothing but a C++ compiler, all files at once: for GPU machines without CMake or GoogleTest.
set -e
cd "$(dirname "$0")/../.."
out=${1:-build/gpu}
mkdir -p "$out"
# The CPU engine, the faces and the command are not needed.
files="$(find src/graph src/algebra src/plan src/reference src/cuda -name '*.cpp') tests/gpu/check.cpp"
echo "$files" | tr ' ' '\n' | xargs -P "$(nproc)" -I{} sh -c '
    o='"$out"'/$(echo {} | tr / _).o
    if [ ! -f "$o" ] || [ {} -nt "$o" ]; then c++ -std=c++20 -O2 -w -Iinclude -Isrc -Itests -c {} -o "$o"; fi'
c++ "$out"/*.o -ldl -lpthread -Wl,--unresolved-symbols=ignore-all -o "$out/check"
