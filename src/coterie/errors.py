"""The errors for users. Each says what is wrong, what was expected, and what to do.

CoterieError                 exit code
├── ConfigError              2   a setting, name or option that cannot work
├── DataError                3   data that are missing, damaged or do not fit
├── StorageError             4   a file or folder that cannot be read or written
├── TrainingError            5   training with an unusable result
│   └── WorkerDied           5   a process that was killed, most likely because memory ran out
└── StrategyError            6   a strategy that makes an invalid request

Interrupted                  130 Ctrl-C, SIGTERM or SIGHUP asked to stop: not an error
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class CoterieError(Exception):
    """An error that a user can correct; shown as a message, without a traceback."""

    exit_code: ClassVar[int] = 1


class ConfigError(CoterieError):
    """A setting, name or option that cannot work."""

    exit_code = 2


class DataError(CoterieError):
    """Data that are missing, damaged or do not fit the model or the settings."""

    exit_code = 3


class StorageError(CoterieError):
    """A file or folder that cannot be read or written."""

    exit_code = 4


class TrainingError(CoterieError):
    """Training with an unusable result, such as NaN weights."""

    exit_code = 5


class WorkerDied(TrainingError):  # noqa: N818 — a name with "Error" would say less
    """A worker process that was killed, most likely because memory ran out."""


class StrategyError(CoterieError):
    """A strategy that makes an invalid request, such as merge weights that do not sum to 1."""

    exit_code = 6


class Interrupted(BaseException):
    """Ctrl-C, SIGTERM or SIGHUP asked to stop; finished rounds are kept.

    It is no `Exception`, because code that catches every `Exception`, such as around an optional
    import, would lose it.
    """

    exit_code: ClassVar[int] = 130


def suggest(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the nearest known name, and the list of all known names."""
    names = sorted(known)
    close = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.5)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"{hint} Known: {', '.join(names)}." if names else hint


def only_peers(count: int) -> str:
    """Return the beginning of a message about a small network: "There are only 3 peers"."""
    return "There is only 1 peer" if count == 1 else f"There are only {count} peers"


def simplify(message: str) -> str:
    """Return a message of pydantic in plain words."""
    message = message.removeprefix("Value error, ").split(", unable to parse")[0]
    return message.replace("Input should be", "it should be").replace("integer", "whole number")
