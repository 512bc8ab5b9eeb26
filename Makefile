# Two commands set everything up on a fresh machine: `make demo` and `make test`. A second run reuses .venv.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test check bench docs clean

demo: .venv/.installed  ## install into .venv, then show the demo
	$(BIN)/precall demo

# a worker a core, a thread a worker: more threads than cores wait for each other
test: check  ## install the dev extra, then lint, types, doctests, tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal

check: .venv/.dev  ## lint and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.dev  ## the benchmarks, one after the other, on an otherwise idle machine
	for name in neighbors folders tune theory curve_error sanity coverage; do $(BIN)/python -m benchmarks.$$name || exit 1; done

docs: .venv/.dev  ## what docs/ holds that is generated
	$(BIN)/python docs/generate.py

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis

.venv/.python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "precall needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv
	touch $@

# torch comes first, at the pinned version: nothing after it can then bring another build in
.venv/.torch: constraints.txt | .venv/.python
	$(PIP) torch
	touch $@

.venv/.installed: pyproject.toml constraints.txt | .venv/.torch
	$(PIP) --editable .
	touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/.torch
	$(PIP) --editable '.[dev]'
	touch $@ .venv/.installed
