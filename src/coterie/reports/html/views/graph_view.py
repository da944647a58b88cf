"""The collaboration graph over time: peers, their preferences, and places that show groups."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.fetch_windows import (
    Bins,
    Window,
    describe_windows,
    quantise,
    read_windows,
)
from coterie.reports.html.views.graph_layout import (
    FIRST_ITERATIONS,
    ITERATIONS,
    Places,
    move_nodes,
    scale_places,
    spread_nodes,
)
from coterie.reports.html.views.heatmap_view import NO_EXCHANGES
from coterie.reports.html.views.view_parts import Json, build_pictures, cache_per_run, pack_array
from coterie.results.analyses.columns import by_round, columns
from coterie.runtime.round import Columns

NUM_EDGES = 4
"""Number of edges from each node: to the nodes that it prefers most."""
Matrix = npt.NDArray[np.float64]


def build_graph(group: RunGroup) -> Json:
    """Return per run the places of the nodes and their strongest edges in each window.

    `places` (W, B, 2) are 0 to 1000; `targets` and `strengths` are (W, B, NUM_EDGES). A strength
    of 255 is the share `strongest`.
    """
    return build_pictures(group, _pictures, NO_EXCHANGES)


@cache_per_run
def _pictures(run: RunFolder) -> Json | None:
    windows = list(read_windows(run))
    if not windows:
        return None
    probabilities = _recorded_probabilities(run)
    shares = [_shares(window, probabilities) for window in windows]
    targets, weights = zip(*(_edges(each) for each in shares), strict=True)
    strongest = max(float(each.max(initial=0.0)) for each in weights)
    size = max(len(each) for each in targets)
    return {
        **describe_windows(windows),
        "from_probabilities": [_newest(window, probabilities) is not None for window in windows],
        "poisoned": list(run.poisoned),
        "strongest": float(f"{strongest:.3g}"),
        "places": pack_array(scale_places(_places(windows, shares))),
        "targets": pack_array(np.stack([_pad(each, size) for each in targets])),
        "strengths": pack_array(
            np.stack([_pad(quantise(each, strongest), size) for each in weights])
        ),
    }


def _recorded_probabilities(run: RunFolder) -> dict[int, Columns]:
    """Return the sampling probabilities by round, if they were recorded for most peers."""
    names = ("round", "peer", "other", "probability")
    table = columns(run.table("beliefs"), *names)
    known = ~np.isnan(table["probability"])
    rounds = by_round({name: values[known] for name, values in table.items()})
    half = run.num_peers / 2
    return {number: rows for number, rows in rounds if len(np.unique(rows["peer"])) >= half}


def _newest(window: Window, probabilities: dict[int, Columns]) -> Columns | None:
    """Return the last probabilities that were recorded in a window."""
    inside = [number for number in probabilities if window.first <= number <= window.last]
    return probabilities[max(inside)] if inside else None


def _shares(window: Window, probabilities: dict[int, Columns]) -> Matrix:
    """Return how much each row prefers each column, (B, B); each row sums to 1, or 0 if unknown.

    These are the sampling probabilities if they were recorded, else the shares of fetched models.
    """
    newest = _newest(window, probabilities)
    sums = _sum_probabilities(newest, window.bins) if newest else window.fetched.copy()
    total = sums.sum(axis=1, keepdims=True)
    shares = np.zeros_like(sums)
    np.divide(sums, total, out=shares, where=total > 0)
    return shares


def _sum_probabilities(rows: Columns, bins: Bins) -> Matrix:
    count = len(bins.clusters)
    sums = np.zeros((count, count))
    pairs = (bins.of_peer[rows[side]] for side in ("peer", "other"))
    np.add.at(sums, tuple(pairs), rows["probability"])
    return sums


def _edges(shares: Matrix) -> tuple[npt.NDArray[np.uint8], Matrix]:
    """Return the nodes that each node prefers most, and how much, (B, NUM_EDGES)."""
    others = shares.copy()
    np.fill_diagonal(others, -1.0)
    count = min(NUM_EDGES, max(len(others) - 1, 0))
    targets = np.argsort(-others, axis=1, kind="stable")[:, :count]
    weights = np.maximum(np.take_along_axis(others, targets, axis=1), 0.0)
    return targets.astype(np.uint8), weights


def _places(windows: list[Window], shares: list[Matrix]) -> list[Places]:
    """Return the places of the nodes in each window, moved on from the window before."""
    places: list[Places] = []
    for index, (window, each) in enumerate(zip(windows, shares, strict=True)):
        continues = index > 0 and window.step == windows[index - 1].step
        before = places[-1] if continues else spread_nodes(len(each))
        places.append(move_nodes(before, each, ITERATIONS if continues else FIRST_ITERATIONS))
    return places


def _pad(values: npt.NDArray[np.uint8], size: int) -> npt.NDArray[np.uint8]:
    return np.pad(values, ((0, size - len(values)), (0, 0)))
