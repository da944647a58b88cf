"""Peers whose models were never fetched: the white vertical lines of communication heatmaps."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.results.analyses.columns import (
    between_peers,
    by_cluster,
    by_round,
    columns,
    of_all_peers,
)


def never_fetched(exchanges: pa.Table, metrics: pa.Table) -> pa.Table:
    """Per round and cluster: the share of peers whose model has reached no other peer so far."""
    models = between_peers(exchanges)
    if not len(models["round"]):
        return pa.Table.from_pylist([])
    rows = []
    unfetched = np.ones(pc.max(metrics["peer"]).as_py() + 1, dtype=bool)
    senders = {number: moved["sender"] for number, moved in by_round(models)}
    for number, peers in by_round(columns(metrics, "round", "cluster")):
        if number == 0:
            continue
        unfetched[senders.get(number, [])] = False
        rows += [
            {
                "round": number,
                "cluster": name,
                "num_never_fetched": int(np.count_nonzero(unfetched & members)),
                "share_never_fetched": float(unfetched[members].mean()),
            }
            for name, members in by_cluster(peers["cluster"])
        ]
    return pa.Table.from_pylist(rows)


def unfetched_at_the_end(detail: pa.Table, window: int) -> pa.Table:
    """The share at the end, and the first round by which all peers had been fetched."""
    every = columns(of_all_peers(detail), "round", "share_never_fetched")
    done = every["round"][every["share_never_fetched"] == 0]
    row = {
        "share_never_fetched": float(every["share_never_fetched"][-1]),
        "all_fetched_by_round": float(done[0]) if len(done) else math.nan,
    }
    return pa.Table.from_pylist([row])
