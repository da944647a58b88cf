"""The effect of merging: validation before and after each merge, and after training."""

from __future__ import annotations

import pyarrow as pa

from coterie.results.analyses.columns import (
    by_cluster,
    by_round,
    columns,
    last_rounds,
    mean,
    means_of,
)

MOMENTS = ("before", "merged", "trained")
"""The model after the last training, after the merge, and after this round's training."""
MEASURES = ("score", "loss")


def around_merges(metrics: pa.Table) -> pa.Table:
    """Per round and cluster: mean validation of the active peers before and after each merge."""
    names = [f"validation_{measure}_{moment}" for measure in MEASURES for moment in MOMENTS]
    rows = []
    for number, peers in by_round(columns(metrics, "round", "cluster", "status", *names)):
        active = peers["status"] == "active"
        rows += [
            {
                "round": number,
                "cluster": name,
                "num_active": int((active & members).sum()),
                **{
                    column.removeprefix("validation_"): mean(peers[column][active & members])
                    for column in names
                },
            }
            for name, members in by_cluster(peers["cluster"])
            if number > 0
        ]
    return pa.Table.from_pylist(rows)


def merges_lately(detail: pa.Table, window: int) -> pa.Table:
    """Per cluster, mean over the last rounds; the gain is what the merge alone changed."""
    last = last_rounds(detail, window)
    clusters = last["cluster"].to_pylist()
    names = [f"{measure}_{moment}" for measure in MEASURES for moment in MOMENTS]
    rows = []
    for cluster in dict.fromkeys(clusters):
        here = means_of(last.filter(pa.array([each == cluster for each in clusters])), names)
        gain = here["score_merged"] - here["score_before"]
        rows.append({"cluster": cluster, **here, "merge_gain": gain})
    return pa.Table.from_pylist(rows)
