"""Who took whose model how often, in windows of time: what heatmap and graph are drawn from.

Up to MAX_BINS peers stand for themselves; of more, neighbours in the order by cluster form bins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.views.view_parts import Json
from coterie.results.analyses.clusters import windows
from coterie.results.analyses.columns import between_peers, by_round

MAX_BINS = 120
"""How many rows and columns are drawn at most."""
NUM_WINDOWS = 20
"""Into how many windows of time a run is divided, about."""
FEWEST_ROUNDS = 5
"""How many rounds a window has at least, but in short runs: in fewer, one sees only chance."""


@dataclass(frozen=True)
class Bins:
    """Peers in groups of one true cluster each, ordered by cluster."""

    of_peer: npt.NDArray[np.int64]
    """The bin of each peer, (K,)."""
    clusters: npt.NDArray[np.int64]
    """The cluster of each bin, (B,)."""

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """How many peers each bin holds, (B,)."""
        return np.bincount(self.of_peer, minlength=len(self.clusters))

    def members(self) -> list[list[int]]:
        """Return the peers of each bin."""
        return [
            np.flatnonzero(self.of_peer == place).tolist() for place in range(len(self.clusters))
        ]

    def plain(self) -> Json:
        """Return the bins as plain data."""
        return {"peers": self.members(), "clusters": self.clusters.tolist()}

    def pair_means(self, sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return sums (B, B) as means over the pairs of different peers."""
        sizes = self.sizes
        pairs = np.outer(sizes, sizes) - np.diag(sizes)
        means = np.zeros_like(sums)
        np.divide(sums, pairs, out=means, where=pairs > 0)
        return means


@dataclass(frozen=True)
class Window:
    """The models that moved between peers in some rounds of one step of the drift."""

    step: int
    first: int
    last: int
    bins: Bins
    taken: npt.NDArray[np.float64]
    """How often a peer of a row took the model of a peer of a column, mean over pairs, (B, B)."""


def make_bins(clusters: npt.NDArray[np.int32], max_bins: int = MAX_BINS) -> Bins:
    """Return the peers ordered by cluster (K,), in equal bins where there are too many."""
    size = math.ceil(len(clusters) / max_bins)
    of_peer = np.zeros(len(clusters), dtype=np.int64)
    bin_clusters: list[int] = []
    for cluster in np.unique(clusters):
        members = np.flatnonzero(clusters == cluster)
        for chunk in np.array_split(members, math.ceil(len(members) / size)):
            of_peer[chunk] = len(bin_clusters)
            bin_clusters.append(int(cluster))
    return Bins(of_peer, np.array(bin_clusters))


def window_length(num_rounds: int) -> int:
    """Return how many rounds a window has."""
    return max(
        1, math.ceil(num_rounds / NUM_WINDOWS), min(FEWEST_ROUNDS, math.ceil(num_rounds / 8))
    )


def run_windows(run: RunFolder) -> Iterator[Window]:
    """Yield the windows of a run, oldest first; nothing if no models moved between peers."""
    models = between_peers(run.table("exchanges"))
    between = (models["receiver"] >= 0) & (models["sender"] >= 0)
    models = {name: values[between] for name, values in models.items()}
    if not len(models["round"]):
        return
    moved = dict(by_round(models))
    made: dict[int, Bins] = {}
    metrics = run.table("metrics")
    for step, first, last, clusters in windows(metrics, window_length(run.last_round)):
        bins = made.setdefault(step, make_bins(clusters))
        sums = np.zeros((len(bins.clusters), len(bins.clusters)))
        for number in range(first, last + 1):
            if number in moved:
                who = (bins.of_peer[moved[number][side]] for side in ("receiver", "sender"))
                np.add.at(sums, tuple(who), 1.0)
        yield Window(step, first, last, bins, bins.pair_means(sums))


def times(found: list[Window]) -> Json:
    """Return when the windows are, and the bins of each step."""
    return {
        "windows": [[window.step, window.first, window.last] for window in found],
        "bins": {str(window.step): window.bins.plain() for window in found},
    }


def num_exchanged(run: RunFolder) -> int:
    """Return how many models moved between peers."""
    return len(between_peers(run.table("exchanges"))["round"])


def quantised(values: npt.NDArray[np.float64], highest: float) -> npt.NDArray[np.uint8]:
    """Return values from 0 to `highest` as 0 to 255; what is above 0 stays so."""
    levels = np.ceil(np.clip(values / highest, 0, 1) * 255) if highest > 0 else values * 0
    return levels.astype(np.uint8)
