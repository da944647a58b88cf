"""A run as curves over rounds: means of each cluster and of all peers, traffic and time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from coterie.experiments.run_folder import RunFolder
from coterie.results.analyses.columns import (
    ALL,
    by_cluster,
    by_round,
    columns,
    mean,
    with_communication,
)
from coterie.runtime.round import MEASURES

MEAN = "mean"


@dataclass(frozen=True)
class Point:
    """One value of one curve."""

    curve: str
    """Such as validation_loss_trained/mean: programs group curves by what is before the stroke."""
    round: int
    value: float


def curves(run: RunFolder, cluster_names: Sequence[str]) -> Iterator[Point]:
    """Yield all points, round by round in each curve; what was not measured has none."""
    names = {ALL: MEAN, **{str(n): name for n, name in enumerate(plain_names(cluster_names))}}
    yield from _results(run.table("metrics"), names)
    yield from _communication(run.table("metrics"))
    for row in run.table("timings").to_pylist():
        for name in ("wall_seconds", "cpu_seconds"):
            yield Point(f"time/{name}", row["round"], row[name])


def _results(metrics: pa.Table, names: dict[str, str]) -> Iterator[Point]:
    for number, peers in by_round(columns(metrics, "round", "cluster", *MEASURES)):
        for cluster, members in by_cluster(peers["cluster"]):
            for measure in MEASURES:
                value = mean(peers[measure][members])
                if not math.isnan(value):
                    yield Point(f"{measure}/{names[cluster]}", number, value)


def _communication(metrics: pa.Table) -> Iterator[Point]:
    """Yield what a peer had sent and received by the end of each round."""
    rounds = pa.table({"round": metrics["round"].unique()})
    for row in with_communication(rounds, metrics).to_pylist():
        for name in ("models_per_peer", "megabytes_per_peer"):
            yield Point(f"communication/{name}", row["round"], row[name])


def plain_names(cluster_names: Sequence[str]) -> list[str]:
    """Return names of letters and digits; numbers, if two would become the same."""
    plain = [re.sub(r"[^\w.-]+", "_", name).strip("_") for name in cluster_names]
    if len({*plain, MEAN, ""}) < len(plain) + 2:
        return [f"cluster_{number}" for number in range(len(plain))]
    return plain
