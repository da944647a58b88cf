"""Runs as TensorBoard event files, one folder per run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from coterie.errors import ConfigError
from coterie.experiments.config import CONFIG
from coterie.experiments.run_folder import RunFolder
from coterie.reports.export.curves import curves
from coterie.storage.files import explained, make_folder

SUFFIX = ".coterie"
"""How our event files end: those, and no others, are replaced by a later export."""


def event_writer() -> Any:
    """Return the class that writes event files; an error for people if it is not installed."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ConfigError(
            "Writing TensorBoard files needs the package tensorboardX, which is not installed. "
            "Install it with: pip install 'coterie[tensorboard]'"
        ) from None
    return SummaryWriter


def export(runs: Iterable[RunFolder], folder: Path) -> Iterator[Path]:
    """Write the curves of runs; yield the folder of each, FOLDER/PRESET/STRATEGY-seedN."""
    taken: set[Path] = set()
    for run in runs:
        target = first = folder / _plain(run.config.preset) / f"{_plain(run.label)}-seed{run.seed}"
        number = 1
        while target in taken:
            number += 1
            target = first.with_name(f"{first.name}~{number}")
        taken.add(target)
        _write(run, target)
        yield target


def _write(run: RunFolder, target: Path) -> None:
    make_folder(target)
    with explained(f"write to {target}"):
        ends = _ends(run)
        for old in target.glob(f"*{SUFFIX}"):
            old.unlink()
        with event_writer()(str(target), filename_suffix=SUFFIX) as writer:
            for point in curves(run, run.cluster_names):
                writer.add_scalar(point.curve, point.value, point.round, ends[point.round])


def _plain(name: str) -> str:
    """Return a name that is that of one folder, whatever a configuration says."""
    return re.sub(r"[^\w.+=-]+", "_", name).strip("._") or "run"


def _ends(run: RunFolder) -> dict[int, float]:
    """Return when each round ended, in seconds since 1970: when the run began, and its timings."""
    clock = (run.folder / CONFIG).stat().st_mtime
    ends = {}
    for row in run.table("timings").to_pylist():
        clock += row["wall_seconds"]
        ends[row["round"]] = clock
    return ends
