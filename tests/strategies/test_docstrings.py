"""Docstrings of strategies and their parts: examples that run, all parameters, the papers."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import pytest
from docstrings import check, examples, parameters, sections

import coterie.strategies
from coterie.strategies import STRATEGIES
from coterie.strategies._skeleton import Skeleton
from coterie.strategies.wrong_cluster import WrongCluster

ROOM = [
    importlib.import_module(found.name)
    for found in pkgutil.walk_packages(coterie.strategies.__path__, "coterie.strategies.")
]
PARTS = [
    part
    for module in ROOM
    for name, part in inspect.getmembers(module)
    if re.search(r"\.(parts|kin)\.", module.__name__)
    and (inspect.isfunction(part) or inspect.isclass(part))
    and part.__module__ == module.__name__
    and not name.startswith("_")
]
CLASSES = [*STRATEGIES.values(), Skeleton, WrongCluster]
NO_PAPER = {"local", "random"}


@pytest.mark.parametrize("test", examples(*ROOM), ids=lambda test: test.name)
def test_examples_run(test):
    check(test)


@pytest.mark.parametrize("strategy", CLASSES, ids=lambda strategy: strategy.name)
def test_a_strategy_documents_its_options_an_example_and_its_paper(strategy):
    assert parameters(strategy) == list(strategy().options())
    expected = {"Examples", *(() if strategy.name in NO_PAPER else ["References"])}
    assert expected <= sections(strategy).keys()


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__qualname__)
def test_a_part_documents_its_parameters_and_an_example(part):
    assert "Examples" in sections(part)
    assert parameters(part) == list(inspect.signature(part).parameters)
