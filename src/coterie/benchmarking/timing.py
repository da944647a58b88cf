"""How things are timed: CPU time, all sides in turn, the best of several repeats."""

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
"""Takes note of a finished step of a benchmark, of the part that is named."""


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    repeats: int
    train_samples: int
    evaluate_samples: int
    peak_rounds: int
    round_changes: Mapping[str, Any]
    """Settings of the preset whose round is measured, by their dotted keys."""


FULL = Effort(8, 400, 1000, 5_000_000, {})
QUICK = Effort(
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
    sides: Mapping[Name, Callable[[], int]], repeats: int, tick: Callable[[], None]
) -> dict[Name, float]:
    """Return how much each side did per second of CPU time, at best; a side returns its count.

    Every repeat runs all sides in turn, so that what else the machine does meets all of them.
    """
    best = dict.fromkeys(sides, 0.0)
    for _ in range(repeats):
        for name, work in sides.items():
            begun = time.process_time()
            count = work()
            best[name] = max(best[name], count / (time.process_time() - begun))
        tick()
    return best


class CompiledTime:
    """The CPU seconds that all threads together have spent inside compiled code."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._lock = threading.Lock()

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its calls timed."""

        def call(*arguments: Any) -> Any:
            begun = time.thread_time()
            try:
                return function(*arguments)
            finally:
                spent = time.thread_time() - begun
                with self._lock:
                    self.seconds += spent

        return call


@contextmanager
def compiled_time(library: Library, inside: CompiledTime) -> Iterator[None]:
    """Time all trainings and evaluations of the library meanwhile."""
    functions = library.train, library.evaluate
    library.train, library.evaluate = map(inside.timed, functions)
    try:
        yield
    finally:
        library.train, library.evaluate = functions
