"""Runs the runs of an experiment in a pool, and reports how they advance and end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from coterie.errors import Interrupted
from coterie.experiments.engine import OpenPool
from coterie.experiments.failures import Failures
from coterie.experiments.run_folder import RunFolder
from coterie.learning.trainer_choice import Tell
from coterie.processes.signals import stop_by_signal
from coterie.runtime.round_metrics import RoundMetrics

Piece = TypeVar("Piece")
"""What a pool needs to run one run."""
OnRound = Callable[[RunFolder, RoundMetrics], None]
OnEnd = Callable[[RunFolder], None]


@dataclass(frozen=True)
class Callbacks:
    """Functions that an experiment calls as it advances."""

    on_round: OnRound
    on_end: OnEnd
    tell: Tell


def run_pool(
    open_pool: OpenPool[Piece],
    work: Iterator[tuple[str, Piece]],
    waiting: Sequence[RunFolder],
    failures: Failures,
    callbacks: Callbacks,
) -> bool:
    """Run all work; add the errors of runs to `failures`. Return whether a stop was requested.

    After Ctrl-C, runs finish their round and are saved; then `Interrupted` is raised, unless all
    runs had finished.
    """
    by_name = {run.folder.name: run for run in waiting}
    stopped: list[str] = []
    shown: set[str] = set()

    def show(name: str, message: RoundMetrics | str) -> None:
        if isinstance(message, RoundMetrics):
            callbacks.on_round(by_name[name], message)
        elif message not in shown:  # many runs may send the same message
            shown.add(message)
            callbacks.tell(f"{name}: {message}")

    def end(name: str, error: BaseException | None) -> None:
        if isinstance(error, Interrupted):
            stopped.append(name)
        elif error is not None:
            failures.add(name, error)
        callbacks.on_end(by_name[name])

    with stop_by_signal(callbacks.tell) as asked_to_stop:
        pool = open_pool(on_message=show, on_end=end)
        pool.run(work, asked_to_stop)
        was_asked = asked_to_stop()
        if stopped or (was_asked and failures.num_not_started):
            raise Interrupted(f"Stopped by {asked_to_stop.by}; all runs are saved.")
    return was_asked
