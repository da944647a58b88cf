"""How often each peer fetched each model, in windows of rounds: data of the heatmap and the graph.

With more than MAX_BINS peers, several peers of one cluster share a bin.
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
"""About the maximum number of rows and columns."""
NUM_WINDOWS = 20
"""About how many windows a run has."""
MIN_ROUNDS = 5
"""Minimum number of rounds in a window, except in short runs: fewer rounds show only chance."""


@dataclass(frozen=True)
class Bins:
    """Bins of peers of the same true cluster, ordered by cluster."""

    of_peer: npt.NDArray[np.int64]
    """The bin of each peer, (K,)."""
    clusters: npt.NDArray[np.int64]
    """The cluster of each bin, (B,)."""

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The number of peers in each bin, (B,)."""
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
    """The models that peers fetched from each other in some rounds of one step of the drift."""

    step: int
    first: int
    last: int
    bins: Bins
    fetched: npt.NDArray[np.float64]
    """How often a peer of a row fetched from a peer of a column, mean over pairs, (B, B)."""


def make_bins(clusters: npt.NDArray[np.int32], max_bins: int = MAX_BINS) -> Bins:
    """Return bins of peers with these clusters (K,); one peer per bin if there are not too many."""
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
    """Return the number of rounds in a window."""
    return max(1, math.ceil(num_rounds / NUM_WINDOWS), min(MIN_ROUNDS, math.ceil(num_rounds / 8)))


def read_windows(run: RunFolder) -> Iterator[Window]:
    """Yield the windows of a run, oldest first; none if no peer fetched a model."""
    models = between_peers(run.table("exchanges"))
    between = (models["receiver"] >= 0) & (models["sender"] >= 0)
    models = {name: values[between] for name, values in models.items()}
    if not len(models["round"]):
        return
    fetched = dict(by_round(models))
    bins_by_step: dict[int, Bins] = {}
    metrics = run.table("metrics")
    for step, first, last, clusters in windows(metrics, window_length(run.last_round)):
        bins = bins_by_step.setdefault(step, make_bins(clusters))
        sums = np.zeros((len(bins.clusters), len(bins.clusters)))
        for number in range(first, last + 1):
            if number in fetched:
                pairs = (bins.of_peer[fetched[number][side]] for side in ("receiver", "sender"))
                np.add.at(sums, tuple(pairs), 1.0)
        yield Window(step, first, last, bins, bins.pair_means(sums))


def describe_windows(found: list[Window]) -> Json:
    """Return the step and rounds of each window, and the bins of each step."""
    return {
        "windows": [[window.step, window.first, window.last] for window in found],
        "bins": {str(window.step): window.bins.plain() for window in found},
    }


def quantise(values: npt.NDArray[np.float64], highest: float) -> npt.NDArray[np.uint8]:
    """Return values from 0 to `highest` as 0 to 255; positive values stay positive."""
    levels = np.ceil(np.clip(values / highest, 0, 1) * 255) if highest > 0 else values * 0
    return levels.astype(np.uint8)
