"""The true similarity of watched peers to all others (FRIENDS, figures 4.3 to 4.5)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.stats import rankdata

from coterie.results.analyses.columns import by_round, columns, last_rounds, mean, means_of

VALUES = ("own_cluster", "other_clusters", "separation")


def true_similarity(similarities: pa.Table) -> pa.Table:
    """Per round, watched peer and metric: the mean similarity to its own cluster and to others.

    Separation is the probability that a peer of the own cluster is more similar than a peer of
    another cluster: 1 if the metric separates them, ½ if it does not.
    """
    rows = []
    for number, watched in by_round(columns(similarities)):
        for peer in np.unique(watched["peer"]):
            for metric in dict.fromkeys(watched["metric"]):
                mine = (watched["peer"] == peer) & (watched["metric"] == metric)
                if not mine.any():
                    continue
                same = watched["other_cluster"][mine] == watched["cluster"][mine]
                values = watched["similarity"][mine]
                rows.append(
                    {
                        "round": number,
                        "peer": int(peer),
                        "cluster": str(watched["cluster"][mine][0]),
                        "metric": str(metric),
                        "own_cluster": mean(values[same]),
                        "other_clusters": mean(values[~same]),
                        "separation": separation(values[same], values[~same]),
                    }
                )
    return pa.Table.from_pylist(rows)


def separation(own: npt.NDArray[np.float64], others: npt.NDArray[np.float64]) -> float:
    """Return P(own > other) + ½ P(own = other), by ranks (Mann-Whitney); NaN if one is empty."""
    if not (len(own) and len(others)):
        return math.nan
    ranks = rankdata(np.concatenate([own, others]))[: len(own)]
    return float((ranks.sum() - len(own) * (len(own) + 1) / 2) / (len(own) * len(others)))


def similarity_at_the_end(detail: pa.Table, window: int) -> pa.Table:
    """Per metric: the last round that was watched, mean over watched peers."""
    last = last_rounds(detail, 1)
    metrics = np.array(last["metric"].to_pylist())
    rows = [
        {"metric": metric, **means_of(last.filter(pa.array(metrics == metric)), VALUES)}
        for metric in dict.fromkeys(metrics.tolist())
    ]
    return pa.Table.from_pylist(rows)
