"""TensorBoard event files, one folder per run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from coterie.errors import ConfigError
from coterie.experiments.run_folder import CONFIG, RunFolder
from coterie.reports.export.run_curves import read_points
from coterie.storage.files import explain_errors, make_folder

SUFFIX = ".coterie"
"""The suffix of Coterie's event files; a later export replaces only these."""


def load_event_writer() -> Any:
    """Return the class that writes event files; raise ConfigError if it is not installed."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ConfigError(
            "TensorBoard files need the package tensorboardX, which is not installed. "
            "Install it with: pip install 'coterie[tensorboard]'"
        ) from None
    return SummaryWriter


def export_runs(runs: Iterable[RunFolder], folder: Path) -> Iterator[Path]:
    """Write the curves of runs; yield their folders, FOLDER/PRESET/STRATEGY-seedN."""
    taken: set[Path] = set()
    for run in runs:
        target = first = (
            folder / _folder_name(run.config.preset) / f"{_folder_name(run.label)}-seed{run.seed}"
        )
        number = 1
        while target in taken:
            number += 1
            target = first.with_name(f"{first.name}~{number}")
        taken.add(target)
        _write(run, target)
        yield target


def _write(run: RunFolder, target: Path) -> None:
    make_folder(target)
    with explain_errors(f"write to {target}"):
        end_times = _end_times(run)
        for old in target.glob(f"*{SUFFIX}"):
            old.unlink()
        with load_event_writer()(str(target), filename_suffix=SUFFIX) as writer:
            for point in read_points(run, run.cluster_names):
                writer.add_scalar(point.curve, point.value, point.round, end_times[point.round])


def _folder_name(name: str) -> str:
    """Return a name that is not a path, because a configuration may contain any text."""
    return re.sub(r"[^\w.+=-]+", "_", name).strip("._") or "run"


def _end_times(run: RunFolder) -> dict[int, float]:
    """Return the end of each round in Unix time, from the start of the run and its timings."""
    clock = (run.folder / CONFIG).stat().st_mtime
    ends = {}
    for row in run.table("timings").to_pylist():
        clock += row["wall_seconds"]
        ends[row["round"]] = clock
    return ends
