"""Validation and test results over rounds, per strategy and cluster."""

from __future__ import annotations

import numpy as np

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.view_parts import (
    Json,
    Series,
    build_legend,
    cache_per_run,
    find_shifts,
    summarise_seeds,
)
from coterie.results.analyses.columns import ALL, by_cluster, by_round, columns, mean


def build_curves(group: RunGroup) -> Json:
    """Return curves["test" or "validation"][strategy][0: all peers, then the clusters]."""
    levels = {run.folder: _levels(run) for run in group.runs}
    scale = build_legend(group)["measure"]["scale"]
    clusters = [ALL, *group.cluster_numbers]
    return {
        **build_legend(group),
        "shifts": find_shifts(group),
        "curves": {
            split: [
                [
                    summarise_seeds(
                        [levels[run.folder][split].get(name, {}) for run in runs], scale
                    )
                    for name in clusters
                ]
                for runs in group.runs_by_label.values()
            ]
            for split in ("test", "validation")
        },
    }


@cache_per_run
def _levels(run: RunFolder) -> dict[str, dict[str, Series]]:
    """Return mean results by cluster and round; an offline peer keeps its last validation."""
    trained, before = (f"validation_score_{moment}" for moment in ("trained", "before"))
    test = "test_score"
    found: dict[str, dict[str, dict[int, float]]] = {"test": {}, "validation": {}}
    names = ("round", "cluster", trained, before, test)
    for number, peers in by_round(columns(run.table("metrics"), *names)):
        latest = np.where(np.isnan(peers[trained]), peers[before], peers[trained])
        for cluster, members in by_cluster(peers["cluster"]):
            for split, values in (("test", peers[test]), ("validation", latest)):
                found[split].setdefault(cluster, {})[number] = mean(values[members])
    return {split: dict(levels) for split, levels in found.items()}
