"""The collaboration graph over time: peers, whom each prefers, and places that show groups."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.subjects import Subject
from coterie.reports.html.views.heatmap import NOBODY
from coterie.reports.html.views.layouts import (
    FIRST_ITERATIONS,
    ITERATIONS,
    Places,
    fitted,
    settle,
    start_places,
)
from coterie.reports.html.views.pairs import Bins, Window, quantised, run_windows, times
from coterie.reports.html.views.view_parts import Json, once_per_run, packed, shown_runs
from coterie.results.analyses.columns import Columns, by_round, columns

NUM_EDGES = 4
"""How many edges are drawn from each node: to those it prefers most."""
Matrix = npt.NDArray[np.float64]


def graph(subject: Subject) -> Json:
    """Return per run the places of nodes and their strongest edges in each window.

    places (W, B, 2) of 0 to 1000; targets and strengths (W, B, NUM_EDGES), strengths 0 to 255 of
    the `strongest` share.
    """
    return shown_runs(subject, _pictures, NOBODY)


@once_per_run
def _pictures(run: RunFolder) -> Json | None:
    found = list(run_windows(run))
    if not found:
        return None
    believed = _believed(run)
    shares = [_shares(window, believed) for window in found]
    targets, weights = zip(*(_edges(each) for each in shares), strict=True)
    strongest = max(float(each.max(initial=0.0)) for each in weights)
    size = max(len(each) for each in targets)
    return {
        **times(found),
        "from_beliefs": [_beliefs_of(window, believed) is not None for window in found],
        "poisoned": list(run.poisoned),
        "strongest": float(f"{strongest:.3g}"),
        "places": packed(fitted(_places(found, shares))),
        "targets": packed(np.stack([_padded(each, size) for each in targets])),
        "strengths": packed(
            np.stack([_padded(quantised(each, strongest), size) for each in weights])
        ),
    }


def _believed(run: RunFolder) -> dict[int, Columns]:
    """Return by round what peers would choose with which probability, if most were asked."""
    names = ("round", "peer", "other", "probability")
    table = columns(run.table("beliefs"), *names)
    known = ~np.isnan(table["probability"])
    rounds = by_round({name: values[known] for name, values in table.items()})
    most = run.num_peers / 2
    return {number: rows for number, rows in rounds if len(np.unique(rows["peer"])) >= most}


def _beliefs_of(window: Window, believed: dict[int, Columns]) -> Columns | None:
    """Return the newest beliefs that were recorded in a window."""
    inside = [number for number in believed if window.first <= number <= window.last]
    return believed[max(inside)] if inside else None


def _shares(window: Window, believed: dict[int, Columns]) -> Matrix:
    """Return by how much each row prefers each column, (B, B); a row that knows sums up to 1.

    Probabilities of the strategy where there are some, else the share of models taken.
    """
    beliefs = _beliefs_of(window, believed)
    sums = _probabilities(beliefs, window.bins) if beliefs else window.taken.copy()
    total = sums.sum(axis=1, keepdims=True)
    shares = np.zeros_like(sums)
    np.divide(sums, total, out=shares, where=total > 0)
    return shares


def _probabilities(beliefs: Columns, bins: Bins) -> Matrix:
    count = len(bins.clusters)
    sums = np.zeros((count, count))
    who = (bins.of_peer[beliefs[side]] for side in ("peer", "other"))
    np.add.at(sums, tuple(who), beliefs["probability"])
    return sums


def _edges(shares: Matrix) -> tuple[npt.NDArray[np.uint8], Matrix]:
    """Return whom each node prefers most, and by how much, (B, NUM_EDGES)."""
    others = shares.copy()
    np.fill_diagonal(others, -1.0)
    count = min(NUM_EDGES, max(len(others) - 1, 0))
    targets = np.argsort(-others, axis=1, kind="stable")[:, :count]
    weights = np.maximum(np.take_along_axis(others, targets, axis=1), 0.0)
    return targets.astype(np.uint8), weights


def _places(found: list[Window], shares: list[Matrix]) -> list[Places]:
    """Return where nodes stand in each window: moved on from where they stood before."""
    places: list[Places] = []
    for place, (window, each) in enumerate(zip(found, shares, strict=True)):
        stays = place > 0 and len(each) == len(places[-1]) and _same_nodes(found[place - 1], window)
        before = places[-1] if stays else start_places(len(each))
        places.append(settle(before, each, ITERATIONS if stays else FIRST_ITERATIONS))
    return places


def _same_nodes(before: Window, now: Window) -> bool:
    return before.step == now.step


def _padded(values: npt.NDArray[np.uint8], size: int) -> npt.NDArray[np.uint8]:
    return np.pad(values, ((0, size - len(values)), (0, 0)))
