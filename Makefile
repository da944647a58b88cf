# Every target sets up what it needs: a virtual environment in .venv and the packages in it.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test pytest lint bench docs clean

help:  ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 20

.venv/.installed: pyproject.toml setup.py $(wildcard src/coterie/learning/native/source/*)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Coterie needs Python 3.11 or newer; try: make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[development,docs]'
	touch $@

demo: .venv/.installed  ## compare Kin with Local, Random, DAC and Oracle on bundled data, offline
	$(BIN)/coterie run digits

test: .venv/.installed  ## check style, types and layers, and run all tests
	tests/browser/ensure-browser
	@# Both at once: many tests wait for processes, and checking types for the first time takes a minute or two.
	@$(MAKE) --no-print-directory --jobs=2 lint pytest

pytest: .venv/.installed
	$(BIN)/python -m pytest -n $(WORKERS)

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
