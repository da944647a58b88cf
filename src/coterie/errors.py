"""What can go wrong, for people: every error says what was wrong, what was expected, what to do.

CoterieError                 exit code
├── ConfigError              2   a setting, name or option that cannot work
├── DataError                3   data that is missing, damaged or does not fit
├── StorageError             4   a file or folder that cannot be read or written
├── TrainingError            5   training that produced something unusable
│   └── WorkerDied           5   a process that was killed, most likely for want of memory
└── StrategyError            6   a strategy that broke the rules of the requests

Interrupted                  130 Ctrl-C, SIGTERM or SIGHUP asked to stop: not an error
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class CoterieError(Exception):
    """Something a user can act on; shown as one message, never as a traceback."""

    exit_code: ClassVar[int] = 1


class ConfigError(CoterieError):
    """A setting, name or option that cannot work."""

    exit_code = 2


class DataError(CoterieError):
    """Data that is missing, damaged or does not fit what was asked."""

    exit_code = 3


class StorageError(CoterieError):
    """A file or folder that cannot be read or written."""

    exit_code = 4


class TrainingError(CoterieError):
    """Training that produced something unusable, such as NaN weights."""

    exit_code = 5


class WorkerDied(TrainingError):  # noqa: N818 — what happened says more than -Error
    """A worker process that was killed, most likely because memory ran out."""


class StrategyError(CoterieError):
    """A strategy that broke the rules, such as choosing itself or weights that do not sum to 1."""

    exit_code = 6


class Interrupted(BaseException):
    """Ctrl-C, SIGTERM or SIGHUP asked to stop; what was computed is kept.

    It may come at any moment, also within code that survives every `Exception`, such as an import
    that is tried: there it would be lost.
    """

    exit_code: ClassVar[int] = 130


def suggest(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the nearest known word, followed by all that are known."""
    names = sorted(known)
    close = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.5)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"{hint} Known: {', '.join(names)}." if names else hint


def only_peers(count: int) -> str:
    """Return the words for a network that has fewer peers than something needs."""
    return "There is only 1 peer" if count == 1 else f"There are only {count} peers"


def simplify(message: str) -> str:
    """Return what pydantic says of a value in the words of a user."""
    message = message.removeprefix("Value error, ").split(", unable to parse")[0]
    return message.replace("Input should be", "it should be").replace("integer", "whole number")
