"""Reading of the run folders that may stand beside published numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from coterie.analyses import study
from coterie.analyses.columns import ALL
from coterie.analyses.recorded import Recorded
from coterie.comparing.papers import ReproducedRun, Reproduction
from coterie.errors import CoterieError
from coterie.execution import Run
from coterie.experiment import EXPERIMENT
from coterie.gathering import open_runs
from coterie.presets import PRESETS
from coterie.presets.comparing import departures
from coterie.presets.published import published_tables
from coterie.reports.tables import Outcome

WINDOW = 10
"""Rounds that the means of analyses are taken over."""


def read_reproductions(folders: Sequence[Path], problems: list[str]) -> list[Reproduction]:
    """Return the finished runs of presets in these folders, one entry for each setting of runs."""
    found: dict[tuple[Path, str, int, tuple[str, ...]], list[ReproducedRun]] = {}
    for run, recorded in [pair for folder in folders for pair in open_runs(folder, problems)]:
        config = run.config
        try:
            outcome = run.outcome
            if outcome is None or config.preset not in PRESETS:
                continue
            home = run.folder.resolve().parent
            folder = home if (home / EXPERIMENT).exists() else run.folder.resolve()
            key = (folder, config.preset, config.rounds, _departures(run))
            found.setdefault(key, []).append(_reproduced(outcome, recorded))
        except CoterieError as error:
            problems.append(str(error))
    return [
        Reproduction(folder.name, preset, rounds, differences, tuple(runs))
        for (folder, preset, rounds, differences), runs in found.items()
    ]


def _departures(run: Run) -> tuple[str, ...]:
    """Return how a run differs from the published setting; nothing if it has no published number.

    Such are the variants of figures, which no preset knows.
    """
    table = published_tables().get(run.config.preset)
    if table is None or run.config.label not in table.results:
        return ()
    return tuple(departures(run.config, PRESETS[run.config.preset]))


def _reproduced(outcome: Outcome, recorded: Recorded) -> ReproducedRun:
    names = ["recovery", *(["neighbours"] if len(outcome.cluster_names) > 1 else [])]
    results, _ = study.study([recorded], study.choose(",".join(names)), WINDOW)
    rows = {
        result.analysis.name: row
        for result in results
        for row in result.rows
        if row.keys.get("shift", ALL) == ALL
    }

    def value(analysis: str, column: str) -> float:
        return rows[analysis].estimates[column].mean if analysis in rows else math.nan

    return ReproducedRun(
        outcome,
        precision=value("neighbours", "precision"),
        recall=value("neighbours", "recall"),
        over_time=value("recovery", "mean_level"),
    )
