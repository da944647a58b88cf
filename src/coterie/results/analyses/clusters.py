"""How well the soft clusters of peers agree with the true clusters: adjusted Rand index."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from coterie.results.analyses.columns import between_peers, by_round, columns, mean

REGULARISATION = 0.01
"""The weight added to every pair of peers, as a share of the mean weight."""


def recovered_clusters(exchanges: pa.Table, metrics: pa.Table, window: int) -> pa.Table:
    """Per `window` rounds: how well groups in the merges agree with the true clusters.

    Windows are counted back from the end of each step, so that none spans a shift. 1: the same
    groups; 0: no better than chance. Peers that merged with no other peer are left out.
    """
    models = between_peers(exchanges)
    rows = []
    for step, first, last, clusters in windows(metrics, window):
        inside = (models["round"] >= first) & (models["round"] <= last)
        merged = {name: values[inside] for name, values in models.items()}
        shared = merge_weights(merged["receiver"], merged["sender"], merged["weight"], clusters)
        connected = np.flatnonzero(shared.sum(axis=1) > 0)
        if not len(connected):
            continue
        between = shared[np.ix_(connected, connected)]
        rows.append(
            {
                "step": step,
                "first_round": first,
                "round": last,
                "adjusted_rand_index": agreement(between, clusters[connected]),
                "num_peers": len(connected),
            }
        )
    return pa.Table.from_pylist(rows)


def clusters_at_the_end(detail: pa.Table, window: int) -> pa.Table:
    """The last window, and the mean over all windows."""
    values = detail["adjusted_rand_index"].to_numpy()
    peers = float(detail["num_peers"].to_numpy()[-1])
    row = {"adjusted_rand_index": float(values[-1]), "over_time": mean(values), "num_peers": peers}
    return pa.Table.from_pylist([row])


def merge_weights(
    receivers: npt.NDArray[np.int32],
    senders: npt.NDArray[np.int32],
    weights: npt.NDArray[np.float64],
    clusters: npt.NDArray[np.int32],
) -> npt.NDArray[np.float64]:
    """Return the symmetric matrix of merge weights, (K, K): (A + Aᵀ) / 2, A_ij: weight of j in i.

    Negative weights, which push models apart, count as 0.
    """
    num_peers = len(clusters)
    taken = np.zeros((num_peers, num_peers))
    np.add.at(taken, (receivers, senders), np.maximum(np.nan_to_num(weights), 0.0))
    np.fill_diagonal(taken, 0.0)
    symmetric: npt.NDArray[np.float64] = (taken + taken.T) / 2
    return symmetric


def agreement(shared: npt.NDArray[np.float64], clusters: npt.NDArray[np.int32]) -> float:
    """Return the adjusted Rand index of the groups in a matrix of weights; NaN for one cluster."""
    from sklearn.metrics import adjusted_rand_score

    num_clusters = len(np.unique(clusters))
    if num_clusters < 2 or len(clusters) <= num_clusters:
        return math.nan
    return float(adjusted_rand_score(clusters, groups_in(shared, num_clusters)))


def groups_in(shared: npt.NDArray[np.float64], num_groups: int) -> npt.NDArray[np.int64]:
    """Return each peer's group, (K,): regularised spectral clustering (Qin & Rohe 2013).

    A small weight between all pairs connects separate groups, whose eigenvectors would otherwise be
    arbitrary. Groups are found by pivoted QR (Damle et al. 2019), which needs no random start.
    """
    from sklearn.cluster import spectral_clustering

    affinity = shared + REGULARISATION * shared.mean()
    groups = spectral_clustering(
        affinity, n_clusters=num_groups, assign_labels="cluster_qr", random_state=0
    )
    return np.asarray(groups, dtype=np.int64)


def windows(
    metrics: pa.Table, window: int
) -> Iterator[tuple[int, int, int, npt.NDArray[np.int32]]]:
    """Yield step, first and last round, and the true clusters (K,) of each window."""
    rounds: dict[int, list[int]] = {}
    clusters: dict[int, npt.NDArray[np.int32]] = {}
    for number, peers in by_round(columns(metrics, "round", "step", "cluster")):
        if number > 0:
            rounds.setdefault(int(peers["step"][0]), []).append(number)
            clusters[int(peers["step"][0])] = peers["cluster"]
    for step, numbers in rounds.items():
        ends = range(numbers[-1], numbers[0] - 1, -window)
        for last in reversed(ends):
            yield step, max(last - window + 1, numbers[0]), last, clusters[step]
