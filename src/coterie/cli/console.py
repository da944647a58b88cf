"""The consoles of all commands: results go to stdout, errors and progress to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console

# Without a terminal, such as in a file, lines may be as long as tables need.
out = Console(width=None if sys.stdout.isatty() else 160)
errors = Console(stderr=True)


def print_result(text: str, style: str | None = None) -> None:
    """Print one line on stdout, without wrapping or markup."""
    out.print(text, style=style, soft_wrap=True, highlight=False, markup=False)


def print_message(text: str, style: str | None = None) -> None:
    """Print one line on stderr, without wrapping or markup."""
    errors.print(text, style=style, soft_wrap=True, highlight=False, markup=False)


def print_problems(problems: Iterable[str]) -> None:
    """Print why some runs were skipped."""
    for problem in problems:
        print_message(f"Problem: {problem}", "yellow")
