# Two commands set everything up on a fresh machine: `make demo` and `make test`. A second run reuses .venv.
PYTHON ?= python3
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
SECONDS ?= 900
SEED ?= 0
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test smoke check bench attack docs dist coverage mutants audit experiments clean

demo: .venv/.installed  ## install into .venv, then show the demo
	$(BIN)/precall demo

# a worker a core, a thread a worker: more threads than cores wait for each other
test: check  ## install the dev extra, then lint, types, doctests, tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal

smoke: .venv/.dev  ## every benchmark and experiment at a tiny size, every example, and the site
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal -m smoke tests

check: .venv/.dev  ## lint, types, licences of dependencies; warns about known vulnerabilities
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/audit.py

bench: .venv/.dev  ## the benchmarks, one after the other, on an otherwise idle machine
	for name in neighbors exactness folders sources tune theory curve_error left_out hidden local ablation sanity coverage tradeoff plans blends ratios prompts sketches scale large_table default_encoder one_answer schedules costs; do $(BIN)/python -m benchmarks.$$name || exit 1; done

experiments: .venv/.dev  ## run again the figures that take minutes, and check every number and claim of docs/experiments.md
	OMP_NUM_THREADS=1 $(BIN)/python -m experiments.check --rerun
	$(BIN)/python -m experiments.index --check

attack: .venv/.dev  ## attack every reader and every command for SECONDS, and add what was found to the totals
	$(BIN)/python -m benchmarks.attack --seconds $(SECONDS) --seed $(SEED)

docs: .venv/.dev  ## the generated parts of docs/, then the site in site/; a warning is an error
	$(BIN)/python docs/generate.py
	$(BIN)/python tools/audit.py --write
	$(BIN)/python tools/screenshots.py --if-stale
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

dist: .venv/.dev  ## wheel and sdist in dist/, each installed into a clean environment that runs the demo
	$(BIN)/python tools/dist.py

coverage: .venv/.dev  ## line coverage of every room; fails under 95 % of theory and metrics, 88 % of all
	rm -f .coverage .coverage.*
	OMP_NUM_THREADS=1 $(BIN)/coverage run -m pytest --numprocesses auto --dist worksteal -m "smoke or not smoke"
	$(BIN)/coverage combine --quiet
	$(BIN)/python tools/line_coverage.py --missing theory metrics

mutants: .venv/.dev  ## seeded faults in theory and metrics, and how many the tests catch; resumes
	$(BIN)/python -m benchmarks.mutants --jobs $$(nproc)

audit: .venv/.dev  ## licences and known vulnerabilities; fails if there is one, or if nobody can tell
	$(PIP) --editable '.[audit]'
	$(BIN)/python tools/audit.py --strict

lowest:  ## the readers with the lowest versions that pyproject.toml allows, in .venv-lowest
	$(PYTHON) -m venv .venv-lowest
	$(PYTHON) tools/lowest.py > .venv-lowest/lowest.txt
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --requirement .venv-lowest/lowest.txt pytest hypothesis
	OMP_NUM_THREADS=1 PYTHONPATH=src .venv-lowest/bin/python -m pytest -q tests/samples/test_costs.py tests/samples/test_archives.py tests/samples/test_arrays.py

clean:
	rm -rf .venv .venv-lowest .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage build dist site

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
