# From a fresh clone on Debian 12 (x86-64 or aarch64):
#
#     make demo      the four seed models: what the algebra does to them, that results are equal, how much faster they are
#     make test      the tests, C++ and Python: every kind of case
#     make test-long   all cases of every sweep, all seeds and architectures, then every version of PyTorch
#     make test-versions   the Python tests of what depends on PyTorch, on every minor version from 2.11 on; VERSIONS="12 15": on these
#     make build     builds everything, tests nothing
#     make bench     side by side with PyTorch on the device found; BENCH="--rows A,B --json out/bench.json" passes options on
#     make emitted   writes examples/emitted anew (after a change to what generates kernels)
#     make format    clang-format and ruff, in place
#     make clean     removes the build folder (.venv stays)
#
# They install missing Debian packages, make .venv with the pinned Python packages of requirements.txt, build and run; what is
# there already is not done again. With PYTHON=python3, an interpreter that has PyTorch, nothing is installed at all.

PYTHON ?=
VERSIONS ?=
BUILD ?= build
JOBS ?= $(shell nproc)
BENCH ?=
CMAKE_FLAGS ?=

ifeq ($(strip $(PYTHON)),)
python := $(CURDIR)/.venv/bin/python
install := yes
else
python := $(PYTHON)
install := no
endif

export JOBS BUILD
run := PYTHONPATH=$(CURDIR)/python$${PYTHONPATH:+:$$PYTHONPATH} PATH=$(abspath $(BUILD))/bin:$$PATH

.PHONY: demo test test-long test-versions build bench emitted format lint clean packages packages-test venv configure
.DEFAULT_GOAL := build

demo: packages venv configure
	@tools/compile.sh demo
	@$(run) tools/demo.sh $(python)

test: build
	@$(run) tools/test.sh $(python)

test-long: build
	@$(run) tools/test.sh $(python) long
	@$(run) tools/versions.sh $(VERSIONS)

test-versions: packages venv configure
	@tools/compile.sh demo
	@$(run) tools/versions.sh $(VERSIONS)

build: packages packages-test venv configure
	@tools/compile.sh all

bench: packages venv configure
	@tools/compile.sh demo
	@$(run) $(python) -m transfuse bench $(BENCH)

emitted: packages venv configure
	@tools/compile.sh demo
	@$(run) $(python) tools/emitted.py

format: venv
	@command -v clang-format >/dev/null || { echo "clang-format is not installed (Debian package clang-format)." >&2; exit 1; }
	git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs -r clang-format -i
	$(python) -m ruff format .
	$(python) -m ruff check --fix .

lint: configure
	@git ls-files 'src/*.cpp' | grep -v '^src/torch/' | xargs -r -P $(JOBS) -n 4 clang-tidy -p $(BUILD) --quiet --extra-arg=-Wno-unknown-warning-option

clean:
	rm -rf $(BUILD)

packages:
	@tools/packages.sh $(install) build

packages-test:
	@tools/packages.sh $(install) test

venv: packages
	@tools/venv.sh $(install) $(python)

configure: packages venv
	@tools/configure.sh $(python) $(CMAKE_FLAGS)
