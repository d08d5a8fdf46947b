# Needs Python >= 3.11, git and make; everything else is installed into .venv at the first use.
#
#   make run ARGS="300 200 100 --dtype fp16"    another product
#   make test PYTHON=python3.12                 another interpreter; test-wheel takes NEWEST=
#   make test CUDA=cu12                         NVRTC and bindings for drivers before 580
#   make test-gpu VENV=none                     the packages of $(PYTHON) itself, nothing installed

CUDA ?= cu13
VENV ?= .venv
ARGS ?=
PARALLEL ?= -n auto --dist worksteal
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
	"$$p" -c '$(NEW_ENOUGH)' 2>/dev/null && echo $$p && break; done)

# The newest Python, among those of pyenv too: the wheels are tested with it, all else with PYTHON.
NEWEST ?= $(shell for p in "$(HOME)"/.pyenv/versions/*/bin/python3 python3; do \
	"$$p" -c 'import sys; print(sys.version_info[1], sys.executable)' 2>/dev/null; \
	done | sort -n | tail -n 1 | cut -d ' ' -f 2)

ifeq ($(VENV),none)
PY := PYTHONPATH=src $(PYTHON)
BIN :=
READY := python
HATCHLING := $(PYTHON) -m hatchling
else
PY := $(VENV)/bin/python
BIN := $(VENV)/bin/
READY := $(VENV)/.installed-$(CUDA)
HATCHLING := $(abspath $(PY)) -m hatchling
endif

SOURCES := src tests tools examples wheels
LINTS := lint-style lint-format lint-types lint-cuda lint-spelling
FOLDERS := $(wildcard tests/host tests/compile tests/emulate)
OTHERS := build/others
COUNTERS := tests/gpu/proof/test_counters.py
# Tests run side by side, so that each process gets one BLAS thread.
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(PY) -m pytest

ITSELF = -e '.[$(CUDA)]'
DEVELOPED = -e '.[$(CUDA),dev]'
DOCUMENTED = -e '.[$(CUDA),docs]'
# A folder with an environment, what pip installs into it, and its Python, by default PYTHON.
define environment
$(or $(3),$(PYTHON)) -m venv $(1) && $(1)/bin/python -m pip install --quiet --disable-pip-version-check $(2)
endef

# tilewright comes first: pip 23, as of Python 3.11, looks for it elsewhere if the wheel that needs it does.
define tested_wheel
@rm -rf .venv-wheel
$(call environment,.venv-wheel,"$$(echo dist/tilewright-*.whl)[$(2)]" dist/tilewright_emulator-*.whl,$(1))
@env -u PYTHONPATH .venv-wheel/bin/tilewright doctor
@env -u PYTHONPATH .venv-wheel/bin/tilewright run 70 50 30 --bias --activation gelu --backend emulator
endef

.DEFAULT_GOAL := help
.PHONY: help run test test-all others doors test-gpu proof pictures docs test-docs wheel test-wheel lint $(LINTS) format clean python

help:  ## List these targets
	@sed -n 's/^\([a-z-]*\):.*##/\1\t/p' $(MAKEFILE_LIST) | expand -t 12

run: $(READY)  ## Multiply, verify, and time (GPU) or count (emulator)
	@$(PY) -m tilewright run $(ARGS)

test: $(READY)  ## All tests that need no GPU, on the usual Configs
	@$(PYTEST) $(PARALLEL) $(FOLDERS)

test-all: $(READY) others doors  ## The same on every Config, mutant and case, and on what other compilers emit now
	@TILEWRIGHT_TESTS=all TILEWRIGHT_OTHERS=$(OTHERS) $(PYTEST) $(PARALLEL) $(FOLDERS)

others: $(READY)  ## Compile the kernels of tests/emulate/others anew, with those compilers that install
ifeq ($(VENV),none)
	@$(PY) tests/emulate/others/compile.py --all --output $(OTHERS)
else
	$(call environment,.venv-others,$(ITSELF))
	@for list in tests/emulate/others/*/requirements.txt; do \
	  .venv-others/bin/python -m pip install --quiet -r $$list || echo "$$list does not install here"; done
	@.venv-others/bin/python tests/emulate/others/compile.py --all --output $(OTHERS)
endif

# An environment of their own, since torch brings another NVRTC.
doors:  ## Test `check` on kernels of Triton, CuTe DSL, CuPy and CUTLASS, which it installs
	$(call environment,.venv-doors,$(DEVELOPED) -r tests/emulate/doors/requirements.txt)
	@TILEWRIGHT_DOORS=required .venv-doors/bin/python -m pytest tests/emulate/doors tests/emulate/test_check_page.py

test-gpu: $(READY)  ## The tests that need a GPU, which must be there; those of two GPUs skip on one
	@$(PYTEST) -n 8 --dist worksteal tests/gpu --ignore tests/gpu/proof --require-gpu --record results/gpu_verification.json

proof: $(READY)  ## The emulator against a GPU: instructions, TMA and (where ncu may count) memory counters
	@for cases in "$(PARALLEL) tests/gpu/proof --ignore $(COUNTERS)" $(COUNTERS); do \
	  $(PYTEST) $$cases --require-gpu --tb=no -rN --proof results/emulator_proof.json || failed=1; \
	done; exit $${failed:-0}

pictures: $(READY)  ## Redraw the pictures of the documents, and write the numbers and outputs that they show
	@$(PY) tools/ladder_pictures.py
	@$(PY) tools/machine_pages.py
	@$(PY) tools/readme_numbers.py

docs: .venv-docs/.installed  ## The documents as a site, in build/website/site; every link and anchor is followed
	@.venv-docs/bin/python tools/make_site.py build/website

test-docs: docs $(READY)  ## The site and a report in headless Chromium, which must be installed
	@$(PY) -m tilewright report 256 256 256 --gpu H200 --record results/ladder_4096.json -o build/website/report.html
	@.venv-docs/bin/python -m pytest $(PARALLEL) tests/site --site build/website/site

wheel: $(READY)  ## The wheels of a release, in dist: tilewright, and its emulator
	@rm -rf dist
	@TILEWRIGHT_RELEASE=1 $(HATCHLING) build -t wheel -d $(CURDIR)/dist
	@cd wheels/emulator && $(HATCHLING) build -t wheel -d $(CURDIR)/dist

test-wheel: wheel  ## The wheels in empty environments, with both CUDAs: what doctor finds there, and a product in the emulator
	$(call tested_wheel,$(NEWEST),cu13)
	$(call tested_wheel,$(PYTHON),cu12)

lint: $(LINTS)  ## Style, types and spelling

lint-style: $(READY)
	$(BIN)ruff check $(SOURCES)

lint-format: $(READY)
	$(BIN)ruff format --check $(SOURCES)

lint-types: $(READY)
	$(BIN)mypy

lint-cuda: $(READY)
	find src -name '*.cuh' | xargs $(BIN)clang-format --dry-run --Werror

lint-spelling: $(READY)
	$(BIN)codespell $(SOURCES) docs *.md Makefile pyproject.toml

format: $(READY)  ## Rewrite the sources in the project's style
	$(BIN)ruff check --fix $(SOURCES)
	$(BIN)ruff format $(SOURCES)
	find src -name '*.cuh' | xargs $(BIN)clang-format -i

clean:  ## Remove the environment and everything generated
	rm -rf .venv .venv-others .venv-doors .venv-docs .venv-wheel build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -exec rm -rf {} +

python:
	@"$(PYTHON)" -c '$(NEW_ENOUGH)' || { echo "tilewright needs Python >= 3.11, and PYTHON='$(PYTHON)' is none:" \
	  "install one, or name it with make PYTHON=/path/to/python3.11" >&2; exit 1; }

# An environment of its own, since a site is built rarely and needs little of the rest.
.venv-docs/.installed: pyproject.toml | python
	$(call environment,.venv-docs,$(DOCUMENTED))
	@touch $@

$(VENV)/.installed-%: pyproject.toml | python
	$(call environment,$(VENV),$(DEVELOPED))
	@rm -f $(VENV)/.installed-*  # what another CUDA= installed has been replaced
	@touch $@
