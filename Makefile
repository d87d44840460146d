# Everything runs in .venv, made by pip from pyproject.toml with the versions in requirements/constraints.txt.

PYTHON ?= python3.11
BIN := .venv/bin
STAMP := .venv/.set-up
PIP := $(BIN)/python -m pip install --disable-pip-version-check -qq --constraint requirements/constraints.txt
PACKAGES := placement solver hardware runtime profiler executor app emplace/*.py
TEST_LIMIT := 30m
SOURCES := $(wildcard $(PACKAGES) migrations benchmarks tests)

.PHONY: help setup demo test lint format serve clean

help:
	@echo "make setup   a virtual environment in .venv with everything, .venv/bin/emplace on it"
	@echo "make demo    set up, then plan a model, train under the plan, and show predicted beside measured"
	@echo "make test    set up, then run all tests"
	@echo "make lint    ruff, mypy and the import arrows"
	@echo "make format  rewrite the sources as 'make lint' wants them"
	@echo "make serve   the API, the dashboard and a worker on http://127.0.0.1:8000"

setup: $(STAMP)

$(STAMP): pyproject.toml requirements/constraints.txt requirements/torchrec.txt
	@command -v $(PYTHON) >/dev/null || { echo "make setup needs Python 3.11: install it, or say PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "[1/4] virtual environment in .venv"
	@$(PYTHON) -m venv .venv
	@echo "[2/4] torch"
	@$(PIP) torch
	@echo "[3/4] emplace and what it needs"
	@$(PIP) --editable '.[serve,execute,dev]'
	@echo "[4/4] torchrec"
	@$(PIP) --no-deps --requirement requirements/torchrec.txt
	@touch $@
	@echo "ready: $(BIN)/emplace --help"

demo: setup
	@$(BIN)/python -m emplace.app.demo

test: setup
	@.ci/system-packages
	@timeout --kill-after 30 $(TEST_LIMIT) $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

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
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
