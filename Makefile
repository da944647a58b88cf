# Every target sets up what it needs: a virtual environment in .venv and the packages in it.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2
# Without compiling all modules in advance: most are never imported, and the others are compiled then.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile --editable
SOURCES := pyproject.toml setup.py $(wildcard src/coterie/learning/native/source/*)
QUICK := $(wildcard tests/strategies tests/conformance tests/runtime tests/simulation tests/attacks)
# Tests stay in the order of their files, so that what they share is made once.
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo test pytest quick quick-tests long lint bench docs clean

help:  ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 20

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Coterie needs Python 3.11 or newer; try: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv

# What users need, and nothing else: so the demo proves that it is enough.
.venv/.usable: $(SOURCES) | $(BIN)/python
	$(INSTALL) .
	touch $@

# The same and what development needs.
.venv/.installed: $(SOURCES) | $(BIN)/python
	$(INSTALL) '.[development,docs]'
	touch .venv/.usable $@

demo: .venv/.usable  ## compare Kin with Local, Random, DAC and Oracle on bundled data, offline
	$(BIN)/coterie run digits

test: .venv/.installed  ## check style, types and layers, and run all tests
	tests/browser/ensure-browser
	@# Both at once: many tests wait for processes, and checking types for the first time takes a minute or two.
	@$(MAKE) --no-print-directory --jobs=2 lint pytest

pytest: .venv/.installed
	$(PYTEST)

quick: .venv/.installed  ## check style, types and layers, and test strategies and rounds, in half a minute
	@$(MAKE) --no-print-directory --jobs=2 lint quick-tests

quick-tests: .venv/.installed
	$(PYTEST) -m 'not slow and not browser and not network' $(QUICK)

long: .venv/.installed  ## run the tests on Ray clusters of several nodes, which take some minutes
	$(PYTEST) -m long

lint: .venv/.installed  ## check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: .venv/.installed  ## measure how fast this machine trains: torch beside compiled code
	$(BIN)/coterie bench

docs: .venv/.installed  ## build the documentation site into site/; a broken link fails
	rm -rf site
	$(BIN)/sphinx-build --fail-on-warning --keep-going --fresh-env --quiet -d build/doctrees docs site
	@echo "Open site/index.html in a browser."

clean:  ## remove the environment and everything generated
	rm -rf .venv build site *.egg-info src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
