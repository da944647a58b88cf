"""Reads run folders to compare them with published numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from coterie.errors import CoterieError
from coterie.experiments.experiment_file import EXPERIMENT
from coterie.experiments.presets import PRESETS
from coterie.experiments.published import published_tables
from coterie.experiments.run_folder import RunFolder
from coterie.experiments.run_summary import RunSummary
from coterie.results.analyses.analyse_runs import analyse_runs, choose_analyses
from coterie.results.analyses.columns import ALL
from coterie.results.published_comparison import list_departures
from coterie.results.read_runs import open_runs
from coterie.results.reproduction import ReproducedRun, Reproduction

WINDOW = 10
"""The number of rounds in the means of analyses."""


def read_reproductions(folders: Sequence[Path], problems: list[str]) -> list[Reproduction]:
    """Return the finished runs of presets in these folders, grouped by their settings."""
    found: dict[tuple[Path, str, int, tuple[str, ...]], list[ReproducedRun]] = {}
    for run in [run for folder in folders for run in open_runs(folder, problems)]:
        config = run.config
        try:
            summary = run.read_summary()
            if summary is None or config.preset not in PRESETS:
                continue
            parent = run.folder.resolve().parent
            folder = parent if (parent / EXPERIMENT).exists() else run.folder.resolve()
            key = (folder, config.preset, config.rounds, _departures(run))
            found.setdefault(key, []).append(_reproduced(summary, run))
        except CoterieError as error:
            problems.append(str(error))
    return [
        Reproduction(folder.name, preset, rounds, differences, tuple(runs))
        for (folder, preset, rounds, differences), runs in found.items()
    ]


def _departures(run: RunFolder) -> tuple[str, ...]:
    """Return how a run differs from the published setting; empty without a published number.

    Variants that are only in figures have no published numbers.
    """
    table = published_tables().get(run.config.preset)
    if table is None or run.config.label not in table.results:
        return ()
    return tuple(list_departures(run.config, PRESETS[run.config.preset]))


def _reproduced(summary: RunSummary, run: RunFolder) -> ReproducedRun:
    names = ["recovery", *(["neighbours"] if len(summary.cluster_names) > 1 else [])]
    results, _ = analyse_runs([run], choose_analyses(",".join(names)), WINDOW)
    rows = {
        result.analysis.name: row
        for result in results
        for row in result.rows
        if row.keys.get("shift", ALL) == ALL
    }

    def value(analysis: str, column: str) -> float:
        return rows[analysis].estimates[column].mean if analysis in rows else math.nan

    return ReproducedRun(
        summary,
        precision=value("neighbours", "precision"),
        recall=value("neighbours", "recall"),
        over_time=value("recovery", "mean_level"),
    )
