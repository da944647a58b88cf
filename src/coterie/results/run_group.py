"""Runs of several folders, as far as they can be read: what every look at results starts from.

A run that is damaged, or has recorded nothing yet, is a problem to tell and costs no other run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from coterie.errors import CoterieError, StorageError
from coterie.experiments.config import RunConfig
from coterie.experiments.execution import CONFIG, Run
from coterie.experiments.experiment import EXPERIMENT, Experiment
from coterie.experiments.provenance import UNKNOWN, Start, read_start
from coterie.experiments.recorded_tables import Recorded
from coterie.experiments.sweep import value_of
from coterie.results.final_table import Outcome, outcome
from coterie.results.published_comparison import influential
from coterie.storage.files import explained
from coterie.strategies import STRATEGIES
from coterie.strategies.server.server_strategy import ServerStrategy


@dataclass(frozen=True)
class FoundRun:
    """A run that has recorded at least one round."""

    recorded: Recorded
    config: RunConfig
    finished: Outcome | None
    """What the run reached; None while it has not finished."""
    cluster_names: tuple[str, ...]
    start: Start = UNKNOWN

    @property
    def label(self) -> str:
        """What the run is called in tables; the seeds of one label belong together."""
        return self.recorded.label

    @property
    def seed(self) -> int:
        """What every random draw of the run depended on."""
        return self.recorded.seed

    @cached_property
    def is_accuracy(self) -> bool:
        """Whether the run classifies; otherwise its losses are squared errors."""
        if self.finished is not None:
            return self.finished.is_accuracy
        accuracies = self.recorded.table("metrics")["validation_accuracy_trained"].to_numpy()
        return not np.isnan(accuracies).all()

    @property
    def is_told(self) -> bool:
        """Whether the strategy is told the true clusters, which no peer knows in practice."""
        kind = STRATEGIES.get(self.config.strategy["name"])
        return kind is not None and kind.uses_ground_truth

    @property
    def has_server(self) -> bool:
        """Whether the strategy needs a server, which peers do not have."""
        kind = STRATEGIES.get(self.config.strategy["name"])
        return kind is not None and issubclass(kind, ServerStrategy)

    @property
    def advantage(self) -> str:
        """What the strategy has that peers lack, which makes it a yardstick; else nothing."""
        told = ["told the true clusters"] * self.is_told
        return ", ".join([*told, *["needs a server"] * self.has_server])

    @cached_property
    def poisoned(self) -> tuple[int, ...]:
        """The peers that misbehave in some round; none of the results is theirs."""
        metrics = self.recorded.table("metrics")
        found = pc.unique(metrics.filter(metrics["poisoned"])["peer"])
        return tuple(sorted(found.to_pylist()))

    @cached_property
    def last_tested(self) -> int:
        """The last round with a test; the very last round if there was none yet."""
        metrics = self.recorded.table("metrics")
        tested = metrics.filter(pc.invert(pc.is_nan(metrics["test_loss"])))
        last: int = pc.max((tested if tested.num_rows else metrics)["round"]).as_py()
        return last

    @cached_property
    def outcome(self) -> Outcome:
        """What the run reached, or had reached when its models were last tested."""
        if self.finished is not None:
            return replace(self.finished, label=self.label, cluster_names=self.cluster_names)
        metrics = self.recorded.table("metrics")
        return outcome(
            metrics.filter(pc.less_equal(metrics["round"], self.last_tested)),
            self.label,
            self.seed,
            self.cluster_names,
            is_accuracy=self.is_accuracy,
        )


@dataclass(frozen=True)
class Gathered:
    """The runs that could be read, in their folders' order, and what was wrong with the others."""

    runs: tuple[FoundRun, ...]
    problems: tuple[str, ...]

    def by_label(self) -> dict[str, list[FoundRun]]:
        """Return the runs of each label, one per seed."""
        found: dict[str, list[FoundRun]] = {}
        for run in self.runs:
            found.setdefault(run.label, []).append(run)
        return found


def gather(folders: Iterable[Path]) -> Gathered:
    """Read the runs of output folders and of single runs; a run that is named twice counts once.

    Runs of one label are told apart by their folders where their settings differ: what is pooled
    over seeds has to be the same but for the seed.
    """
    problems: list[str] = []
    runs: dict[Path, tuple[Run, Recorded]] = {}
    for folder in folders:
        for run, recorded in open_runs(folder, problems):
            runs.setdefault(run.folder.resolve(), (run, recorded))
    gathered = gather_runs(runs.values(), problems)
    if not gathered.runs:
        reasons = "\n".join(gathered.problems) or "No folder was named."
        raise StorageError(f"There is no run to look at.\n{reasons}")
    return gathered


def gather_runs(runs: Iterable[tuple[Run, Recorded]], problems: Sequence[str] = ()) -> Gathered:
    """Return the runs that have recorded something; `problems` are those that are known already."""
    told = list(problems)
    found = [each for pair in runs if (each := _read(*pair, told)) is not None]
    return Gathered(tuple(_named_clusters(_distinct(found, told))), tuple(told))


def about_poison(by_label: Mapping[str, Sequence[FoundRun]]) -> list[str]:
    """Say under which strategies how many peers were poisoned; nothing if nobody was."""
    found: dict[str, dict[str, str]] = {}
    for label, (run, *_) in by_label.items():
        if run.poisoned:
            poison = run.config.poison
            how = (
                f"{len(run.poisoned)} of {run.recorded.num_peers} peers are poisoned from round "
                f"{poison.from_round} on"
            )
            found.setdefault(how, {})[label] = poison.kind
    ending = "; all results are those of the honest ones."
    return [
        f"{how} ({next(iter(kinds.values()))}){ending}"
        if len(kinds) == len(by_label) and len({*kinds.values()}) == 1
        else f"With {_listed(kinds)}, {how}{ending}"
        for how, kinds in found.items()
    ]


def _listed(kinds: Mapping[str, str]) -> str:
    return ", ".join(f"{label} ({kind})" for label, kind in kinds.items())


def recorded_runs(experiment: Experiment) -> list[Recorded]:
    """Return the tables of every run; in a sweep, what varies is part of the strategy's name."""
    keys = experiment.grid.varied if experiment.grid else ()
    recorded = []
    for run in experiment.runs:
        config = run.config
        values = {key: value_of(config, key) for key in keys}
        varied = [f"{key}={value}" for key, value in values.items() if value is not None]
        label = " ".join([config.label, *varied])
        names = _names_or_none(run)
        recorded.append(
            Recorded(label, config.seed, run.folder, config.peers.count, cluster_names=names)
        )
    return recorded


def _names_or_none(run: Run) -> tuple[str, ...]:
    """Return what the clusters of a run are called; nothing where that cannot be read."""
    try:
        names = run.cluster_names
        # Older runs say it in their outcome alone.
        return names if names or run.outcome is None else run.outcome.cluster_names
    except StorageError:  # told where the run itself is looked at
        return ()


def open_runs(folder: Path, problems: list[str]) -> list[tuple[Run, Recorded]]:
    """Return the runs of a folder; of one whose list of runs is lost, those that are there.

    A folder of output folders, such as that of a study, has all of their runs.
    """

    def tell(error: CoterieError) -> None:
        problems.append(str(error))

    if inside := output_folders(folder):
        return [pair for each in inside for pair in open_runs(each, problems)]
    try:
        experiment = Experiment.open(folder, tell)
    except CoterieError as error:
        tell(error)
        inside = [] if (folder / CONFIG).exists() else _folders_with(CONFIG, folder)
        return [pair for each in inside for pair in open_runs(each, problems)]
    return list(zip(experiment.runs, recorded_runs(experiment), strict=True))


def output_folders(folder: Path) -> list[Path]:
    """Return the output folders in a folder that is none itself, such as that of a study."""
    if any((folder / name).exists() for name in (EXPERIMENT, CONFIG)):
        return []
    return _folders_with(EXPERIMENT, folder)


def _folders_with(name: str, folder: Path) -> list[Path]:
    with explained(f"look into {folder}"):
        if not folder.is_dir():
            return []
        return sorted(each for each in folder.iterdir() if (each / name).is_file())


def _distinct(runs: Sequence[FoundRun], problems: list[str]) -> list[FoundRun]:
    """Give runs of one label but other settings other labels; leave repeated seeds out.

    Of two runs with the same seed, one that has finished is kept.
    """
    labels = _labels(runs)
    kept: dict[tuple[str, str, int], FoundRun] = {}
    for run in sorted(runs, key=lambda run: run.finished is None):
        recorded = replace(run.recorded, label=labels[run.label, _settings(run.config)])
        key = (run.config.preset, recorded.label, run.seed)
        first = kept.setdefault(key, replace(run, recorded=recorded)).recorded
        if first.folder != recorded.folder:
            problems.append(
                f"{recorded.folder} is left out: {first.folder} holds a run of the same strategy "
                f"'{recorded.label}' with the same seed {run.seed}, and a seed counts once."
            )
    places = {run.recorded.folder: place for place, run in enumerate(runs)}
    return sorted(kept.values(), key=lambda run: places[run.recorded.folder])


def _labels(runs: Sequence[FoundRun]) -> dict[tuple[str, str], str]:
    """Return what runs of a label and of certain settings are called: each by its own name.

    Runs of different presets never meet in a table, so they may share one.
    """
    origins: dict[tuple[str, str], dict[str, str]] = {}
    for run in runs:
        same = origins.setdefault((run.config.preset, run.label), {})
        same.setdefault(_settings(run.config), _origin(run.recorded.folder))
    labels: dict[tuple[str, str], str] = {}
    for (_, label), kinds in origins.items():
        seen: Counter[str] = Counter()
        for settings, origin in kinds.items():
            seen[origin] += 1
            number = f" {seen[origin]}" if seen[origin] > 1 else ""
            named = f"{label} ({origin}{number})" if len(kinds) > 1 else label
            labels[label, settings] = named
    return labels


def _settings(config: RunConfig) -> str:
    """Return a text that is equal for runs that differ in the seed alone."""
    return repr((config.preset, influential(config)))


def _origin(run: Path) -> str:
    """Return the name of the output folder that a run lies in."""
    resolved = run.resolve()
    return resolved.parent.name if (resolved.parent / EXPERIMENT).exists() else resolved.name


def _read(run: Run, recorded: Recorded, problems: list[str]) -> FoundRun | None:
    """Return a run whose main tables are sound and not empty."""
    finished: Outcome | None = None
    names: tuple[str, ...] = ()
    try:
        names = run.cluster_names
        finished = run.outcome
    except StorageError as error:  # its tables may be sound all the same
        problems.append(str(error))
    try:
        if recorded.last_round < 0 or not recorded.table("metrics").num_rows:
            problems.append(f"{run.folder} has not recorded a round yet.")
            return None
        highest = pc.max(recorded.table("metrics")["cluster"]).as_py()
        if finished and highest >= len(finished.cluster_names):
            problems.append(
                f"The table 'metrics' of {run.folder} is damaged: it has more clusters than the "
                f"{len(finished.cluster_names)} of its summary."
            )
            return None
    except StorageError as error:
        problems.append(str(error))
        return None
    names = finished.cluster_names if finished else names
    return FoundRun(recorded, run.config, finished, names, _start(run.folder, problems))


def _start(folder: Path, problems: list[str]) -> Start:
    try:
        return read_start(folder)
    except StorageError as error:
        problems.append(str(error))
        return UNKNOWN


def _named_clusters(runs: Sequence[FoundRun]) -> list[FoundRun]:
    """Name the clusters of older unfinished runs as others on the same data do, or by number."""
    names = {_data(run.config): run.cluster_names for run in runs if run.cluster_names}
    counts: dict[str, int] = {}
    for run in runs:
        highest = pc.max(run.recorded.table("metrics")["cluster"]).as_py()
        counts[_data(run.config)] = max(counts.get(_data(run.config), 0), highest + 1)
    named = []
    for run in runs:
        found = run.cluster_names or names.get(_data(run.config), ())
        if len(found) < counts[_data(run.config)]:
            found = tuple(f"cluster {number}" for number in range(counts[_data(run.config)]))
        named.append(replace(run, cluster_names=found))
    return named


def _data(config: RunConfig) -> str:
    return repr((config.data.datasets, config.shift, config.peers.count))
