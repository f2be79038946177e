#!/bin/sh
# kernels.sh BASE [HEAD]: what a change does to generated kernels. Writes the text of every kernel of the rows (bench/models,
# bench/further: forward and backward, fp32, TF32, fp16) and of tests/gpu/families.h, for sm_90 and sm_80, at two commits, and says
# "no text changed", or which and how. Of texts that changed PTX is compared. Needs no GPU; minutes, most of them compiling.
#
# Without HEAD it is the working tree, with what is not committed. What was built and written stays in build/kernels for the
# next time (KERNELS names another folder). PTX=N compares PTX of at most N texts an architecture (60). PYTHON: an interpreter
# with PyTorch; .venv's, if there is one. Exit status: 0 all is the same, 1 something changed, 2 it could not be told.
set -eu
[ $# -ge 1 ] || { sed -n '2,9s/^# //p' "$0" >&2; exit 2; }
cd "$(dirname "$0")/.."
root=$PWD
folder=${KERNELS:-$root/build/kernels}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
jobs=${JOBS:-$(nproc)}
python=${PYTHON:-$root/.venv/bin/python}
command -v "$python" >/dev/null 2>&1 || python=python3
"$python" -c 'import torch' 2>/dev/null || { echo "kernels.sh: $python has no PyTorch; PYTHON names one that has." >&2; exit 2; }

# A commit of the working tree as it is: new files, too, but nothing that git ignores.
working_tree() {
    index=$folder/index
    cp "$(git rev-parse --git-path index)" "$index"
    GIT_INDEX_FILE=$index git add -A
    tree=$(GIT_INDEX_FILE=$index git write-tree)
    rm -f "$index"
    if [ "$tree" = "$(git rev-parse 'HEAD^{tree}')" ]; then git rev-parse HEAD; else git commit-tree -p HEAD -m "working tree" "$tree"; fi
}
base=$(git rev-parse --verify --quiet "$1^{commit}") || { echo "kernels.sh: there is no commit $1" >&2; exit 2; }
if [ $# -gt 1 ]; then
    head=$(git rev-parse --verify --quiet "$2^{commit}") || { echo "kernels.sh: there is no commit $2" >&2; exit 2; }
else
    head=$(working_tree)
fi

# One work tree for all commits: going from one to another compiles only what is different.
tree=$folder/tree
built=
build() {
    [ "$built" != "$1" ] || return 0
    if [ -e "$tree/.git" ]; then
        git -C "$tree" checkout --quiet --force --detach "$1"
    else
        git worktree prune
        git worktree add --quiet --force --detach "$tree" "$1"
    fi
    generator=
    command -v ninja >/dev/null 2>&1 && generator="-G Ninja"
    log=$folder/build.log
    # ccache finds what other folders compiled.
    export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$tree}" CCACHE_NOHASHDIR=1
    if ! { cmake $generator -S "$tree" -B "$tree/build" -DTRANSFUSE_PYTHON="$python" -DTRANSFUSE_TESTS=OFF &&
        cmake --build "$tree/build" --parallel "$jobs" --target transfuse transfuse_torch; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        echo "kernels.sh: $1 does not build; all of the output is in $log" >&2
        exit 2
    fi
    built=$1
}
# tool NAME: tools/kernels/NAME.cpp, against what is built: this folder's, or, where headers stand elsewhere there, the commit's own.
tool() {
    for source in "$root/tools/kernels/$1.cpp" "tools/kernels/$1.cpp"; do
        if (cd "$tree" && c++ -std=c++20 -O2 -w -Iinclude -Isrc -Itests "$source" -Lbuild/lib -ltransfuse \
            -Wl,-rpath,"$tree/build/lib" -lpthread -o "build/kernels_$1") >"$folder/build.log" 2>&1; then
            return 0
        fi
    done
    head -n 20 "$folder/build.log" >&2
    echo "kernels.sh: tools/kernels/$1.cpp does not fit $built; all of the output is in $folder/build.log" >&2
    exit 2
}
say() { echo "$*" >&2; }
since=$(date +%s)
took() { echo "$(($(date +%s) - since)) s"; }
tools=$(cat tools/kernels/write.cpp tools/kernels/families.cpp tools/kernels/rows.py | sha256sum | cut -c1-8)

# The graphs, and the models to be captured, are HEAD's for both.
graphs=$folder/graphs-$head-$tools
if [ ! -e "$graphs/done" ]; then
    say "$(git log -1 --format='%h %s' "$head"): building"
    build "$head"
    rm -rf "$graphs"
    mkdir -p "$graphs/families"
    tool families
    "$tree/build/kernels_families" "$graphs/families"
    cp -r "$tree/bench/models" "$tree/bench/further" "$graphs"
    touch "$graphs/done"
fi
given=$(cd "$graphs" && find . -type f -name '*.*' | sort | xargs cat | sha256sum | cut -c1-8)

written() { echo "$folder/$1-$tools-$given"; }
write() {
    out=$(written "$1")
    [ ! -e "$out/done" ] || return 0
    say "$(git log -1 --format='%h %s' "$1"): building ($(took))"
    build "$1"
    tool write
    say "$(git log -1 --format='%h %s' "$1"): writing kernels ($(took))"
    rm -rf "$out"
    mkdir -p "$out/graphs"
    cp "$graphs"/families/*.tf "$out/graphs"
    PYTHONPATH=$tree/python "$python" "$root/tools/kernels/rows.py" "$out/graphs" "$graphs/models" "$graphs/further"
    export TRANSFUSE_CACHE_DIR="$folder/cache"
    for arch in 90 80; do "$tree/build/kernels_write" "$out/graphs" "$out" $arch & pids="${pids:-} $!"; done
    for pid in $pids; do wait "$pid"; done
    pids=
    touch "$out/done"
}
write "$head"
write "$base"
[ -x "$tree/build/kernels_write" ] || { build "$base" && tool write; }
status=0
"$python" tools/kernels/compare.py "$(written "$base")" "$(written "$head")" \
    --writer "$tree/build/kernels_write" --python "$python" --most "${PTX:-60}" --jobs "$jobs" --kept "$folder/ptx" || status=$?
say "$(took)"
exit $status
