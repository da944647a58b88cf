"""Curves over rounds from a run: means of clusters and all peers, communication, time."""

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
class CurvePoint:
    """One value of one curve."""

    curve: str
    """Such as validation_loss_trained/mean; programs group curves by the part before the slash."""
    round: int
    value: float


def read_points(run: RunFolder, cluster_names: Sequence[str]) -> Iterator[CurvePoint]:
    """Yield all measured points, by round within each curve."""
    names = {ALL: MEAN, **{str(n): name for n, name in enumerate(clean_names(cluster_names))}}
    yield from _results(run.table("metrics"), names)
    yield from _communication(run.table("metrics"))
    for row in run.table("timings").to_pylist():
        for name in ("wall_seconds", "cpu_seconds"):
            yield CurvePoint(f"time/{name}", row["round"], row[name])


def _results(metrics: pa.Table, names: dict[str, str]) -> Iterator[CurvePoint]:
    for number, peers in by_round(columns(metrics, "round", "cluster", *MEASURES)):
        for cluster, members in by_cluster(peers["cluster"]):
            for measure in MEASURES:
                value = mean(peers[measure][members])
                if not math.isnan(value):
                    yield CurvePoint(f"{measure}/{names[cluster]}", number, value)


def _communication(metrics: pa.Table) -> Iterator[CurvePoint]:
    """Yield what peers had sent and received by the end of each round, mean over peers."""
    rounds = pa.table({"round": metrics["round"].unique()})
    for row in with_communication(rounds, metrics).to_pylist():
        for name in ("models_per_peer", "megabytes_per_peer"):
            yield CurvePoint(f"communication/{name}", row["round"], row[name])


def clean_names(cluster_names: Sequence[str]) -> list[str]:
    """Return names of letters and digits; "cluster_0", … if two would be the same."""
    names = [re.sub(r"[^\w.-]+", "_", name).strip("_") for name in cluster_names]
    if len({*names, MEAN, ""}) < len(names) + 2:
        return [f"cluster_{number}" for number in range(len(names))]
    return names
