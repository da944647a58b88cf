"""The columns of a final table: how each is read from a run and from a published table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from coterie.data.peer_datasets import NO_CLUSTERS
from coterie.experiments.published.published_table import PublishedResult, PublishedTable
from coterie.experiments.run_summary import RunSummary
from coterie.runtime.round_metrics import known_mean
from coterie.tasks import TaskScore


def _unpublished(result: PublishedResult) -> float | None:
    return None


@dataclass(frozen=True)
class Column:
    """One column: how to read it from a run, and from a published result."""

    title: str
    ours: Callable[[RunSummary], float]
    theirs: Callable[[PublishedResult], float | None] = _unpublished
    interval: Callable[[PublishedResult], float | None] = _unpublished
    """The published half width of the 95% interval."""
    has_interval: bool = True
    """Whether our number has an interval."""
    form: str = ".2f"


def result_columns(
    summaries: Sequence[RunSummary], published: PublishedTable | None = None
) -> list[Column]:
    """Return the columns of the final table; shares are in percent.

    Where no clusters are known, there is only the mean.

    The mean is over peers, or over clusters if the published mean is.
    """
    scale = summaries[0].score.scale
    names = summaries[0].cluster_names
    numbers = range(0 if names == NO_CLUSTERS else len(names))
    clusters = [_cluster_column(n, summaries, published, scale) for n in numbers]
    found = [*clusters, mean_column(published, scale)]
    if published and any(result.deviation is not None for result in published.results.values()):
        found.append(
            Column(
                "std of clusters",
                lambda each: _deviation(each.cluster_means) * scale,
                lambda result: result.deviation,
            )
        )
    further = [_metric_column(each.score) for each in summaries[0].metrics]
    return [
        *found,
        *further,
        Column(
            "models",
            lambda each: each.models_per_peer,
            lambda result: result.models,
            has_interval=False,
            form=",.0f",
        ),
        Column("MB", lambda each: each.megabytes_per_peer, has_interval=False, form=",.1f"),
    ]


def by_label(summaries: Sequence[RunSummary]) -> dict[str, list[RunSummary]]:
    """Return the summaries of each label, one per seed, in their order."""
    found: dict[str, list[RunSummary]] = {}
    for each in summaries:
        found.setdefault(each.label, []).append(each)
    return found


def group_warnings(summaries: Sequence[RunSummary]) -> list[str]:
    """Return the warnings of all runs; equal warnings of several strategies and seeds once."""
    seeds: dict[tuple[str, str], list[str]] = {}
    for each in summaries:
        for text in each.warnings:
            seeds.setdefault((each.label, text), []).append(str(each.seed))
    labels: dict[tuple[str, str], list[str]] = {}
    for (label, text), mine in seeds.items():
        labels.setdefault((", ".join(mine), text), []).append(label)
    return [
        f"{', '.join(names)} (seed {numbers}): {text}" for (numbers, text), names in labels.items()
    ]


def _cluster_column(
    number: int, summaries: Sequence[RunSummary], published: PublishedTable | None, scale: float
) -> Column:
    name = summaries[0].cluster_names[number]
    known = any(not math.isnan(each.cluster_means[number]) for each in summaries)
    return Column(
        name if known else f"{name} (–)",
        lambda each: each.cluster_means[number] * scale,
        lambda result: published.of_cluster(result, name) if published else None,
    )


def _metric_column(score: TaskScore) -> Column:
    """Return the column of a further metric of the task; runs without it have none."""

    def value(summary: RunSummary) -> float:
        known = {each.score: each.mean for each in summary.metrics}
        return known.get(score, math.nan) * score.scale

    return Column(score.title, value)


def mean_column(published: PublishedTable | None, scale: float) -> Column:
    """Return the column of the mean, over peers or over clusters as in the published table."""
    over_clusters = published is not None and published.mean_over == "clusters"
    return Column(
        "mean of clusters" if over_clusters else "mean",
        lambda each: (known_mean(each.cluster_means) if over_clusters else each.mean) * scale,
        lambda result: result.mean,
        lambda result: result.interval,
    )


def _deviation(values: Sequence[float]) -> float:
    """Return the population standard deviation of the clusters' means."""
    known = np.array([value for value in values if not math.isnan(value)])
    return float(known.std()) if len(known) else math.nan
