"""Whether peers found their true cluster, over rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.fetch_windows import window_length
from coterie.reports.html.views.view_parts import (
    Json,
    Series,
    build_legend,
    cache_per_run,
    find_shifts,
    make_notice,
    summarise_seeds,
)
from coterie.results.analyses.clusters import recovered_clusters
from coterie.results.analyses.columns import columns, of_all_peers
from coterie.results.analyses.neighbours import chosen_precision, fetched_precision
from coterie.results.analyses.unfetched import never_fetched

FEW_PEERS = 300
"""Finding groups takes time cubic in the peers; with more peers, fewer windows are analysed."""
FEW_WINDOWS = 5


@dataclass(frozen=True)
class RecoveryMeasure:
    """One measure of how well peers found their clusters."""

    key: str
    title: str
    short: str
    """Its column title in the table."""
    explain: str
    column: str
    detail: Callable[[RunFolder], pa.Table]
    """Computes a table with one row per round and the column, from a run; empty if unknown."""
    scale: float = 100.0


@cache_per_run
def _groups(run: RunFolder) -> pa.Table:
    rounds = run.last_round
    length = max(window_length(rounds), min(10, -(-rounds // 4)))
    if run.num_peers > FEW_PEERS:
        length = max(length, -(-rounds // FEW_WINDOWS))
    return recovered_clusters(run.table("exchanges"), run.table("metrics"), length)


@cache_per_run
def _fetched(run: RunFolder) -> pa.Table:
    return fetched_precision(run.table("neighbours"))


@cache_per_run
def _chosen(run: RunFolder) -> pa.Table:
    return chosen_precision(run.table("chosen_neighbours"))


@cache_per_run
def _unfetched(run: RunFolder) -> pa.Table:
    return never_fetched(run.table("exchanges"), run.table("metrics"))


MEASURES = (
    RecoveryMeasure(
        "groups",
        "groups found (adjusted Rand index)",
        "groups found",
        "1 means that the groups in the communication are the true clusters, 0 means chance.",
        "adjusted_rand_index",
        _groups,
        scale=1.0,
    ),
    RecoveryMeasure(
        "precision",
        "models from the own cluster (precision)",
        "from own cluster",
        "The share of received models that came from the peer's true cluster.",
        "precision",
        _fetched,
    ),
    RecoveryMeasure(
        "list_precision",
        "neighbour lists: precision",
        "lists: precision",
        "The share of the peers on neighbour lists that belong to the true cluster.",
        "precision",
        _chosen,
    ),
    RecoveryMeasure(
        "list_recall",
        "neighbour lists: recall",
        "lists: recall",
        "The share of the true cluster that is on neighbour lists.",
        "recall",
        _chosen,
    ),
    RecoveryMeasure(
        "unfetched",
        "peers never fetched so far",
        "never fetched",
        "The share of peers whose model no other peer has received so far.",
        "share_never_fetched",
        _unfetched,
    ),
)


def build_recovery(group: RunGroup) -> Json:
    """Return each measure over rounds, lines[strategy], and the value of random choice."""
    if not group.runs[0].has_clusters:
        return make_notice(
            "It is not known which of these peers are similar: each has data of its own."
        )
    shown = []
    for measure in MEASURES:
        lines = [
            summarise_seeds([_series(measure, run) for run in runs], measure.scale)
            for runs in group.runs_by_label.values()
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
                    "chance": _chance(group) if measure.key == "precision" else None,
                }
            )
    if not shown:
        return make_notice(
            "No peer has received another peer's model, so there are no groups to compare."
        )
    return {**build_legend(group), "shifts": find_shifts(group), "measures": shown}


def _series(measure: RecoveryMeasure, run: RunFolder) -> Series:
    detail = measure.detail(run)
    if not detail.num_rows:
        return {}
    every = of_all_peers(detail) if "cluster" in detail.column_names else detail
    table = columns(every, "round", measure.column)
    pairs = zip(table["round"], table[measure.column], strict=True)
    return {int(number): float(value) for number, value in pairs}


def _chance(group: RunGroup) -> Json:
    """Return the precision of random choice, mean over all runs."""
    chance = RecoveryMeasure("chance", "", "", "", "chance", _fetched)
    known = [series for run in group.runs if (series := _series(chance, run))]
    return summarise_seeds(known, chance.scale)
