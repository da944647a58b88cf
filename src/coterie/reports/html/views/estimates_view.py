"""The similarity tables of the peers: measured, estimated or unknown."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.fetch_windows import Bins, make_bins
from coterie.reports.html.views.view_parts import Json, build_pictures, cache_per_run, pack_array
from coterie.results.analyses.columns import by_round, columns
from coterie.runtime.round import Columns

UNKNOWN, NUM_LEVELS = 0, 127
"""A cell is 0 if unknown, 1 to 127 if measured, 129 to 255 if estimated."""
MAX_TIMES = 25
_NONE = (
    "None of these runs has recorded similarity tables. Strategies with such a table, such as dac "
    "and kin, record it. Runs of older versions must be run again."
)


def build_estimates(group: RunGroup) -> Json:
    """Return per run the tables of some rounds, packed (T, R, C), and the range of their values."""
    return build_pictures(group, _tables, _NONE)


@cache_per_run
def _tables(run: RunFolder) -> Json | None:
    table = columns(run.table("beliefs"))
    by_number = list(by_round(table))
    if not by_number:
        return None
    step = -(-len(by_number) // MAX_TIMES)
    shown = by_number[::-1][::step][::-1]
    clusters, recorded = _clusters(run), np.unique(table["peer"])
    axes = {
        number: (_recorded_rows(recorded, clusters[number]), make_bins(clusters[number]))
        for number, _ in shown
    }
    low, high = _range(table["similarity"])
    shape = tuple(max(len(pair[side].clusters) for pair in axes.values()) for side in (0, 1))
    cells = [_cells(rows, axes[number], (low, high), shape) for number, rows in shown]
    orders = [{"rows": rows.plain(), "columns": bins.plain()} for rows, bins in axes.values()]
    kept: list[Json] = []
    for order in orders:
        if order not in kept:
            kept.append(order)
    return {
        "rounds": [number for number, _ in shown],
        "axes": kept,
        "order": [kept.index(order) for order in orders],
        "low": float(f"{low:.4g}"),
        "high": float(f"{high:.4g}"),
        "cells": pack_array(np.stack(cells)),
        "known": [_known(rows, run.num_peers) for _, rows in shown],
        "has_all_peers": len(recorded) == run.num_peers,
    }


def _recorded_rows(recorded: npt.NDArray[np.int32], clusters: npt.NDArray[np.int32]) -> Bins:
    """Return bins of the peers whose tables were recorded; with many peers these are a few."""
    inside = make_bins(clusters[recorded])
    of_peer = np.full(len(clusters), -1)
    of_peer[recorded] = inside.of_peer
    return Bins(of_peer, inside.clusters)


def _clusters(run: RunFolder) -> dict[int, npt.NDArray[np.int32]]:
    metrics = columns(run.table("metrics"), "round", "cluster")
    return {number: rows["cluster"] for number, rows in by_round(metrics)}


def _range(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the range of the colours: the 1% and 99% quantiles, to ignore outliers."""
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0, 1.0
    low, high = np.quantile(known, [0.01, 0.99])
    return float(low), float(high if high > low else low + 1.0)


def _cells(
    rows: Columns, axes: tuple[Bins, Bins], limits: tuple[float, float], shape: tuple[int, ...]
) -> npt.NDArray[np.uint8]:
    """Return one table (R, C): the mean over a cell's measured pairs, else its estimated pairs."""
    low, high = limits
    cells = np.zeros(shape, dtype=np.uint8)
    for origin, offset in (("estimated", 128), ("measured", 0)):
        mine = (rows["origin"] == origin) & ~np.isnan(rows["similarity"])
        sides = zip(axes, ("peer", "other"), strict=True)
        pairs = tuple(bins.of_peer[rows[side][mine]] for bins, side in sides)
        sums, counts = np.zeros(shape), np.zeros(shape)
        np.add.at(sums, pairs, np.clip(rows["similarity"][mine], low, high))
        np.add.at(counts, pairs, 1.0)
        is_known = counts > 0
        level = (sums[is_known] / counts[is_known] - low) / (high - low)
        cells[is_known] = offset + 1 + np.round(level * (NUM_LEVELS - 1)).astype(np.uint8)
    return cells


def _known(rows: Columns, num_peers: int) -> list[float]:
    """Return the shares of pairs that were measured and estimated, in the recorded tables."""
    num_pairs = len(np.unique(rows["peer"])) * (num_peers - 1) or 1
    return [
        round(float(np.count_nonzero(rows["origin"] == origin)) / num_pairs, 3)
        for origin in ("measured", "estimated")
    ]
