"""Follow the runs of a folder while they are running: read their records and their progress."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from coterie.errors import CoterieError
from coterie.experiments.config import CONFIG
from coterie.experiments.experiment_file import EXPERIMENT
from coterie.experiments.growing_tables import GrowingTables
from coterie.experiments.recorded_tables import RecordedTables
from coterie.experiments.run_folder import SUMMARY, RunFolder
from coterie.results.read_runs import Runs, open_runs, select_recorded

QUIET_SECONDS, QUIET_ROUNDS = 60.0, 5
"""A run without a new round for QUIET_SECONDS, and for QUIET_ROUNDS usual rounds, is quiet."""
LAST_ROUNDS = 20
"""Number of rounds over which the duration of a round is averaged."""
RunState: TypeAlias = Literal["waiting", "running", "quiet", "finished"]
FileTimes: TypeAlias = tuple[tuple[int, int] | None, ...]
"""Modification times and inodes of files; None for a missing file."""


@dataclass(frozen=True)
class RunProgress:
    """The progress of one run."""

    name: str
    label: str
    seed: int
    num_rounds: int
    """Number of rounds, including the initial training."""
    num_done: int
    state: RunState
    seconds_per_round: float | None
    """Mean of the last rounds; None before the first round."""


@dataclass(frozen=True)
class Snapshot:
    """The runs of a folder at one moment."""

    folder: Path
    title: str
    """The preset; the name of the folder before the preset is known."""
    runs: Runs
    """The runs that have recorded a round, and the problems of others."""
    progress: tuple[RunProgress, ...]
    """The progress of all runs, including those that have not begun."""

    @property
    def num_rounds(self) -> int:
        """Number of rounds of all runs."""
        return sum(run.num_rounds for run in self.progress)

    @property
    def num_done(self) -> int:
        """Number of finished rounds of all runs."""
        return sum(run.num_done for run in self.progress)

    @property
    def is_finished(self) -> bool:
        """Whether all runs have finished."""
        return bool(self.progress) and all(run.state == "finished" for run in self.progress)

    @property
    def seconds_left(self) -> float | None:
        """Estimated remaining time; runs that have not begun count as fast as the others."""
        known = [each.seconds_per_round for each in self.progress if each.seconds_per_round]
        running = [each for each in self.progress if each.state == "running"]
        if not known or not running:
            return None
        usual = sum(known) / len(known)
        total = sum(
            (each.seconds_per_round or usual) * (each.num_rounds - each.num_done)
            for each in self.progress
            if each.state != "finished"
        )
        # Parallel runs share the remaining work.
        return total / len(running)


class RunFollower:
    """Reads a folder repeatedly. The runs do not notice it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: FileTimes | None = None
        self._problems: list[str] = []
        self._runs: list[_FollowedRun] = []
        self._last: tuple[tuple[RunState, ...], tuple[str, ...]] | None = None

    def take_snapshot(self) -> Snapshot | None:
        """Return the state of the runs; None if nothing has changed since the last call."""
        is_new = self._open()
        # A sum, because any() would stop at the first run with news.
        has_news = sum(run.refresh() for run in self._runs) > 0
        progress = tuple(run.progress() for run in self._runs)
        states = (tuple(each.state for each in progress), tuple(self._problems))
        if not (is_new or has_news or states != self._last):
            return None
        self._last = states
        begun = [run.run for run in self._runs if run.num_done > 0]
        damage = [problem for run in self._runs for problem in run.problems]
        runs = select_recorded(begun, [*self._problems, *damage])
        title = self._runs[0].run.config.preset if self._runs else self._folder.name
        return Snapshot(self._folder, title, runs, progress)

    @property
    def has_ended(self) -> bool:
        """Whether all known runs have a summary, which is their last file; reads no file."""
        return bool(self._runs) and all((run.run.folder / SUMMARY).exists() for run in self._runs)

    def _open(self) -> bool:
        """Open the runs of the folder again if its settings changed; return whether they did."""
        stamp = _file_times(self._folder / EXPERIMENT, self._folder / CONFIG)
        if stamp == self._opened:
            return False
        self._opened = stamp
        self._problems, self._runs = [], []
        if any(stamp):
            try:
                found = open_runs(self._folder, self._problems)
            except CoterieError as error:
                self._problems, found = [str(error)], []
            self._runs = [_FollowedRun(run) for run in found]
        return True


class _FollowedRun:
    """One run of the folder."""

    def __init__(self, run: RunFolder) -> None:
        self._parts = GrowingTables(run.folder)
        self.run = run
        self._seen: FileTimes | None = None
        self._seconds_per_round: float | None = None
        self._changed = 0.0
        self.num_done = 0

    @property
    def problems(self) -> Sequence[str]:
        """The parts that could not be read."""
        return self._parts.problems

    def refresh(self) -> bool:
        """Read new rounds; return whether there were any."""
        folder = self.run.folder
        # The timings are written after all other tables, so only they need to be checked.
        paths = (folder / "timings", folder / "timings.parquet", folder / SUMMARY)
        stamp = _file_times(*paths)
        if stamp == self._seen:
            return False
        self._seen = stamp
        self._changed = max((at[0] / 1e9 for at in stamp if at), default=0.0)
        self._parts.refresh()
        tables = RecordedTables(folder, self.run.num_peers, self._parts.table)
        self.run = replace(self.run, tables=tables, cache={})
        self.num_done = self.run.last_round + 1
        if self.num_done:
            durations = self.run.timings["wall_seconds"].to_numpy()[-LAST_ROUNDS:]
            self._seconds_per_round = float(durations.mean())
        return True

    def progress(self) -> RunProgress:
        """Return the progress of the run."""
        config = self.run.config
        return RunProgress(
            name=self.run.folder.name,
            label=self.run.label,
            seed=config.seed,
            num_rounds=config.rounds + 1,
            num_done=min(self.num_done, config.rounds + 1),
            state=self._state(),
            seconds_per_round=self._seconds_per_round,
        )

    def _state(self) -> RunState:
        if self._seen and self._seen[-1] is not None:
            return "finished"
        if not self.num_done:
            return "waiting"
        patience = max(QUIET_SECONDS, QUIET_ROUNDS * (self._seconds_per_round or 0.0))
        return "quiet" if time.time() - self._changed > patience else "running"


def _file_times(*paths: Path) -> FileTimes:
    return tuple(_changed_at(path) for path in paths)


def _changed_at(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
