"""Compares strategies: means over seeds, paired differences, costs, published values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from coterie.errors import ConfigError, suggest
from coterie.experiments.published.published_table import PublishedComparison, PublishedResult
from coterie.experiments.run_folder import RunFolder
from coterie.results.measures import (
    DEFAULT_MEASURE,
    Costs,
    Measure,
    MeasuredRun,
    mean_costs,
    measure_run,
)
from coterie.results.published_comparison import compare_with_published
from coterie.results.read_runs import Runs
from coterie.results.result_columns import Column, mean_column, result_columns
from coterie.results.statistics import (
    Difference,
    confidence_interval,
    correct_p_values,
    paired_difference,
)
from coterie.tasks import TaskScore

DEFAULT_BASELINE = "local"
"""The baseline if it is among the strategies: training without merging."""


@dataclass(frozen=True)
class ComparedValue:
    """The result of a strategy for one part: a cluster, or all peers; accuracies in percent."""

    mean: float
    width: float
    """Half width of the 95% interval over seeds; NaN for a single seed."""
    difference: Difference | None = None
    """From the baseline; None for the baseline itself, and without a common seed."""
    published: float | None = None
    published_width: float | None = None


@dataclass(frozen=True)
class ComparedStrategy:
    """One strategy in a comparison."""

    label: str
    entries: tuple[MeasuredRun, ...]
    values: dict[str, ComparedValue]
    """By the names of the parts."""
    costs: Costs
    """Means over seeds."""

    @property
    def num_unfinished(self) -> int:
        """The number of unfinished runs."""
        return sum(not each.run.is_finished for each in self.entries)


@dataclass(frozen=True)
class PresetComparison:
    """The compared strategies of one preset."""

    preset: str
    measure: Measure
    score: TaskScore
    parts: tuple[str, ...]
    """The clusters, the mean, and other numbers about all peers."""
    mean_part: str
    lines: tuple[ComparedStrategy, ...]
    baseline: str | None
    published: PublishedComparison | None

    @property
    def best(self) -> str:
        """The label of the strategy with the best mean."""
        means = {
            line.label: self.score.sign * line.values[self.mean_part].mean for line in self.lines
        }
        return max(means, key=lambda label: -math.inf if math.isnan(means[label]) else means[label])


def compare(found: Runs, measure: Measure | None, baseline: str | None) -> list[PresetComparison]:
    """Compare the runs of each preset; runs that cannot be compared get separate tables."""
    labels = list(dict.fromkeys(run.label for run in found))
    if baseline is not None and baseline not in labels:
        raise ConfigError(
            f"--baseline {baseline}: no run has this strategy.{suggest(baseline, labels)}"
        )
    groups: dict[tuple[str, int, TaskScore], list[RunFolder]] = {}
    for run in found:
        key = (run.config.preset, len(run.cluster_names), run.score)
        groups.setdefault(key, []).append(run)
    return [_compared(runs, measure, baseline) for runs in groups.values()]


def _compared(
    runs: Sequence[RunFolder], measure: Measure | None, baseline: str | None
) -> PresetComparison:
    chosen = measure or DEFAULT_MEASURE
    entries = _with_common_names([measure_run(run, chosen) for run in runs])
    published = (
        compare_with_published([run.config for run in runs]) if chosen == DEFAULT_MEASURE else None
    )
    if published and published.table.score != runs[0].score:
        published = None
    columns = [
        column
        for column in result_columns(
            [each.summary for each in entries], published.table if published else None
        )
        if column.has_interval
    ]
    by_label: dict[str, list[MeasuredRun]] = {}
    for each in entries:
        by_label.setdefault(each.run.label, []).append(each)
    against = _baseline(list(by_label), baseline)
    return PresetComparison(
        runs[0].config.preset,
        chosen,
        entries[0].summary.score,
        tuple(column.title for column in columns),
        mean_column(published.table if published else None, 1.0).title,
        tuple(_lines(by_label, columns, against, published)),
        against,
        published,
    )


def _with_common_names(entries: Sequence[MeasuredRun]) -> list[MeasuredRun]:
    """Name clusters by number if their names differ, such as labels drawn by each seed."""
    names = {each.summary.cluster_names for each in entries}
    if len(names) == 1:
        return list(entries)
    common = tuple(f"cluster {number}" for number in range(len(entries[0].summary.cluster_names)))
    return [replace(each, summary=replace(each.summary, cluster_names=common)) for each in entries]


def _baseline(labels: Sequence[str], requested: str | None) -> str | None:
    """Return the baseline of a table; None if it is not among the strategies."""
    if len(labels) < 2:
        return None
    if requested is not None:
        return requested if requested in labels else None
    return DEFAULT_BASELINE if DEFAULT_BASELINE in labels else labels[0]


def _lines(
    by_label: dict[str, list[MeasuredRun]],
    columns: Sequence[Column],
    baseline: str | None,
    published: PublishedComparison | None,
) -> list[ComparedStrategy]:
    differences = {column.title: _differences(by_label, column, baseline) for column in columns}
    lines = []
    for label, entries in by_label.items():
        result = None
        if published:
            result = published.table.results.get(entries[0].run.config.label)
        values = {
            column.title: _value(column, entries, differences[column.title].get(label), result)
            for column in columns
        }
        lines.append(ComparedStrategy(label, tuple(entries), values, mean_costs(entries)))
    return lines


def _differences(
    by_label: dict[str, list[MeasuredRun]], column: Column, baseline: str | None
) -> dict[str, Difference]:
    """Return the paired differences of one part, corrected over the strategies."""
    if baseline is None:
        return {}
    values = {
        # Unfinished runs are not compared with finished ones.
        label: {
            each.run.seed: column.ours(each.summary) for each in entries if each.run.is_finished
        }
        for label, entries in by_label.items()
    }
    found = {
        label: difference
        for label, ours in values.items()
        if label != baseline
        and (difference := paired_difference(ours, values[baseline])) is not None
    }
    return correct_p_values(found)


def _value(
    column: Column,
    entries: Sequence[MeasuredRun],
    difference: Difference | None,
    result: PublishedResult | None,
) -> ComparedValue:
    mean, width = confidence_interval([column.ours(each.summary) for each in entries])
    if result is None:
        return ComparedValue(mean, width, difference)
    return ComparedValue(mean, width, difference, column.theirs(result), column.interval(result))
