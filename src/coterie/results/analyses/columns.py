"""Helpers for all analyses: columns as arrays, rounds, clusters and means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coterie.runtime.round import Columns
from coterie.runtime.round_metrics import known_mean

mean = known_mean
ALL = "all"
"""The name of all peers together, in columns of clusters."""
CLUSTER, CLUSTER_NAME = "cluster", "cluster_name"
"""The columns with a cluster's number and with its name."""


def columns(table: pa.Table, *names: str) -> Columns:
    """Return columns of a table as arrays; all columns if no names are given."""
    return {name: table[name].to_numpy() for name in names or table.column_names}


def by_round(table: Columns) -> Iterator[tuple[int, Columns]]:
    """Yield each round with its rows; rounds are recorded in order."""
    numbers, starts = np.unique(table["round"], return_index=True)
    ends = np.append(starts, len(table["round"]))[1:]
    for number, start, end in zip(numbers, starts, ends, strict=True):
        yield int(number), {name: values[start:end] for name, values in table.items()}


def by_cluster(clusters: npt.NDArray[Any]) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """Yield all peers, then each cluster, with the mask of its rows."""
    yield ALL, np.ones(len(clusters), dtype=bool)
    for cluster in np.unique(clusters):
        yield str(cluster), clusters == cluster


def cluster_name(cluster: str, names: Sequence[str]) -> str:
    """Return the name of a cluster, given its number as text, or `all`."""
    if cluster == ALL:
        return ALL
    number = int(cluster)
    return names[number] if number < len(names) else f"cluster {number}"


def with_cluster_names(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Add the column of the clusters' names, if the table has their numbers."""
    if CLUSTER not in table.column_names:
        return table
    called = [cluster_name(cluster, names) for cluster in table[CLUSTER].to_pylist()]
    place = table.column_names.index(CLUSTER) + 1
    return table.add_column(place, CLUSTER_NAME, pa.array(called, pa.string()))


def share(part: npt.NDArray[Any], whole: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return part / whole; NaN where the whole is 0."""
    shares = np.full(len(part), np.nan)
    np.divide(part, whole, out=shares, where=whole > 0)
    return shares


def last_rounds(table: pa.Table, window: int) -> pa.Table:
    """Return the rows of the last `window` rounds."""
    return table.filter(pc.greater(table["round"], pc.max(table["round"]).as_py() - window))


def of_all_peers(table: pa.Table) -> pa.Table:
    """Return the rows about all peers together."""
    return table.filter(pc.equal(table["cluster"], ALL))


def means_of(table: pa.Table, names: Sequence[str]) -> dict[str, float]:
    """Return the mean of each named column."""
    return {name: mean(values) for name, values in columns(table, *names).items()}


def between_peers(exchanges: pa.Table) -> Columns:
    """Return round, receiver, sender and merge weight of all delivered models."""
    moved = pc.is_in(exchanges["kind"], value_set=pa.array(["fetch", "push"]))
    arrived = exchanges.filter(pc.and_(moved, exchanges["delivered"]))
    return columns(arrived, "round", "receiver", "sender", "weight")


def with_communication(table: pa.Table, metrics: pa.Table) -> pa.Table:
    """Add what peers had sent and received by the end of each round, mean over peers."""
    if table.num_rows == 0:
        return table
    models, size, so_far = 0, 0, {}
    for number, rows in by_round(columns(metrics, *_TRAFFIC)):
        models += int(rows["models_received"].sum() + rows["models_sent"].sum())
        size += int(rows["bytes_received"].sum() + rows["bytes_sent"].sum())
        num_peers = len(rows["round"])
        so_far[number] = (models / num_peers, size / num_peers / 1e6)
    reached = [so_far[number] for number in table["round"].to_pylist()]
    table = table.append_column("models_per_peer", pa.array([models for models, _ in reached]))
    return table.append_column("megabytes_per_peer", pa.array([size for _, size in reached]))


_TRAFFIC = ("round", "models_received", "models_sent", "bytes_received", "bytes_sent")


def add_run_names(label: str, seed: int, table: pa.Table) -> pa.Table:
    """Return a table of a run with strategy and seed as its first columns."""
    table = table.add_column(0, "seed", pa.array([seed] * table.num_rows, pa.int64()))
    return table.add_column(0, "strategy", pa.array([label] * table.num_rows, pa.string()))
