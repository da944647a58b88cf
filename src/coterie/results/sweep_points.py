"""The results of each combination of values in a sweep, and the best by validation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from coterie.experiments.experiment import Experiment
from coterie.experiments.run_summary import RunSummary
from coterie.experiments.sweep_grid import setting_text
from coterie.results.statistics import confidence_interval
from coterie.tasks.score import LOSS, TaskScore

VariedValues: TypeAlias = Mapping[str, str | None]
"""The values of the varied settings, by their dotted keys; None: the strategy lacks it."""
MISSING = "–"


@dataclass(frozen=True)
class SweepRun:
    """One run of a sweep; `summary` is None if it has not finished."""

    run: str
    label: str
    seed: int
    values: VariedValues
    summary: RunSummary | None


@dataclass(frozen=True)
class SweepPoint:
    """One strategy with one combination of values: the runs of all seeds."""

    label: str
    values: VariedValues
    trials: tuple[SweepRun, ...]

    @property
    def summaries(self) -> list[RunSummary]:
        """The summaries of the finished runs."""
        return [trial.summary for trial in self.trials if trial.summary is not None]

    @property
    def is_complete(self) -> bool:
        """Whether all seeds have finished."""
        return len(self.summaries) == len(self.trials)

    @property
    def validation(self) -> tuple[float, float]:
        """Mean over seeds and half width of its 95% interval, by validation data."""
        return confidence_interval([each.validation for each in self.summaries])

    @property
    def test(self) -> tuple[float, float]:
        """Mean over seeds and half width of its 95% interval, by test data."""
        return confidence_interval([each.mean for each in self.summaries])


def read_sweep_runs(experiment: Experiment) -> list[SweepRun]:
    """Return the varied values and the summary of each run of a sweep."""
    keys = experiment.grid.varied if experiment.grid else ()
    return [
        SweepRun(
            run.folder.name,
            run.config.label,
            run.config.seed,
            {key: setting_text(run.config, key) for key in keys},
            run.read_summary(),
        )
        for run in experiment.runs
    ]


def group_by_values(trials: Sequence[SweepRun]) -> list[SweepPoint]:
    """Return the runs grouped by strategy and combination of values, in order."""
    found: dict[tuple[str, tuple[str | None, ...]], list[SweepRun]] = {}
    for trial in trials:
        found.setdefault((trial.label, tuple(trial.values.values())), []).append(trial)
    return [SweepPoint(same[0].label, same[0].values, tuple(same)) for same in found.values()]


def common_score(points: Sequence[SweepPoint]) -> TaskScore:
    """Return what the finished runs measure; the loss, if nothing is known."""
    scores = [each.score for point in points for each in point.summaries]
    return scores[0] if scores else LOSS


def best_points(candidates: Sequence[SweepPoint]) -> dict[str, SweepPoint]:
    """Return the best complete point of each strategy by validation data, never by test data."""
    best: dict[str, SweepPoint] = {}
    for point in candidates:
        if not point.is_complete or math.isnan(point.validation[0]):
            continue
        sign = point.summaries[0].score.sign
        now = best.get(point.label)
        if now is None or sign * point.validation[0] > sign * now.validation[0]:
            best[point.label] = point
    return best
