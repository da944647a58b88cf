"""Examples and sections of docstrings, for tests that run and check them."""

from __future__ import annotations

import doctest
import inspect
import re
from types import ModuleType
from typing import Any

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples(*modules: ModuleType) -> list[doctest.DocTest]:
    """Return the docstrings of modules that have examples."""
    finder = doctest.DocTestFinder()
    return [test for module in modules for test in finder.find(module) if test.examples]


def check(test: doctest.DocTest) -> None:
    """Run the examples of a docstring."""
    printed: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test, out=printed.append)
    assert runner.failures == 0, "".join(printed)


def sections(documented: Any) -> dict[str, str]:
    """Return the sections of a docstring, such as Parameters, by their headings."""
    parts = re.split(r"^(\w+)\n-+\n", inspect.getdoc(documented) or "", flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def parameters(documented: Any) -> list[str]:
    """Return the names that the section Parameters documents."""
    names = re.findall(r"^(\w.*)$", sections(documented).get("Parameters", ""), re.MULTILINE)
    return [name for line in names for name in line.split(", ")]
