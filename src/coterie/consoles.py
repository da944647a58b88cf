"""Where commands write: results to one console, errors and progress to the other."""

from __future__ import annotations

import sys

from rich.console import Console

# Where there is no terminal, such as in a file, lines may be as long as tables need.
out = Console(width=None if sys.stdout.isatty() else 160)
errors = Console(stderr=True)
