# Every target sets up what it needs: a virtual environment in .venv and the packages in it.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench clean

help:  ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 20

.venv/.installed: pyproject.toml setup.py $(wildcard src/coterie/learning/native/source/*)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Coterie needs Python 3.11 or newer; try: make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[development]'
	touch $@

demo: .venv/.installed  ## compare Local, Random and Oracle on bundled data, offline
	$(BIN)/coterie run digits

test: lint  ## check style, types and layers, then run all tests
	tests/browser/ensure-browser
	$(BIN)/python -m pytest -n $(WORKERS)

lint: .venv/.installed  ## check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: .venv/.installed  ## measure how fast this machine trains: torch beside compiled code
	$(BIN)/coterie bench

clean:  ## remove the environment and everything generated
	rm -rf .venv build *.egg-info src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
