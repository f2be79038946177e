#!/bin/sh
# setup.sh SOURCE SCRATCH: what the two commands say where a compiler, root, a network or an interpreter is missing: one sentence
# that names it, and a status that stops make. Everything runs with a PATH that holds a few tools of the shell alone.
set -eu
source=$1
scratch=$2
rm -rf "$scratch"
mkdir -p "$scratch/bin"
for tool in sh cat cut sed sha256sum mktemp tail head rm env find grep; do
    ln -s "$(command -v "$tool")" "$scratch/bin/$tool"
done
command_that() { # NAME BODY
    printf '#!/bin/sh\n%s\n' "$2" >"$scratch/bin/$1"
    chmod +x "$scratch/bin/$1"
}
says() { # STATUS SENTENCE COMMAND...: all that it says, but for what it is about to install
    status=$1 sentence=$2
    shift 2
    got=0
    (cd "$scratch" && env -i PATH="$scratch/bin" "$@") >"$scratch/said" 2>&1 || got=$?
    grep -v '^Installing ' "$scratch/said" >"$scratch/sentences" || true
    if [ "$got" != "$status" ] || [ "$(grep -c . "$scratch/sentences")" != 1 ] || ! grep -q -- "$sentence" "$scratch/sentences"; then
        echo "$*: status $got, not $status, or does not say '$sentence':" >&2
        cat "$scratch/said" >&2
        exit 1
    fi
}

command_that id 'echo 0'
says 1 '^Missing: g++ cmake; PYTHON was given, so nothing is installed' "$source/tools/packages.sh" no build
says 0 '^Not found: libgtest-dev .*; the tests that need them are left out' "$source/tools/packages.sh" no test
says 1 '^Missing: g++ cmake .*; this is not a Debian system' "$source/tools/packages.sh" yes build
command_that apt-get 'echo something long; exit 100'
says 1 '^apt-get could not install: g++ cmake .*network' "$source/tools/packages.sh" yes build
command_that id 'echo 1000'
says 1 "^Missing: g++ cmake .*; installing needs root: run 'apt-get install g++ cmake" "$source/tools/packages.sh" yes build
says 1 '^PYTHON=/nowhere/python: there is no such interpreter' "$source/tools/venv.sh" no /nowhere/python
touch "$scratch/requirements.txt"
mkdir "$scratch/.venv"
command_that python 'echo something long; exit 1'
says 1 '^pip could not install requirements.txt (network' "$source/tools/venv.sh" yes "$scratch/bin/python"
