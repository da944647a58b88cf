"""What each combination of values in a sweep reached, and which is best by validation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from coterie.experiments.experiment import Experiment
from coterie.experiments.run_summary import RunSummary
from coterie.experiments.sweep import value_of
from coterie.results.statistics import confidence

Values: TypeAlias = Mapping[str, str | None]
"""Settings that vary, by their dotted keys; None: the strategy does not have it."""
MISSING = "–"


@dataclass(frozen=True)
class Trial:
    """One run of a sweep; `summary` is None if it has not finished."""

    run: str
    label: str
    seed: int
    values: Values
    summary: RunSummary | None


@dataclass(frozen=True)
class Point:
    """One strategy with one combination of values: the runs of all seeds."""

    label: str
    values: Values
    trials: tuple[Trial, ...]

    @property
    def summaries(self) -> list[RunSummary]:
        """What the finished runs reached."""
        return [trial.summary for trial in self.trials if trial.summary is not None]

    @property
    def is_complete(self) -> bool:
        """Whether all seeds have finished, so that this point can be compared with others."""
        return len(self.summaries) == len(self.trials)

    @property
    def validation(self) -> tuple[float, float]:
        """Mean over seeds and half width of its 95% interval, by validation data."""
        return confidence([each.validation for each in self.summaries])

    @property
    def test(self) -> tuple[float, float]:
        """Mean over seeds and half width of its 95% interval, by test data."""
        return confidence([each.mean for each in self.summaries])


def trials(experiment: Experiment) -> list[Trial]:
    """Return what varies in each run of a sweep, and what it reached."""
    keys = experiment.grid.varied if experiment.grid else ()
    return [
        Trial(
            run.folder.name,
            run.config.label,
            run.config.seed,
            {key: value_of(run.config, key) for key in keys},
            run.read_summary(),
        )
        for run in experiment.runs
    ]


def points(trials: Sequence[Trial]) -> list[Point]:
    """Put the seeds of each strategy and combination together, in order."""
    found: dict[tuple[str, tuple[str | None, ...]], list[Trial]] = {}
    for trial in trials:
        found.setdefault((trial.label, tuple(trial.values.values())), []).append(trial)
    return [Point(same[0].label, same[0].values, tuple(same)) for same in found.values()]


def select(candidates: Sequence[Point]) -> dict[str, Point]:
    """Return the best complete point of each strategy by its validation, never by its test."""
    best: dict[str, Point] = {}
    for point in candidates:
        if not point.is_complete or math.isnan(point.validation[0]):
            continue
        sign = 1.0 if point.summaries[0].is_accuracy else -1.0
        now = best.get(point.label)
        if now is None or sign * point.validation[0] > sign * now.validation[0]:
            best[point.label] = point
    return best
