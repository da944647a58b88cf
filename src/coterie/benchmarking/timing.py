"""Times work: CPU time, all candidates in turn, the best of several repeats."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from coterie.learning.native.library import Library

Name = TypeVar("Name", bound=Hashable)
Tick = Callable[[str], None]
"""Reports a finished step of the named part of a benchmark."""


@dataclass(frozen=True)
class Workload:
    """How much work to measure."""

    repeats: int
    train_samples: int
    evaluate_samples: int
    peak_rounds: int
    round_changes: Mapping[str, Any]
    """Changes to the preset of the round, by dotted keys."""


FULL = Workload(8, 400, 1000, 5_000_000, {})
QUICK = Workload(
    2,
    64,
    200,
    100_000,
    {
        "peers.count": 8,
        "peers.train_size": 40,
        "peers.validation_size": 10,
        "training.epochs": 1,
    },
)


def best_rates(
    candidates: Mapping[Name, Callable[[], int]], repeats: int, tick: Callable[[], None]
) -> dict[Name, float]:
    """Return each candidate's highest rate per second of CPU time; candidates return counts.

    Each repeat runs all candidates in turn, so that other work of the machine affects all of them.
    """
    best = dict.fromkeys(candidates, 0.0)
    for _ in range(repeats):
        for name, work in candidates.items():
            started = time.process_time()
            count = work()
            best[name] = max(best[name], count / (time.process_time() - started))
        tick()
    return best


class CompiledTime:
    """The CPU seconds of all threads in compiled code."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._lock = threading.Lock()

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that also adds up the time of its calls."""

        def call(*arguments: Any) -> Any:
            started = time.thread_time()
            try:
                return function(*arguments)
            finally:
                spent = time.thread_time() - started
                with self._lock:
                    self.seconds += spent

        return call


@contextmanager
def time_compiled_code(library: Library, compiled: CompiledTime) -> Iterator[None]:
    """Time the library's training and evaluation within this context."""
    functions = library.train, library.evaluate
    library.train, library.evaluate = map(compiled.timed, functions)
    try:
        yield
    finally:
        library.train, library.evaluate = functions
