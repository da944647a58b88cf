"""Progress of an experiment on a terminal: a bar with an estimate; plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from coterie.experiment import Experiment, Run
from coterie.simulation.round import Round

LINE_SECONDS = 10.0
"""How often a line is printed where there is no terminal for a bar."""


class Display:
    """Shows where an experiment is; the estimate is for all its runs together."""

    def __init__(self, experiment: Experiment, console: Console) -> None:
        self._console = console
        self._runs = experiment.runs
        self._done = {run.folder: run.config.rounds + 1 for run in self._runs if run.outcome}
        self._total = sum(run.config.rounds + 1 for run in self._runs)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[accuracy]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("starting", total=self._total, accuracy="")
        self._started = time.monotonic()
        self._start_count: int | None = None
        self._last_line = self._started

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def tell(self, message: str) -> None:
        """Print a message above the bar."""
        self._console.print(message, soft_wrap=True, highlight=False, markup=False)

    def show(self, run: Run, now: Round) -> None:
        """Take note of a finished round."""
        self._done[run.folder] = now.number + 1
        done = sum(self._done.values())
        if self._start_count is None:
            self._start_count = done - 1
        name = f"{run.config.label}, seed {run.config.seed}"
        current = _current(now)
        self._progress.update(self._task, completed=done, description=name, accuracy=current)
        late = time.monotonic() - self._last_line >= LINE_SECONDS
        if not self._console.is_terminal and late:
            self._last_line = time.monotonic()
            self.tell(
                f"{name}: round {now.number} of {run.config.rounds}, {current}, "
                f"about {self._seconds_left(done):.0f} s left"
            )

    def _seconds_left(self, done: int) -> float:
        made = max(done - (self._start_count or 0), 1)
        return (time.monotonic() - self._started) / made * (self._total - done)


def _current(now: Round) -> str:
    accuracy = now.measures["validation_accuracy_trained"]
    if not np.isnan(accuracy).all():
        return f"validation {np.nanmean(accuracy):.1%}"
    loss = now.measures["validation_loss_trained"]
    return "" if np.isnan(loss).all() else f"validation loss {np.nanmean(loss):.4g}"
