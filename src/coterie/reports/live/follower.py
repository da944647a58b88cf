"""Follows the runs of a folder from outside: what they have recorded, and how far they are."""

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

QUIET_SECONDS = 60.0
"""After how long without news a run may have been stopped, if its rounds are not that slow."""
QUIET_ROUNDS = 5
"""And after how many times the usual length of a round."""
LATELY = 20
"""How many rounds tell how long a round takes."""
State: TypeAlias = Literal["waiting", "running", "quiet", "finished"]
Stamp: TypeAlias = tuple[tuple[int, int] | None, ...]
"""When files were last changed, and their inodes; None: not there."""


@dataclass(frozen=True)
class RunProgress:
    """How far one run is."""

    name: str
    label: str
    seed: int
    num_rounds: int
    """How many rounds the run has, the initial training included."""
    num_done: int
    state: State
    seconds_per_round: float | None
    """Lately; None before the first round."""


@dataclass(frozen=True)
class Sight:
    """What is to be seen of a folder at one moment."""

    folder: Path
    title: str
    """The preset, once it is known."""
    gathered: Runs
    """The runs that have recorded something, and what could not be read."""
    progress: tuple[RunProgress, ...]
    """Of all runs, those that have not begun included."""

    @property
    def num_rounds(self) -> int:
        """How many rounds there are in all."""
        return sum(run.num_rounds for run in self.progress)

    @property
    def num_done(self) -> int:
        """How many of them are done."""
        return sum(run.num_done for run in self.progress)

    @property
    def is_finished(self) -> bool:
        """Whether nothing more will come."""
        return bool(self.progress) and all(run.state == "finished" for run in self.progress)

    @property
    def seconds_left(self) -> float | None:
        """About how long it still takes: runs that have not begun will be as fast as the others."""
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
        # Runs side by side share the work that is left.
        return total / len(running)


class Follower:
    """Looks at a folder again and again; whoever runs there need not know."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: Stamp | None = None
        self._problems: list[str] = []
        self._runs: list[_FollowedRun] = []
        self._last: tuple[tuple[State, ...], tuple[str, ...]] | None = None

    def look(self) -> Sight | None:
        """Return what is to be seen now; None if it is the same as at the last look."""
        is_new = self._open()
        # All runs look, not only those up to the first that has news.
        has_news = sum(run.look() for run in self._runs) > 0
        progress = tuple(run.progress() for run in self._runs)
        states = (tuple(each.state for each in progress), tuple(self._problems))
        if not (is_new or has_news or states != self._last):
            return None
        self._last = states
        begun = [run.run for run in self._runs if run.num_done > 0]
        damage = [problem for run in self._runs for problem in run.problems]
        gathered = select_recorded(begun, [*self._problems, *damage])
        title = self._runs[0].run.config.preset if self._runs else self._folder.name
        return Sight(self._folder, title, gathered, progress)

    @property
    def has_ended(self) -> bool:
        """Whether all runs known have written their last file; a glance, without reading any."""
        return bool(self._runs) and all((run.run.folder / SUMMARY).exists() for run in self._runs)

    def _open(self) -> bool:
        """Find out which runs there are, if that may have changed; return whether it has."""
        stamp = _stamp(self._folder / EXPERIMENT, self._folder / CONFIG)
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
        self._seen: Stamp | None = None
        self._seconds_per_round: float | None = None
        self._changed = 0.0
        self.num_done = 0

    @property
    def problems(self) -> Sequence[str]:
        """What could not be read."""
        return self._parts.problems

    def look(self) -> bool:
        """Read what is new; return whether there was anything."""
        folder = self.run.folder
        # The timings are written after all other tables: one glance tells whether to read any.
        places = (folder / "timings", folder / "timings.parquet", folder / SUMMARY)
        stamp = _stamp(*places)
        if stamp == self._seen:
            return False
        self._seen = stamp
        self._changed = max((at[0] / 1e9 for at in stamp if at), default=0.0)
        self._parts.refresh()
        tables = RecordedTables(folder, self.run.num_peers, self._parts.table)
        self.run = replace(self.run, tables=tables, cache={})
        self.num_done = self.run.last_round + 1
        if self.num_done:
            lately = self.run.timings["wall_seconds"].to_numpy()[-LATELY:]
            self._seconds_per_round = float(lately.mean())
        return True

    def progress(self) -> RunProgress:
        """Return how far the run is."""
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

    def _state(self) -> State:
        if self._seen and self._seen[-1] is not None:
            return "finished"
        if not self.num_done:
            return "waiting"
        patience = max(QUIET_SECONDS, QUIET_ROUNDS * (self._seconds_per_round or 0.0))
        return "quiet" if time.time() - self._changed > patience else "running"


def _stamp(*paths: Path) -> Stamp:
    return tuple(_changed_at(path) for path in paths)


def _changed_at(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
