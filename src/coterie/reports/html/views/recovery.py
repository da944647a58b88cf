"""Whether peers found their own kind: over rounds, against the true clusters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.subjects import Subject
from coterie.reports.html.views.pairs import window_length
from coterie.reports.html.views.view_parts import (
    Json,
    Series,
    legend,
    missing,
    once_per_run,
    over_seeds,
    shifts,
)
from coterie.results.analyses.clusters import recovered_clusters
from coterie.results.analyses.columns import columns, of_all_peers
from coterie.results.analyses.neighbours import chosen_precision, fetched_precision
from coterie.results.analyses.unfetched import never_fetched

FEW_PEERS = 300
"""Finding groups takes the third power of the peers: of more, fewer windows are looked at."""
FEW_WINDOWS = 5


@dataclass(frozen=True)
class Measure:
    """One way to see whether clusters were recovered."""

    key: str
    title: str
    short: str
    """The heading of its column."""
    explain: str
    column: str
    detail: Callable[[RunFolder], pa.Table]
    """From a run to a table with one row per round and the column; empty: it has none."""
    scale: float = 100.0


@once_per_run
def _groups(run: RunFolder) -> pa.Table:
    recorded = run
    rounds = recorded.last_round
    length = max(window_length(rounds), min(10, -(-rounds // 4)))
    if recorded.num_peers > FEW_PEERS:
        length = max(length, -(-rounds // FEW_WINDOWS))
    return recovered_clusters(recorded.table("exchanges"), recorded.table("metrics"), length)


@once_per_run
def _fetched(run: RunFolder) -> pa.Table:
    return fetched_precision(run.table("neighbours"))


@once_per_run
def _chosen(run: RunFolder) -> pa.Table:
    return chosen_precision(run.table("chosen_neighbours"))


@once_per_run
def _unfetched(run: RunFolder) -> pa.Table:
    return never_fetched(run.table("exchanges"), run.table("metrics"))


MEASURES = (
    Measure(
        "groups",
        "groups found (adjusted Rand index)",
        "groups found",
        "1: groups in the communication are the true clusters; 0: no better than chance.",
        "adjusted_rand_index",
        _groups,
        scale=1.0,
    ),
    Measure(
        "precision",
        "models from the own cluster (precision)",
        "from own cluster",
        "The share of received models that came from the peer's true cluster.",
        "precision",
        _fetched,
    ),
    Measure(
        "list_precision",
        "neighbour lists: precision",
        "lists: precision",
        "Of the peers on the neighbour lists, the share that belongs to the true cluster.",
        "precision",
        _chosen,
    ),
    Measure(
        "list_recall",
        "neighbour lists: recall",
        "lists: recall",
        "Of the true cluster, the share that is on the neighbour lists.",
        "recall",
        _chosen,
    ),
    Measure(
        "unfetched",
        "peers nobody has fetched yet",
        "never fetched",
        "The share of peers whose model has reached nobody so far.",
        "share_never_fetched",
        _unfetched,
    ),
)


def recovery(subject: Subject) -> Json:
    """Return each measure over rounds, lines[strategy], and what blind choice would give."""
    shown = []
    for measure in MEASURES:
        lines = [
            over_seeds([_series(measure, run) for run in runs], measure.scale)
            for runs in subject.by_label.values()
        ]
        if any(line["round"] for line in lines):
            shown.append(
                {
                    "key": measure.key,
                    "title": measure.title,
                    "short": measure.short,
                    "explain": measure.explain,
                    "unit": "%" if measure.scale == 100 else "",
                    "lines": lines,
                    "chance": _chance(subject) if measure.key == "precision" else None,
                }
            )
    if not shown:
        return missing("No peer has received another's model, so there are no groups to compare.")
    return {**legend(subject), "shifts": shifts(subject), "measures": shown}


def _series(measure: Measure, run: RunFolder) -> Series:
    detail = measure.detail(run)
    if not detail.num_rows:
        return {}
    every = of_all_peers(detail) if "cluster" in detail.column_names else detail
    table = columns(every, "round", measure.column)
    pairs = zip(table["round"], table[measure.column], strict=True)
    return {int(number): float(value) for number, value in pairs}


def _chance(subject: Subject) -> Json:
    """Return what precision choosing blindly would have, mean over all runs."""
    chance = Measure("chance", "", "", "", "chance", _fetched)
    known = [series for run in subject.runs if (series := _series(chance, run))]
    return over_seeds(known, chance.scale)
