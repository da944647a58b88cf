"""Strategies side by side: means over seeds, paired differences, costs, published values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from coterie.errors import ConfigError, suggest
from coterie.experiments.published.published_table import Comparison, PublishedResult
from coterie.experiments.run_folder import RunFolder
from coterie.results.measures import Entry, Measure, entry, usual_measure
from coterie.results.published_comparison import comparison
from coterie.results.read_runs import Runs
from coterie.results.result_columns import Column, result_columns
from coterie.results.statistics import Difference, confidence, corrected, paired_difference

USUAL_BASELINE = "local"
"""What collaboration has to beat, where it is among the strategies."""


@dataclass(frozen=True)
class Value:
    """What a strategy reached in one part: a cluster, or all peers; accuracies in percent."""

    mean: float
    width: float
    """Half width of the 95% interval over seeds; NaN for a single seed."""
    difference: Difference | None = None
    """To the baseline; None for the baseline itself, and without a common seed."""
    published: float | None = None
    published_width: float | None = None


@dataclass(frozen=True)
class Costs:
    """What a peer sent and received, and how long a run took: means over seeds."""

    models: float
    """Probes included."""
    probes: float
    megabytes: float
    wall_seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Line:
    """One strategy in a comparison."""

    label: str
    entries: tuple[Entry, ...]
    values: dict[str, Value]
    """By the names of the parts."""
    costs: Costs

    @property
    def num_unfinished(self) -> int:
        """How many of the runs have not come to their end."""
        return sum(not each.is_finished for each in self.entries)


@dataclass(frozen=True)
class Compared:
    """The strategies of one preset side by side."""

    preset: str
    measure: Measure
    is_accuracy: bool
    parts: tuple[str, ...]
    """The clusters, and then the mean and what else there is of all."""
    mean_part: str
    lines: tuple[Line, ...]
    baseline: str | None
    published: Comparison | None

    @property
    def best(self) -> str:
        """The label of the strategy with the best mean."""
        sign = 1.0 if self.is_accuracy else -1.0
        means = {line.label: sign * line.values[self.mean_part].mean for line in self.lines}
        return max(means, key=lambda label: -math.inf if math.isnan(means[label]) else means[label])


def compare(gathered: Runs, measure: Measure | None, baseline: str | None) -> list[Compared]:
    """Compare the runs of each preset; what cannot be compared stands in tables of its own."""
    labels = list(dict.fromkeys(run.label for run in gathered))
    if baseline is not None and baseline not in labels:
        raise ConfigError(
            f"--baseline {baseline}: no such strategy is here.{suggest(baseline, labels)}"
        )
    groups: dict[tuple[str, int, bool], list[RunFolder]] = {}
    for run in gathered:
        key = (run.config.preset, len(run.cluster_names), run.is_accuracy)
        groups.setdefault(key, []).append(run)
    return [_compared(runs, measure, baseline) for runs in groups.values()]


def _compared(runs: Sequence[RunFolder], measure: Measure | None, baseline: str | None) -> Compared:
    usual = usual_measure(runs[0])
    chosen = measure or usual
    if "accuracy" in chosen and not runs[0].is_accuracy:
        raise ConfigError(
            f"--measure {chosen}: the runs of {runs[0].config.preset} predict values, not classes, "
            "and have no accuracy. Use test-loss, validation-loss or train-loss."
        )
    entries = _with_common_names([entry(run, chosen) for run in runs])
    published = comparison([run.config for run in runs]) if chosen == usual else None
    if published and published.table.is_accuracy != runs[0].is_accuracy:
        published = None
    columns = [
        column
        for column in result_columns(
            [each.summary for each in entries], published.table if published else None
        )
        if column.has_interval
    ]
    by_label: dict[str, list[Entry]] = {}
    for each in entries:
        by_label.setdefault(each.run.label, []).append(each)
    against = _baseline(list(by_label), baseline)
    return Compared(
        runs[0].config.preset,
        chosen,
        entries[0].summary.is_accuracy,
        tuple(column.title for column in columns),
        columns[len(entries[0].summary.cluster_names)].title,
        tuple(_lines(by_label, columns, against, published)),
        against,
        published,
    )


def _with_common_names(entries: Sequence[Entry]) -> list[Entry]:
    """Number the clusters where their names differ, such as labels drawn by each seed."""
    names = {each.summary.cluster_names for each in entries}
    if len(names) == 1:
        return list(entries)
    common = tuple(f"cluster {number}" for number in range(len(entries[0].summary.cluster_names)))
    return [replace(each, summary=replace(each.summary, cluster_names=common)) for each in entries]


def _baseline(labels: Sequence[str], asked: str | None) -> str | None:
    """Return what the strategies of a table are held against; None if that is not among them."""
    if len(labels) < 2:
        return None
    if asked is not None:
        return asked if asked in labels else None
    return USUAL_BASELINE if USUAL_BASELINE in labels else labels[0]


def _lines(
    by_label: dict[str, list[Entry]],
    columns: Sequence[Column],
    baseline: str | None,
    published: Comparison | None,
) -> list[Line]:
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
        lines.append(Line(label, tuple(entries), values, _costs(entries)))
    return lines


def _differences(
    by_label: dict[str, list[Entry]], column: Column, baseline: str | None
) -> dict[str, Difference]:
    """Return the paired differences of one part, corrected over the strategies."""
    if baseline is None:
        return {}
    values = {
        # Half a run is not held against a whole one.
        label: {each.run.seed: column.ours(each.summary) for each in entries if each.is_finished}
        for label, entries in by_label.items()
    }
    found = {
        label: difference
        for label, ours in values.items()
        if label != baseline
        and (difference := paired_difference(ours, values[baseline])) is not None
    }
    return corrected(found)


def _value(
    column: Column,
    entries: Sequence[Entry],
    difference: Difference | None,
    result: PublishedResult | None,
) -> Value:
    mean, width = confidence([column.ours(each.summary) for each in entries])
    if result is None:
        return Value(mean, width, difference)
    return Value(mean, width, difference, column.theirs(result), column.interval(result))


def _costs(entries: Sequence[Entry]) -> Costs:
    return Costs(
        models=confidence([each.models_per_peer for each in entries])[0],
        probes=confidence([each.probes_per_peer for each in entries])[0],
        megabytes=confidence([each.megabytes_per_peer for each in entries])[0],
        wall_seconds=confidence([each.wall_seconds for each in entries])[0],
        cpu_seconds=confidence([each.cpu_seconds for each in entries])[0],
    )
