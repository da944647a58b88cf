"""The progress of an experiment: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from coterie.experiments.experiment import Experiment
from coterie.experiments.run_folder import RunFolder
from coterie.runtime.round_metrics import RoundMetrics

LINE_SECONDS = 10.0
"""The time between lines if there is no terminal."""
DRAW_SECONDS = 0.1


class Display:
    """Shows one bar for all runs of an experiment, and one for each active run."""

    def __init__(self, experiment: Experiment, console: Console) -> None:
        self._console = console
        self._runs = experiment.runs
        self._done = {run.folder: _length(run) for run in self._runs if run.read_summary()}
        self._num_ended = len(self._done)
        self._total = sum(_length(run) for run in self._runs)
        # Drawn here and not by another thread, because processes are forked meanwhile.
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[current]}"),
            console=console,
            disable=not console.is_terminal,
            auto_refresh=False,
        )
        self._whole = self._progress.add_task("starting", total=self._total, current="")
        self._bars: dict[Path, TaskID] = {}
        self._started = time.monotonic()
        self._start_count = sum(self._done.values())
        self._last_line = self._last_drawn = self._started

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
        """Print a message above the bars."""
        self._console.print(message, soft_wrap=True, highlight=False, markup=False)

    def show(self, run: RunFolder, now: RoundMetrics) -> None:
        """Show a finished round."""
        self._done[run.folder] = now.round + 1
        if len(self._runs) > 1:
            if run.folder not in self._bars:
                name = escape(run.folder.name)
                self._bars[run.folder] = self._progress.add_task(
                    name, total=_length(run), current=""
                )
            self._progress.update(
                self._bars[run.folder], completed=now.round + 1, current=_current(now)
            )
        self._draw(_current(now) if len(self._runs) == 1 else "")
        late = time.monotonic() - self._last_line >= LINE_SECONDS
        if not self._console.is_terminal and late:
            self._last_line = time.monotonic()
            self.tell(self._line(run, now))

    def end(self, run: RunFolder) -> None:
        """Count a run that has ended, perhaps before its last round."""
        self._num_ended += 1
        self._done[run.folder] = _length(run)
        if run.folder in self._bars:
            self._progress.remove_task(self._bars.pop(run.folder))
        self._draw("")

    def _draw(self, current: str) -> None:
        whole = self._runs[0].folder.name if len(self._runs) == 1 else self._runs_done()
        self._progress.update(
            self._whole,
            completed=sum(self._done.values()),
            description=escape(whole),
            current=current,
        )
        if time.monotonic() - self._last_drawn >= DRAW_SECONDS:
            self._last_drawn = time.monotonic()
            self._progress.refresh()

    def _line(self, run: RunFolder, now: RoundMetrics) -> str:
        runs = f"{self._runs_done()}, " if len(self._runs) > 1 else ""
        return (
            f"{run.folder.name}: round {now.round} of {run.config.rounds}, {_current(now)}, "
            f"{runs}about {self._seconds_left():.0f} s left"
        )

    def _runs_done(self) -> str:
        return f"{self._num_ended} of {len(self._runs)} runs done"

    def _seconds_left(self) -> float:
        done = sum(self._done.values())
        num_new = max(done - self._start_count, 1)
        return (time.monotonic() - self._started) / num_new * (self._total - done)


def _length(run: RunFolder) -> int:
    return run.config.rounds + 1


def _current(now: RoundMetrics) -> str:
    if math.isnan(now.validation_score):
        return ""
    return f"validation {now.score.name} {now.score.format(now.validation_score)}"
