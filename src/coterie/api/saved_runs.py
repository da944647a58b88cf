"""Loads recorded runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.errors import ConfigError

if TYPE_CHECKING:
    from coterie.experiments.run_folder import RunFolder
    from coterie.results.read_runs import Runs


def load_run(path: str | os.PathLike[str]) -> RunFolder:
    """Load one run, finished or not.

    Tables are Arrow tables: `.metrics.to_pandas()` returns a data frame. docs/run-folder.md
    explains the columns.

    Parameters
    ----------
    path
        The folder of the run, or an output folder with a single run.

    Examples
    --------
    >>> import coterie
    >>> run = coterie.load_run("runs/mine/dac-seed0")
    >>> run.label, run.seed, run.metrics.num_rows
    ('dac', 0, 32)
    """
    from coterie.experiments.experiment import Experiment

    folder = Path(path).expanduser()
    runs = Experiment.open(folder).runs
    if len(runs) > 1:
        names = ", ".join(run.folder.name for run in runs[:3])
        raise ConfigError(
            f"{folder} has {len(runs)} runs: {names}{', …' if len(runs) > 3 else ''}. Give one of "
            "these folders, or load all runs with coterie.load_runs."
        )
    return load_runs(folder)[0]


def load_runs(*paths: str | os.PathLike[str]) -> Runs:
    """Load all runs of output folders; `problems` lists those that cannot be read.

    Parameters
    ----------
    *paths
        Output folders, or folders of runs.

    Examples
    --------
    >>> import coterie
    >>> [run.label for run in coterie.load_runs("runs/mine")]
    ['dac', 'local']
    """
    from coterie.results.read_runs import read_runs

    return read_runs([Path(path).expanduser() for path in paths])
