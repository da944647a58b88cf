"""The true similarity of watched peers to all other peers, over rounds."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.view_parts import (
    Json,
    build_legend,
    cache_per_run,
    find_shifts,
    make_notice,
    map_runs,
    shorten_numbers,
)
from coterie.results.analyses.columns import columns
from coterie.runtime.round import Columns

MAX_TIMES = 60
MAX_OTHERS = 100
_NO_WATCHED_PEERS = (
    "These runs have no watched peers. To record how similar some peers really are to all other "
    "peers, run with: --set 'watch.peers=[0, 1]'."
)


def build_similarity(group: RunGroup) -> Json:
    """Return one line to each other peer, per run, watched peer and metric."""
    runs = map_runs(group, _watched)
    return (
        {**build_legend(group), "shifts": find_shifts(group), "runs": runs}
        if runs
        else make_notice(_NO_WATCHED_PEERS)
    )


@cache_per_run
def _watched(run: RunFolder) -> Json | None:
    table = columns(run.table("similarities"))
    if not len(table["round"]):
        return None
    found = []
    for peer in np.unique(table["peer"]):
        for metric in dict.fromkeys(table["metric"].tolist()):
            mine = (table["peer"] == peer) & (table["metric"] == metric)
            if mine.any():
                rows = {name: values[mine] for name, values in table.items()}
                found.append({"peer": int(peer), "metric": str(metric), **_lines(rows)})
    return {"watched": found}


def _lines(rows: Columns) -> Json:
    """Return rounds (T) and the similarity to each other peer (N, T), None where unknown."""
    rounds = _pick_evenly(np.unique(rows["round"]), MAX_TIMES)
    others = _pick_evenly(np.unique(rows["other"]), MAX_OTHERS)
    shown = np.isin(rows["round"], rounds) & np.isin(rows["other"], others)
    cells = tuple(
        np.searchsorted(kept, rows[name][shown])
        for kept, name in ((others, "other"), (rounds, "round"))
    )
    values = np.full((len(others), len(rounds)), math.nan)
    values[cells] = rows["similarity"][shown]
    clusters = np.zeros(values.shape, dtype=np.int64)
    clusters[cells] = rows["other_cluster"][shown]
    own = {int(n): int(c) for n, c in zip(rows["round"], rows["cluster"], strict=True)}
    return {
        "rounds": rounds.tolist(),
        "own": [own[int(number)] for number in rounds],
        "others": others.tolist(),
        "clusters": [_changes(each) for each in clusters],
        "values": [shorten_numbers(each, 4) for each in values],
    }


def _changes(clusters: npt.NDArray[np.int64]) -> list[list[int]]:
    """Return [index, cluster] for the first round and each change of a peer's cluster."""
    starts = np.flatnonzero(np.diff(clusters, prepend=-1))
    return [[int(start), int(clusters[start])] for start in starts]


def _pick_evenly(values: npt.NDArray[np.int32], limit: int) -> npt.NDArray[np.int32]:
    """Return at most `limit` of the values, evenly spread, including the first and the last."""
    if len(values) <= limit:
        return values
    places = np.linspace(0, len(values) - 1, limit).round().astype(np.int64)
    picked: npt.NDArray[np.int32] = values[places]
    return picked
