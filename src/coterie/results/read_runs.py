"""Reads the runs of several folders.

A run that is damaged, or has recorded nothing yet, is skipped and reported in `problems`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc

from coterie.errors import CoterieError, StorageError
from coterie.experiments.config import CONFIG, RunConfig
from coterie.experiments.experiment import Experiment
from coterie.experiments.experiment_file import EXPERIMENT
from coterie.experiments.provenance import UNKNOWN_START, RunStart, read_start
from coterie.experiments.run_folder import RunFolder
from coterie.experiments.run_summary import RunSummary
from coterie.experiments.sweep_grid import setting_text
from coterie.results.analyses.columns import add_run_names
from coterie.results.published_comparison import influential_settings
from coterie.storage.files import explain_errors


class Runs(Sequence[RunFolder]):
    """The runs of an output folder, in order."""

    def __init__(self, runs: Sequence[RunFolder], problems: Sequence[str] = ()) -> None:
        self._runs = tuple(runs)
        self.problems = tuple(problems)
        """Why other runs were skipped."""

    @overload
    def __getitem__(self, place: int) -> RunFolder: ...
    @overload
    def __getitem__(self, place: slice) -> Runs: ...
    def __getitem__(self, place: int | slice) -> RunFolder | Runs:
        if isinstance(place, slice):
            return Runs(self._runs[place], self.problems)
        return self._runs[place]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[RunFolder]:
        return iter(self._runs)

    def table(self, name: str) -> pa.Table:
        """Return a table of all runs; its first columns are strategy and seed."""
        return pa.concat_tables(
            [add_run_names(run.label, run.seed, run.table(name)) for run in self]
        )

    def by_label(self) -> dict[str, list[RunFolder]]:
        """Return the runs of each label, one per seed."""
        found: dict[str, list[RunFolder]] = {}
        for run in self:
            found.setdefault(run.label, []).append(run)
        return found

    def __repr__(self) -> str:
        lines = [f"<{len(self)} runs>", *map(repr, self)]
        return "\n  ".join([*lines, *(f"problem: {each}" for each in self.problems)])


def read_runs(folders: Iterable[Path]) -> Runs:
    """Read the runs of output folders and single runs; a run that is given twice counts once.

    Runs with the same label are pooled over seeds if only their seeds differ. If other settings
    differ, the names of their folders are added to their labels.
    """
    problems: list[str] = []
    runs: dict[Path, RunFolder] = {}
    for folder in folders:
        for run in open_runs(folder, problems):
            runs.setdefault(run.folder.resolve(), run)
    found = select_recorded(runs.values(), problems)
    if not found:
        reasons = "\n".join(found.problems) or "No folder was given."
        raise StorageError(f"There is no run to read.\n{reasons}")
    return found


def select_recorded(runs: Iterable[RunFolder], problems: Sequence[str] = ()) -> Runs:
    """Return the runs that have recorded a round; the result has `problems` and their problems."""
    problems = list(problems)
    found = [read for run in runs if (read := _read(run, problems)) is not None]
    return Runs(_name_clusters(_distinct(found, problems)), problems)


def describe_poison(by_label: Mapping[str, Sequence[RunFolder]]) -> list[str]:
    """Return sentences that say how many peers were poisoned; empty if none were."""
    found: dict[str, dict[str, str]] = {}
    for label, (run, *_) in by_label.items():
        if run.poisoned:
            poison = run.config.poison
            how = (
                f"{len(run.poisoned)} of {run.num_peers} peers are poisoned from round "
                f"{poison.from_round} on"
            )
            found.setdefault(how, {})[label] = poison.kind
    ending = "; all results are means over the honest peers."
    return [
        f"{how} ({next(iter(kinds.values()))}){ending}"
        if len(kinds) == len(by_label) and len({*kinds.values()}) == 1
        else f"With {_list_labels(kinds)}, {how}{ending}"
        for how, kinds in found.items()
    ]


def _list_labels(kinds: Mapping[str, str]) -> str:
    return ", ".join(f"{label} ({kind})" for label, kind in kinds.items())


def label_runs(experiment: Experiment) -> list[RunFolder]:
    """Return the runs of an experiment; in a sweep, labels name the settings that vary."""
    keys = experiment.grid.varied if experiment.grid else ()
    labelled = []
    for run in experiment.runs:
        values = {key: setting_text(run.config, key) for key in keys}
        varied = [f"{key}={value}" for key, value in values.items() if value is not None]
        label = " ".join([run.config.label, *varied])
        labelled.append(replace(run, label=label, cluster_names=_cluster_names(run)))
    return labelled


def _cluster_names(run: RunFolder) -> tuple[str, ...]:
    """Return the names of a run's clusters; empty if they cannot be read."""
    try:
        if names := run.read_cluster_names():
            return names
        summary = run.read_summary()  # older runs have the names only here
        return summary.cluster_names if summary else ()
    except StorageError:  # reported when the run itself is read
        return ()


def open_runs(folder: Path, problems: list[str]) -> list[RunFolder]:
    """Return the runs of a folder, or of the output folders in it, such as of a study.

    If experiment.yaml is damaged, all runs in the folder are returned.
    """
    if inside := output_folders(folder):
        return [run for each in inside for run in open_runs(each, problems)]
    try:
        return label_runs(Experiment.open(folder, problems))
    except CoterieError as error:
        problems.append(str(error))
        inside = [] if (folder / CONFIG).exists() else _folders_with(CONFIG, folder)
        return [run for each in inside for run in open_runs(each, problems)]


def output_folders(folder: Path) -> list[Path]:
    """Return the output folders in a folder, such as of a study; empty if it is one itself."""
    if any((folder / name).exists() for name in (EXPERIMENT, CONFIG)):
        return []
    return _folders_with(EXPERIMENT, folder)


def _folders_with(name: str, folder: Path) -> list[Path]:
    with explain_errors(f"look into {folder}"):
        if not folder.is_dir():
            return []
        return sorted(each for each in folder.iterdir() if (each / name).is_file())


def _distinct(runs: Sequence[RunFolder], problems: list[str]) -> list[RunFolder]:
    """Give runs of different settings different labels, and skip repeated seeds.

    Of two runs with the same seed, a finished one is kept.
    """
    labels = _labels(runs)
    kept: dict[tuple[str, str, int], RunFolder] = {}
    for each in sorted(runs, key=lambda run: run.finished is None):
        run = replace(each, label=labels[each.label, _settings(each.config)])
        first = kept.setdefault((run.config.preset, run.label, run.seed), run)
        if first.folder != run.folder:
            problems.append(
                f"{run.folder} is skipped: {first.folder} has the same strategy '{run.label}' and "
                f"the same seed {run.seed}, and each seed counts once."
            )
    positions = {run.folder: position for position, run in enumerate(runs)}
    return sorted(kept.values(), key=lambda run: positions[run.folder])


def _labels(runs: Sequence[RunFolder]) -> dict[tuple[str, str], str]:
    """Return the new label of each label and settings.

    Runs of different presets may have the same label: they are never in one table.
    """
    origins: dict[tuple[str, str], dict[str, str]] = {}
    for run in runs:
        same = origins.setdefault((run.config.preset, run.label), {})
        same.setdefault(_settings(run.config), _origin(run.folder))
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
    """Return a key that is equal for runs that differ only in the seed."""
    return repr((config.preset, influential_settings(config)))


def _origin(run: Path) -> str:
    """Return the name of the output folder of a run."""
    resolved = run.resolve()
    return resolved.parent.name if (resolved.parent / EXPERIMENT).exists() else resolved.name


def _read(run: RunFolder, problems: list[str]) -> RunFolder | None:
    """Return a run with its summary and start; None if its main tables are damaged or empty."""
    finished: RunSummary | None = None
    names: tuple[str, ...] = ()
    try:
        names = run.read_cluster_names()
        finished = run.read_summary()
    except StorageError as error:  # its tables may be intact
        problems.append(str(error))
    try:
        if run.last_round < 0 or not run.metrics.num_rows:
            problems.append(f"{run.folder} has not recorded a round yet.")
            return None
        highest = pc.max(run.metrics["cluster"]).as_py()
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
    start = _start(run.folder, problems)
    return replace(run, finished=finished, cluster_names=names, start=start)


def _start(folder: Path, problems: list[str]) -> RunStart:
    try:
        return read_start(folder)
    except StorageError as error:
        problems.append(str(error))
        return UNKNOWN_START


def _name_clusters(runs: Sequence[RunFolder]) -> list[RunFolder]:
    """Name the clusters of older unfinished runs as in other runs on the same data."""
    names = {_data(run.config): run.cluster_names for run in runs if run.cluster_names}
    counts: dict[str, int] = {}
    for run in runs:
        highest = pc.max(run.metrics["cluster"]).as_py()
        counts[_data(run.config)] = max(counts.get(_data(run.config), 0), highest + 1)
    named = []
    for run in runs:
        found = run.cluster_names or names.get(_data(run.config), ())
        if len(found) < counts[_data(run.config)]:
            found = tuple(f"cluster {number}" for number in range(counts[_data(run.config)]))
        named.append(replace(run, cluster_names=found))
    return named


def _data(config: RunConfig) -> str:
    return repr((config.data.datasets, config.data.files, config.shift, config.peers.count))
