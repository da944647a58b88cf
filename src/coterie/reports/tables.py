"""The final table: test results per cluster, mean ± 95% confidence interval over seeds.

Published results of the same strategies stand below ours, formed in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table
from rich.text import Text
from scipy import stats

from coterie.reports.published import Comparison, PublishedResult, PublishedTable


@dataclass(frozen=True)
class Outcome:
    """What one finished run reached: means of the last test over the peers of each cluster."""

    label: str
    seed: int
    cluster_names: tuple[str, ...]
    cluster_means: tuple[float, ...]
    """NaN where no peer was in the cluster at the end; poisoned peers count nowhere."""
    mean: float
    models_per_peer: float
    """Models received and sent, probes included, mean over peers."""
    megabytes_per_peer: float
    is_accuracy: bool
    validation: float = math.nan
    """Validation accuracy (or loss) of the models that were tested, mean over peers."""
    warnings: tuple[str, ...] = ()
    """Why results may be worth nothing, such as models not clearly better than guessing."""


def outcome(
    metrics: pa.Table, label: str, seed: int, cluster_names: Sequence[str], *, is_accuracy: bool
) -> Outcome:
    """Summarise a run's metrics table."""
    column = "test_accuracy" if is_accuracy else "test_loss"
    last = metrics.filter(pc.equal(metrics["round"], pc.max(metrics["round"])))
    values = last[column].to_numpy()
    clusters = last["cluster"].to_numpy()
    means = tuple(mean_of(values[clusters == number]) for number in range(len(cluster_names)))
    num_peers = max(len(values), 1)
    models = sum(metrics[f"models_{side}"].to_numpy().sum() for side in ("received", "sent"))
    size = sum(metrics[f"bytes_{side}"].to_numpy().sum() for side in ("received", "sent"))
    return Outcome(
        label=label,
        seed=seed,
        cluster_names=tuple(cluster_names),
        cluster_means=means,
        mean=mean_of(values),
        models_per_peer=float(models) / num_peers,
        megabytes_per_peer=float(size) / num_peers / 1e6,
        is_accuracy=is_accuracy,
    )


def confidence(values: npt.ArrayLike) -> tuple[float, float]:
    """Return mean and half width of the 95% interval (Student's t); NaN width for one value."""
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    if len(known) < 2:
        return mean_of(known), math.nan
    error = known.std(ddof=1) / math.sqrt(len(known))
    return mean_of(known), float(stats.t.ppf(0.975, len(known) - 1) * error)


def _unpublished(result: PublishedResult) -> float | None:
    return None


@dataclass(frozen=True)
class Column:
    """One number of a result: how to get it from a run of ours, and from what was published."""

    title: str
    ours: Callable[[Outcome], float]
    theirs: Callable[[PublishedResult], float | None] = _unpublished
    interval: Callable[[PublishedResult], float | None] = _unpublished
    """The published half width of the 95% interval."""
    has_interval: bool = True
    """Whether ours is shown with its interval."""
    form: str = ".2f"


def result_columns(
    outcomes: Sequence[Outcome], published: PublishedTable | None = None
) -> list[Column]:
    """Return the columns of the final table; accuracies are in percent.

    The mean is formed over the peers, or over the clusters where the published one is.
    """
    scale = 100.0 if outcomes[0].is_accuracy else 1.0
    clusters = [
        _cluster_column(n, outcomes, published, scale)
        for n in range(len(outcomes[0].cluster_names))
    ]
    found = [*clusters, _mean_column(published, scale)]
    if published and any(result.deviation is not None for result in published.results.values()):
        found.append(
            Column(
                "std of clusters",
                lambda each: _deviation(each.cluster_means) * scale,
                lambda result: result.deviation,
            )
        )
    return [
        *found,
        Column(
            "models",
            lambda each: each.models_per_peer,
            lambda result: result.models,
            has_interval=False,
            form=",.0f",
        ),
        Column("MB", lambda each: each.megabytes_per_peer, has_interval=False, form=",.1f"),
    ]


def final_table(
    title: str, outcomes: Sequence[Outcome], comparison: Comparison | None = None
) -> Table:
    """Return the comparison of strategies, one row each, and published results below their own."""
    first = outcomes[0]
    if comparison and comparison.table.is_accuracy != first.is_accuracy:
        comparison = None
    published = comparison.table if comparison else None
    labelled = by_label(outcomes)
    measure = "test accuracy %" if first.is_accuracy else "test MSE"
    table = Table(
        title=f"{title}: {measure}; models and MB sent and received per peer",
        title_justify="left",
        caption=Text(comparison.caption(labelled)) if comparison else None,
        caption_justify="left",
    )
    table.add_column("strategy")
    columns = result_columns(outcomes, published)
    for name in (*(column.title for column in columns), "seeds"):
        table.add_column(name, justify="right")
    best = _best_label(outcomes, _mean_column(published, 1.0))
    for label, mine in labelled.items():
        cells = [_cell(column, mine) for column in columns]
        table.add_row(label, *cells, str(len(mine)), style="bold" if label == best else "")
        if published:
            _add_published(table, columns, mine, published.results.get(label))
    return table


def _add_published(
    table: Table, columns: Sequence[Column], mine: Sequence[Outcome], result: PublishedResult | None
) -> None:
    """Add what was published below the row of a strategy, if anything was."""
    if result and any(column.theirs(result) is not None for column in columns):
        table.add_row("  published", *(_published_cell(column, result) for column in columns))
        table.add_row("  difference", *(_difference(column, mine, result) for column in columns))
    table.add_section()


def by_label(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Return the outcomes of each label, one per seed, in their order."""
    found: dict[str, list[Outcome]] = {}
    for each in outcomes:
        found.setdefault(each.label, []).append(each)
    return found


def warnings(outcomes: Sequence[Outcome]) -> list[str]:
    """Return what makes results worthless, for each strategy and seed; the same is told once."""
    seeds: dict[tuple[str, str], list[str]] = {}
    for each in outcomes:
        for text in each.warnings:
            seeds.setdefault((each.label, text), []).append(str(each.seed))
    labels: dict[tuple[str, str], list[str]] = {}
    for (label, text), mine in seeds.items():
        labels.setdefault((", ".join(mine), text), []).append(label)
    return [
        f"{', '.join(names)} (seed {numbers}): {text}" for (numbers, text), names in labels.items()
    ]


def _cluster_column(
    number: int, outcomes: Sequence[Outcome], published: PublishedTable | None, scale: float
) -> Column:
    name = outcomes[0].cluster_names[number]
    known = any(not math.isnan(each.cluster_means[number]) for each in outcomes)
    return Column(
        name if known else f"{name} (–)",
        lambda each: each.cluster_means[number] * scale,
        lambda result: published.of_cluster(result, name) if published else None,
    )


def _mean_column(published: PublishedTable | None, scale: float) -> Column:
    over_clusters = published is not None and published.mean_over == "clusters"
    return Column(
        "mean of clusters" if over_clusters else "mean",
        lambda each: (mean_of(each.cluster_means) if over_clusters else each.mean) * scale,
        lambda result: result.mean,
        lambda result: result.interval,
    )


def _best_label(outcomes: Sequence[Outcome], mean: Column) -> str:
    means = {
        label: np.mean([mean.ours(each) for each in mine])
        for label, mine in by_label(outcomes).items()
    }
    sign = 1.0 if outcomes[0].is_accuracy else -1.0
    return max(means, key=lambda label: np.nan_to_num(sign * means[label], nan=-np.inf))


def _cell(column: Column, outcomes: Sequence[Outcome]) -> str:
    mean, width = confidence([column.ours(each) for each in outcomes])
    return _written(column, mean, width if column.has_interval else None)


def _published_cell(column: Column, result: PublishedResult) -> str:
    value = column.theirs(result)
    return "" if value is None else _written(column, value, column.interval(result))


def _difference(column: Column, outcomes: Sequence[Outcome], result: PublishedResult) -> str:
    """Write ours − theirs, where there are both."""
    theirs = column.theirs(result)
    ours, _ = confidence([column.ours(each) for each in outcomes])
    return "" if theirs is None or math.isnan(ours) else f"{ours - theirs:+{column.form}}"


def _written(column: Column, value: float, width: float | None) -> str:
    if math.isnan(value):
        return "–"
    text = f"{value:{column.form}}"
    return text if width is None or math.isnan(width) else f"{text} ± {width:{column.form}}"


def _deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of the clusters' means, as of a whole population."""
    known = np.array([value for value in values if not math.isnan(value)])
    return float(known.std()) if len(known) else math.nan


def mean_of(values: npt.ArrayLike) -> float:
    """Return the mean of what is known; NaN if nothing is."""
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    return float(known.mean()) if len(known) else math.nan
