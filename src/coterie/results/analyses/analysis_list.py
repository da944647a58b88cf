"""All analyses, with the columns that are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from coterie.experiments.run_folder import RunFolder
from coterie.results.analyses.clusters import clusters_at_the_end, recovered_clusters
from coterie.results.analyses.columns import (
    CLUSTER,
    of_all_peers,
    with_cluster_names,
    with_communication,
)
from coterie.results.analyses.merges import around_merges, merges_lately
from coterie.results.analyses.neighbours import (
    chosen_at_the_end,
    chosen_precision,
    fetched_lately,
    fetched_precision,
)
from coterie.results.analyses.recovery import recovery, recovery_per_shift
from coterie.results.analyses.similarity import similarity_at_the_end, true_similarity
from coterie.results.analyses.unfetched import never_fetched, unfetched_at_the_end


@dataclass(frozen=True)
class ShownColumn:
    """How a column of a summary is shown."""

    title: str
    scale: float = 1.0
    digits: int = 2
    with_interval: bool = True
    is_score: bool = False
    """Whether it is a score of the task, which has a scale and a unit of its own."""


@dataclass(frozen=True)
class Analysis:
    """A table of details per run, and its summary in a few rows."""

    name: str
    title: str
    detail: Callable[[RunFolder, int], pa.Table]
    """Of a run, with the number of rounds to average over; empty if it has no such data."""
    summary: Callable[[pa.Table, int], pa.Table]
    keys: tuple[str, ...]
    """The columns of the summary that identify a row."""
    shown: Mapping[str, ShownColumn]
    """The columns of the summary that are printed; files have all columns."""
    missing: str
    """Why a run may have no details, and what to do about it."""
    needs_clusters: bool = False
    """Whether it compares with the true clusters, which may be unknown."""

    def why_missing(self, runs: Sequence[RunFolder]) -> str:
        """Return why these runs have no details."""
        if self.needs_clusters and not any(run.has_clusters for run in runs):
            return "It is not known which of these peers are similar: each has data of its own."
        return self.missing


def _percent(title: str) -> ShownColumn:
    return ShownColumn(f"{title} %", scale=100.0, digits=1)


_NO_EXCHANGE = "No peer has received a model of another peer yet, or these strategies send none."

ANALYSES = (
    Analysis(
        "similarity",
        "true similarity of watched peers to all others, last round watched",
        lambda run, window: true_similarity(run.table("similarities")),
        similarity_at_the_end,
        ("metric",),
        {
            "own_cluster": ShownColumn("own cluster", digits=4),
            "other_clusters": ShownColumn("others", digits=4),
            "separation": _percent("separation"),
        },
        "No peers were watched. Choose peers when you run it, such as --set 'watch.peers=[0, 1]'.",
        needs_clusters=True,
    ),
    Analysis(
        "fetched",
        "models received from the own true cluster, last rounds",
        lambda run, window: fetched_precision(run.table("neighbours")),
        fetched_lately,
        (),
        {
            "precision": _percent("precision"),
            "weight_share": _percent("of the weight"),
            "chance": _percent("by chance"),
        },
        _NO_EXCHANGE,
        needs_clusters=True,
    ),
    Analysis(
        "neighbours",
        "lists of neighbours against the true clusters, last round",
        lambda run, window: chosen_precision(run.table("chosen_neighbours")),
        chosen_at_the_end,
        (),
        {
            "precision": _percent("precision"),
            "recall": _percent("recall"),
            "num_neighbours": ShownColumn("neighbours", digits=1),
        },
        "No strategy here keeps a list of neighbours, as pens and panm do.",
        needs_clusters=True,
    ),
    Analysis(
        "clusters",
        "agreement of groups in the communication with the true clusters",
        lambda run, window: recovered_clusters(
            run.table("exchanges"), run.table("metrics"), window
        ),
        clusters_at_the_end,
        (),
        {
            "adjusted_rand_index": ShownColumn("adjusted Rand index", digits=3),
            "over_time": ShownColumn("mean over time", digits=3),
            "num_peers": ShownColumn("peers", digits=0),
        },
        _NO_EXCHANGE,
        needs_clusters=True,
    ),
    Analysis(
        "unfetched",
        "peers whose models were never fetched",
        lambda run, window: never_fetched(run.table("exchanges"), run.table("metrics")),
        unfetched_at_the_end,
        (),
        {
            "share_never_fetched": _percent("never fetched"),
            "all_fetched_by_round": ShownColumn("none left by round", digits=0),
        },
        _NO_EXCHANGE,
    ),
    Analysis(
        "merges",
        "validation around merges, last rounds",
        lambda run, window: around_merges(run.table("metrics")),
        merges_lately,
        ("cluster",),
        {
            "score_before": ShownColumn("before", is_score=True),
            "score_merged": ShownColumn("merged", is_score=True),
            "score_trained": ShownColumn("trained", is_score=True),
        },
        "No round after the initial training has been recorded yet.",
    ),
    Analysis(
        "recovery",
        "validation score around shifts; rounds until it was regained",
        lambda run, window: recovery(run.table("metrics"), window, run.score),
        recovery_per_shift,
        ("shift",),
        {
            "level_before": ShownColumn("before", digits=3),
            "drop": ShownColumn("drop", digits=3),
            "drop_after_round": ShownColumn("after a round", digits=3),
            "rounds_to_95": ShownColumn("rounds to 95%", digits=1),
            "rounds_to_100": ShownColumn("to 100%", digits=1),
            "mean_level": ShownColumn("mean over time", digits=3),
        },
        "These runs have no drift, or have not reached a shift yet. Use a preset with drift, such "
        "as digits-drift, or --set 'drift={kind: random, every: 20}'.",
    ),
)


def details(analysis: Analysis, run: RunFolder, window: int) -> pa.Table:
    """Return the details of one run, with the communication so far; may be empty."""
    if analysis.needs_clusters and not run.has_clusters:
        return pa.table({})
    table = analysis.detail(run, window)
    if CLUSTER in table.column_names and not run.has_clusters:
        table = of_all_peers(table)
    table = with_cluster_names(table, run.cluster_names)
    return with_communication(table, run.table("metrics"))
