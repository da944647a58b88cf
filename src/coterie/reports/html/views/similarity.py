"""How similar watched peers really are to all others, round by round."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.subjects import Subject
from coterie.reports.html.views.view_parts import (
    Json,
    each_run,
    legend,
    missing,
    numbers,
    once_per_run,
    shifts,
)
from coterie.results.analyses.columns import Columns, columns

MAX_TIMES = 60
MAX_OTHERS = 100
_NOBODY = (
    "Nobody was watched in these runs. To see how similar a peer really is to all others, name it "
    "when running, such as --set 'watch.peers=[0, 1]'."
)


def similarity(subject: Subject) -> Json:
    """Return per run, watched peer and metric one line to each other peer."""
    runs = each_run(subject, _watched)
    return (
        {**legend(subject), "shifts": shifts(subject), "runs": runs} if runs else missing(_NOBODY)
    )


@once_per_run
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
    """Return rounds (T) and the similarity to each of the others (N, T), null where unknown."""
    rounds = _spread(np.unique(rows["round"]), MAX_TIMES)
    others = _spread(np.unique(rows["other"]), MAX_OTHERS)
    shown = np.isin(rows["round"], rounds) & np.isin(rows["other"], others)
    places = tuple(
        np.searchsorted(kept, rows[name][shown])
        for kept, name in ((others, "other"), (rounds, "round"))
    )
    values = np.full((len(others), len(rounds)), math.nan)
    values[places] = rows["similarity"][shown]
    clusters = np.zeros(values.shape, dtype=np.int64)
    clusters[places] = rows["other_cluster"][shown]
    own = {int(n): int(c) for n, c in zip(rows["round"], rows["cluster"], strict=True)}
    return {
        "rounds": rounds.tolist(),
        "own": [own[int(number)] for number in rounds],
        "others": others.tolist(),
        "clusters": [_changes(each) for each in clusters],
        "values": [numbers(each, 4) for each in values],
    }


def _changes(clusters: npt.NDArray[np.int64]) -> list[list[int]]:
    """Return [place, cluster] wherever a peer's cluster became another, the first included."""
    starts = np.flatnonzero(np.diff(clusters, prepend=-1))
    return [[int(start), int(clusters[start])] for start in starts]


def _spread(values: npt.NDArray[np.int32], limit: int) -> npt.NDArray[np.int32]:
    """Return at most `limit` of the values, evenly spread, first and last among them."""
    if len(values) <= limit:
        return values
    places = np.linspace(0, len(values) - 1, limit).round().astype(np.int64)
    spread: npt.NDArray[np.int32] = values[places]
    return spread
