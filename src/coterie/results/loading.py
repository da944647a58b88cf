"""Runs as objects for notebooks: their settings, their tables and their models.

`coterie.load_run("runs/mine/dac-seed0").metrics` is an Arrow table, which `.to_pandas()` turns into
a data frame; docs/run-folder.md says what the columns mean.
"""

from __future__ import annotations

import os
from pathlib import Path

from coterie.errors import ConfigError
from coterie.experiments.experiment import Experiment
from coterie.experiments.run_folder import RunFolder
from coterie.results.read_runs import Runs, read_runs


def load_run(path: str | os.PathLike[str]) -> RunFolder:
    """Load one run, finished or not.

    Parameters
    ----------
    path
        The folder of the run, or an output folder that holds a single run.

    Examples
    --------
    >>> import coterie
    >>> run = coterie.load_run("runs/mine/dac-seed0")
    >>> run.label, run.seed, run.metrics.num_rows
    ('dac', 0, 32)
    """
    folder = Path(path).expanduser()
    runs = Experiment.open(folder).runs
    if len(runs) > 1:
        names = ", ".join(run.folder.name for run in runs[:3])
        raise ConfigError(
            f"{folder} holds {len(runs)} runs: {names}{', …' if len(runs) > 3 else ''}. Name one "
            "of these folders, or load them all with coterie.load_runs."
        )
    return load_runs(folder)[0]


def load_runs(*paths: str | os.PathLike[str]) -> Runs:
    """Load all runs of output folders; `problems` names those that cannot be read.

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
    return read_runs([Path(path).expanduser() for path in paths])
