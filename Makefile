# Everything runs in a virtual environment, made by pip from pyproject.toml with the versions in requirements/constraints.txt.

# Any Python from 3.11 to 3.14; several environments stand side by side: make setup PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= $(shell .ci/interpreters | head -n 1)
VENV ?= .venv
EXTRAS ?= serve,execute,dev
BIN := $(VENV)/bin
STAMP := $(VENV)/.set-up
PIP := $(BIN)/python -m pip install --disable-pip-version-check -qq --constraint requirements/constraints.txt
PACKAGES := placement solver hardware runtime profiler executor studies app emplace/*.py emplace/torchrec
TEST_LIMIT := 30m
# A quarter of their time tests wait for processes, so three at once keep two cores busy.
TESTS_AT_ONCE := 3
SOURCES := $(wildcard $(PACKAGES) migrations benchmarks examples tests setup.py)
# What one process compiles, those that tests start by the hundred need not.
export PYTHONDONTWRITEBYTECODE =
NATIVE := $(wildcard solver/native/*.cpp solver/native/*.hpp)

.PHONY: help setup demo test test-others lint format serve clean

help:
	@echo "make setup   a virtual environment in .venv with everything, .venv/bin/emplace on it"
	@echo "make demo    set up, then plan a model, train under the plan, and show predicted beside measured"
	@echo "make test    set up, then run all tests"
	@echo "make test-others   what Pythons differ in, on each other one that this machine has"
	@echo "make lint    ruff, mypy and the import arrows"
	@echo "make format  rewrite the sources as 'make lint' wants them"
	@echo "make serve   the API, the dashboard and a worker on http://127.0.0.1:8000"

setup: $(STAMP)

$(STAMP): pyproject.toml setup.py $(NATIVE) requirements/constraints.txt requirements/torchrec.txt
	@$(or $(PYTHON),false) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null || \
		{ echo "make setup needs Python 3.11 to 3.14: install one, or say PYTHON=/path/to/python" >&2; exit 2; }
	@echo "[1/4] virtual environment in $(VENV), $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
ifneq ($(findstring execute,$(EXTRAS)),)
	@echo "[2/4] torch"
	@$(PIP) torch
endif
	@echo "[3/4] emplace and what it needs: $(EXTRAS)"
	@$(PIP) --editable '.[$(EXTRAS)]'
ifneq ($(findstring execute,$(EXTRAS)),)
	@echo "[4/4] torchrec"
	@$(PIP) --no-deps --requirement requirements/torchrec.txt
endif
	@touch $@
	@echo "ready: $(BIN)/emplace --help"

demo: setup
	@$(BIN)/python -m emplace.app.demo

test: setup
	@.ci/system-packages
	@timeout --kill-after 30 $(TEST_LIMIT) $(BIN)/python -m pytest --numprocesses $(TESTS_AT_ONCE) --dist loadfile --no-loadscope-reorder

test-others: setup
	@.ci/test-others

lint: setup
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

serve: setup
	$(BIN)/emplace serve

clean:
	rm -rf .venv .venv-* build dist *.egg-info solver/native/*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
