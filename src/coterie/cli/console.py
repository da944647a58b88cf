"""Where commands write: results to one console, errors and progress to the other."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console

# Where there is no terminal, such as in a file, lines may be as long as tables need.
out = Console(width=None if sys.stdout.isatty() else 160)
errors = Console(stderr=True)


def print_notes(notes: Iterable[str]) -> None:
    """Say what is not quite as it was asked for."""
    for note in notes:
        errors.print(note, soft_wrap=True, highlight=False, markup=False)


def print_problems(problems: Iterable[str]) -> None:
    """Say what was wrong with runs that are not shown, and go on with the others."""
    for problem in problems:
        errors.print(
            f"Problem: {problem}", style="yellow", soft_wrap=True, highlight=False, markup=False
        )
