#!/bin/sh
# Builds build/gpu_check against the library of `make build`.
set -e
cd "$(dirname "$0")/../.."
[ build/gpu_check -nt build/lib/libtransfuse.so ] && [ -z "$(find tests -name '*.h' -newer build/gpu_check -o -name check.cpp -newer build/gpu_check)" ] && exit 0
c++ -std=c++20 -O2 -w -Iinclude -Isrc -Itests tests/gpu/check.cpp -Lbuild/lib -ltransfuse -Wl,-rpath,"$PWD/build/lib" -lpthread -o build/gpu_check
