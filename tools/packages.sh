#!/bin/sh
# packages.sh yes|no build|test: finds what is missing of the Debian packages a step needs, and installs it (yes) or says so (no).
# Without a compiler or CMake there is nothing to build and we stop; without the test libraries their tests are left out.
set -eu
install=$1
step=$2

missing=""
need() { missing="$missing $1"; }
have() { command -v "$1" >/dev/null 2>&1; }
header() { echo "#include <$1>" | ${CXX:-g++} -E -x c++ - >/dev/null 2>&1; }

if [ "$step" = build ]; then
    have "${CXX:-g++}" || need g++
    have cmake || need cmake
    have ninja || [ "$install" = no ] || need ninja-build
    if [ "$install" = yes ] && [ ! -x .venv/bin/python ]; then
        have python3 || need python3
        python3 -c 'import ensurepip' 2>/dev/null || need python3-venv
    fi
    # torch.compile builds C++ on the CPU against Python.h; without it the benchmark leaves that column out.
    if [ "$install" = yes ] && ! { have python3 && [ -e "$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ]; }; then
        need python3-dev
    fi
else
    header gtest/gtest.h || need libgtest-dev
    have ccache || need ccache  # the wheel's test compiles the library a second time
    have clang++ || need clang
    if have clang++; then
        [ -n "$(find "$(clang++ -print-resource-dir)" -name 'libclang_rt.fuzzer*' 2>/dev/null | head -n 1)" ] || need libclang-rt-dev
    else
        need libclang-rt-dev
    fi
fi
[ -n "$missing" ] || exit 0

if [ "$install" = yes ]; then
    if ! have apt-get; then
        echo "Missing:$missing; this is not a Debian system, so please install them with its package manager." >&2
    elif [ "$(id -u)" != 0 ] && ! have sudo; then
        echo "Missing:$missing; installing needs root: run 'apt-get install$missing' as root, then make again." >&2
    else
        [ "$(id -u)" = 0 ] && sudo="" || sudo=sudo
        echo "Installing Debian packages:$missing"
        log=$(mktemp)
        if $sudo apt-get update -q >"$log" 2>&1 &&
            $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >"$log" 2>&1; then
            rm -f "$log"
            exit 0
        fi
        echo "apt-get could not install:$missing (is there a network?); all that it said is in $log." >&2
    fi
fi
if [ "$step" = build ]; then
    [ "$install" = yes ] || echo "Missing:$missing; PYTHON was given, so nothing is installed: install them, or run make without PYTHON." >&2
    exit 1
fi
echo "Not found:$missing; the tests that need them are left out."
