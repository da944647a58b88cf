"""Precision and recall of fetches and lists of neighbours, against the true clusters."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from coterie.results.analyses.columns import (
    by_cluster,
    by_round,
    columns,
    last_rounds,
    mean,
    means_of,
    of_all_peers,
    share,
)


def fetched_precision(neighbours: pa.Table) -> pa.Table:
    """Per round and cluster: the share of received models that came from the true cluster.

    Means over the peers that received models: precision counts models, weight_share counts merge
    weights, and chance is the precision of a random choice among all other peers.
    """
    rows = []
    for number, peers in by_round(columns(neighbours)):
        received = peers["num_received"]
        if not received.any():
            continue
        sizes = np.bincount(peers["cluster"])[peers["cluster"]]
        chance = (sizes - 1) / max(len(sizes) - 1, 1)
        precision = share(peers["num_same_cluster"], received)
        weights = share(peers["weight_same_cluster"], peers["weight_others"])
        rows += [
            {
                "round": number,
                "cluster": name,
                "precision": mean(precision[members]),
                "weight_share": mean(weights[members]),
                "chance": mean(chance[members & (received > 0)]),
            }
            for name, members in by_cluster(peers["cluster"])
        ]
    return pa.Table.from_pylist(rows)


def fetched_lately(detail: pa.Table, window: int) -> pa.Table:
    """All peers, mean over the last rounds."""
    last = last_rounds(of_all_peers(detail), window)
    return pa.Table.from_pylist([means_of(last, ("precision", "weight_share", "chance"))])


def chosen_precision(chosen_neighbours: pa.Table) -> pa.Table:
    """Per round and cluster: precision and recall of the neighbour lists that peers keep.

    precision = |list ∩ cluster| / |list| and recall = |list ∩ cluster| / |cluster|, both without
    the peer itself. Means over peers; an empty list has no precision.
    """
    rows = []
    for number, peers in by_round(columns(chosen_neighbours)):
        precision = share(peers["num_same_cluster"], peers["num_chosen"])
        recall = share(peers["num_same_cluster"], peers["num_true"])
        rows += [
            {
                "round": number,
                "cluster": name,
                "precision": mean(precision[members]),
                "recall": mean(recall[members]),
                "num_neighbours": mean(peers["num_chosen"][members]),
            }
            for name, members in by_cluster(peers["cluster"])
        ]
    return pa.Table.from_pylist(rows)


def chosen_at_the_end(detail: pa.Table, window: int) -> pa.Table:
    """All peers, with their lists after the last round."""
    last = last_rounds(of_all_peers(detail), 1)
    return pa.Table.from_pylist([means_of(last, ("precision", "recall", "num_neighbours"))])
