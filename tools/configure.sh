#!/bin/sh
# configure.sh PYTHON [cmake flags]: runs CMake once per interpreter and flags; later changes of CMakeLists are the build's own affair.
set -eu
python=$(command -v "$1")
shift
mkdir -p "$BUILD"
stamp="$BUILD/configured-$(echo "$python" "$@" | sha256sum | cut -c1-16)"
[ -e "$stamp" ] && [ -e "$BUILD/CMakeCache.txt" ] && exit 0
generator="Unix Makefiles"
command -v ninja >/dev/null 2>&1 && generator=Ninja
[ -e "$BUILD/CMakeCache.txt" ] && generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$BUILD/CMakeCache.txt")
log="$BUILD/configure.log"
if ! cmake -G "$generator" -S . -B "$BUILD" -DTRANSFUSE_PYTHON="$python" "$@" >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    echo "CMake could not configure the build; all of its output is in $log." >&2
    exit 1
fi
grep -E 'not (found|built)' "$log" | sed 's/^-- //' || true
rm -f "$BUILD"/configured-*
touch "$stamp"
