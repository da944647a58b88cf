"""What a page is about: runs on the same data, which can be laid side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

ALONE = "local"
"""The strategy that all others are measured against: training alone."""


@dataclass(frozen=True)
class Subject:
    """Runs with the same peers and data: other strategies, other seeds."""

    runs: tuple[RunFolder, ...]
    problems: tuple[str, ...] = ()
    """What could not be read, in words for people."""

    @property
    def config(self) -> RunConfig:
        """The settings of the first run; those of the data are the same for all."""
        return self.runs[0].config

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The strategies' names, in the order in which they are shown."""
        return tuple(dict.fromkeys(run.label for run in self.runs))

    @cached_property
    def by_label(self) -> dict[str, list[RunFolder]]:
        """The runs of each strategy, one per seed."""
        return {label: [run for run in self.runs if run.label == label] for label in self.labels}

    @property
    def seeds(self) -> tuple[int, ...]:
        """All seeds, in order."""
        return tuple(sorted({run.seed for run in self.runs}))

    @property
    def cluster_names(self) -> tuple[str, ...]:
        """The names of the true clusters; of the most that any run has."""
        return max((run.cluster_names for run in self.runs), key=len)

    @property
    def is_accuracy(self) -> bool:
        """Whether peers classify; otherwise the measure is a squared error."""
        return self.runs[0].is_accuracy

    @cached_property
    def alone(self) -> str | None:
        """The label under which peers train alone; None if nobody did."""
        names = [run.label for run in self.runs if run.config.strategy["name"] == ALONE]
        return names[0] if names else None

    @cached_property
    def favourite(self) -> str:
        """The strategy to look at first: the best that finds out by itself whom to learn from."""
        sign = 1.0 if self.is_accuracy else -1.0
        levels = {
            label: sign * confidence_interval([run.summary.mean for run in runs])[0]
            for label, runs in self.by_label.items()
        }
        fair = [label for label in self.labels if label != self.alone and not self.advantage(label)]
        choosy = [label for label in fair if self._keeps_lists(label)]
        among = choosy or fair or self.labels
        return max(among, key=lambda label: np.nan_to_num(levels[label], nan=-np.inf))

    def _keeps_lists(self, label: str) -> bool:
        """Whether peers of a strategy have noted whom they prefer."""
        tables = ("beliefs", "chosen_neighbours")
        first = self.by_label[label][0]
        return any(first.table(name).num_rows for name in tables)

    def is_told(self, label: str) -> bool:
        """Whether a strategy is told the true clusters, which no peer knows in practice."""
        return self.by_label[label][0].uses_ground_truth

    def has_server(self, label: str) -> bool:
        """Whether a strategy needs a server, which peers do not have."""
        return self.by_label[label][0].has_server

    def advantage(self, label: str) -> str:
        """Return what a strategy has that peers lack, which makes it a yardstick; else nothing."""
        return self.by_label[label][0].advantage


def subjects(gathered: Runs) -> list[Subject]:
    """Return the runs in groups that can be compared; the problems stand with the first."""
    groups: dict[str, list[RunFolder]] = {}
    problems = list(gathered.problems)
    for run in gathered:
        groups.setdefault(_data_of(run), []).append(_readable(run, problems))
    found = [Subject(tuple(runs)) for runs in groups.values()]
    return [replace(found[0], problems=tuple(problems)), *found[1:]]


def _data_of(run: RunFolder) -> str:
    """Return a text that is equal for runs whose peers have the same data but for the seed."""
    config = run.config
    settings = config.model_dump(mode="json", include={"preset", "data", "shift", "drift", "peers"})
    del settings["data"]["root"]  # where a copy lies is nobody's business
    return repr((run.is_accuracy, settings))


def _readable(run: RunFolder, problems: list[str]) -> RunFolder:
    """Return the run with empty tables in the place of damaged ones, and tell of these."""
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
        problems.append(f"{text} What it would show is left out.")
        return True
    return False


def in_order(labels: Sequence[str], runs: Iterable[RunFolder]) -> list[RunFolder]:
    """Return runs by strategy, then by seed."""
    return sorted(runs, key=lambda run: (labels.index(run.label), run.seed))
