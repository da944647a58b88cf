"""The summary of a run, which is written to its folder when it has finished."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import model_validator
from pydantic.dataclasses import dataclass

from coterie.runtime.round_metrics import known_mean
from coterie.tasks import Task
from coterie.tasks.score import ACCURACY, MSE, TaskScore


@dataclass(frozen=True)
class MeanMetric:
    """A further metric of the task: its mean over peers, in the last test."""

    score: TaskScore
    mean: float


@dataclass(frozen=True)
class RunSummary:
    """The results of one run: means of the last test over the peers of each cluster."""

    label: str
    seed: int
    cluster_names: tuple[str, ...]
    cluster_means: tuple[float, ...]
    """NaN if the cluster had no peer at the end; poisoned peers are not counted."""
    mean: float
    models_per_peer: float
    """Models received and sent, probes included, mean over peers."""
    megabytes_per_peer: float
    score: TaskScore
    """What was measured."""
    validation: float = math.nan
    """Validation score of the tested models, mean over peers."""
    metrics: tuple[MeanMetric, ...] = ()
    warnings: tuple[str, ...] = ()
    """Reasons to doubt the results, such as models not clearly better than guessing."""

    @model_validator(mode="before")
    @classmethod
    def _names_of_today(cls, values: Any) -> Any:
        """Accept summaries of before, which say only whether the score is accuracy."""
        if not isinstance(values, dict) or "is_accuracy" not in values:
            return values
        others = {name: value for name, value in values.items() if name != "is_accuracy"}
        return {**others, "score": ACCURACY if values["is_accuracy"] else MSE}


def summarise(
    metrics: pa.Table, label: str, seed: int, cluster_names: Sequence[str], score: TaskScore
) -> RunSummary:
    """Summarise a run's metrics table."""
    last = metrics.filter(pc.equal(metrics["round"], pc.max(metrics["round"])))
    values = last["test_score"].to_numpy()
    clusters = last["cluster"].to_numpy()
    means = tuple(known_mean(values[clusters == number]) for number in range(len(cluster_names)))
    num_peers = max(len(values), 1)
    models = sum(metrics[f"models_{side}"].to_numpy().sum() for side in ("received", "sent"))
    size = sum(metrics[f"bytes_{side}"].to_numpy().sum() for side in ("received", "sent"))
    return RunSummary(
        label=label,
        seed=seed,
        cluster_names=tuple(cluster_names),
        cluster_means=means,
        mean=known_mean(values),
        models_per_peer=float(models) / num_peers,
        megabytes_per_peer=float(size) / num_peers / 1e6,
        score=score,
    )


def mean_metrics(test_metrics: pa.Table, task: Task) -> tuple[MeanMetric, ...]:
    """Return the means of the further metrics of a task in the last test."""
    found = []
    for score in task.metrics:
        mine = test_metrics.filter(pc.equal(test_metrics["metric"], score.name))
        last = mine.filter(pc.equal(mine["round"], pc.max(mine["round"])))
        found.append(MeanMetric(score, known_mean(last["value"].to_numpy())))
    return tuple(found)
