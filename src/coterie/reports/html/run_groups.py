"""Groups of runs on the same data, which can be compared. A page shows one group at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from coterie.errors import StorageError
from coterie.experiments.config import RunConfig
from coterie.experiments.recorded_tables import RecordedTables
from coterie.experiments.run_folder import RunFolder
from coterie.results.read_runs import Runs
from coterie.results.statistics import confidence_interval
from coterie.runtime.run_tables import SCHEMAS
from coterie.tasks import TaskScore

LOCAL = "local"
"""The strategy without exchange, in which every peer trains alone. Gains are relative to it."""


@dataclass(frozen=True)
class RunGroup:
    """Runs of several strategies and seeds with the same peers and data."""

    runs: tuple[RunFolder, ...]
    problems: tuple[str, ...] = ()
    """Sentences about what could not be read."""

    @property
    def config(self) -> RunConfig:
        """The settings of the first run. All runs have the same settings of data and peers."""
        return self.runs[0].config

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The strategies' names, in the order in which they are shown."""
        return tuple(dict.fromkeys(run.label for run in self.runs))

    @cached_property
    def runs_by_label(self) -> dict[str, list[RunFolder]]:
        """The runs of each strategy, one per seed."""
        return {label: [run for run in self.runs if run.label == label] for label in self.labels}

    @property
    def seeds(self) -> tuple[int, ...]:
        """All seeds, in order."""
        return tuple(sorted({run.seed for run in self.runs}))

    @property
    def cluster_names(self) -> tuple[str, ...]:
        """The names of the true clusters, of the run that has most of them."""
        return max((run.cluster_names for run in self.runs), key=len)

    @property
    def cluster_numbers(self) -> list[str]:
        """The numbers of the true clusters, as text; empty if they are unknown."""
        known = self.cluster_names if self.runs[0].has_clusters else ()
        return [str(number) for number in range(len(known))]

    @property
    def score(self) -> TaskScore:
        """What the runs measure."""
        return self.runs[0].score

    @cached_property
    def local_label(self) -> str | None:
        """The label of the strategy `local`; None if no run has it."""
        names = [run.label for run in self.runs if run.config.strategy["name"] == LOCAL]
        return names[0] if names else None

    @cached_property
    def initial_label(self) -> str:
        """The strategy that figures show first: the best one in which peers choose other peers."""
        sign = self.score.sign
        levels = {
            label: sign * confidence_interval([run.summary.mean for run in runs])[0]
            for label, runs in self.runs_by_label.items()
        }
        fair = [
            label
            for label in self.labels
            if label != self.local_label and not self.advantage(label)
        ]
        selective = [label for label in fair if self._has_preferences(label)]
        candidates = selective or fair or self.labels
        return max(candidates, key=lambda label: np.nan_to_num(levels[label], nan=-np.inf))

    def _has_preferences(self, label: str) -> bool:
        """Whether the run recorded which peers a peer prefers."""
        tables = ("beliefs", "chosen_neighbours")
        first = self.runs_by_label[label][0]
        return any(first.table(name).num_rows for name in tables)

    def advantage(self, label: str) -> str:
        """Return what a yardstick has that peers do not have in practice; "" for a competitor."""
        return self.runs_by_label[label][0].advantage


def group_runs(runs: Runs) -> list[RunGroup]:
    """Return groups of comparable runs; the first group has all problems."""
    groups: dict[str, list[RunFolder]] = {}
    problems = list(runs.problems)
    for run in runs:
        groups.setdefault(_data_key(run), []).append(_skip_damaged_tables(run, problems))
    found = [RunGroup(tuple(members)) for members in groups.values()]
    return [replace(found[0], problems=tuple(problems)), *found[1:]]


def _data_key(run: RunFolder) -> str:
    """Return a text that is equal for runs with the same data settings."""
    config = run.config
    settings = config.model_dump(mode="json", include={"preset", "data", "shift", "drift", "peers"})
    del settings["data"]["root"]  # the folder of the data changes no result
    return repr((run.score, settings))


def _skip_damaged_tables(run: RunFolder, problems: list[str]) -> RunFolder:
    """Return the run with empty tables instead of damaged ones; add these to `problems`."""
    damaged = {name for name in SCHEMAS if _is_damaged(run, name, problems)}

    def read(folder: Path, name: str) -> pa.Table:
        return SCHEMAS[name].empty_table() if name in damaged else run.tables.read(folder, name)

    tables = RecordedTables(run.folder, run.num_peers, read)
    return replace(run, tables=tables) if damaged else run


def _is_damaged(run: RunFolder, name: str, problems: list[str]) -> bool:
    try:
        run.table(name)
    except StorageError as error:
        where = f"{run.label} with seed {run.seed}"
        text = str(error).replace(str(run.folder), where)
        problems.append(f"{text} It is left out here.")
        return True
    return False
