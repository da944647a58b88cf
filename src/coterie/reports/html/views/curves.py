"""How well peers do over rounds: per strategy and cluster, mean and range over seeds."""

from __future__ import annotations

import numpy as np

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.subjects import Subject
from coterie.reports.html.views.view_parts import (
    Json,
    Series,
    legend,
    once_per_run,
    over_seeds,
    shifts,
)
from coterie.results.analyses.columns import ALL, by_cluster, by_round, columns, mean


def curves(subject: Subject) -> Json:
    """Return test and validation over rounds: curves[kind][strategy][0: all, then clusters]."""
    levels = {run.folder: _levels(run) for run in subject.runs}
    scale = legend(subject)["measure"]["scale"]
    clusters = [ALL, *(str(number) for number in range(len(subject.cluster_names)))]
    return {
        **legend(subject),
        "shifts": shifts(subject),
        "curves": {
            kind: [
                [
                    over_seeds([levels[run.folder][kind].get(name, {}) for run in runs], scale)
                    for name in clusters
                ]
                for runs in subject.by_label.values()
            ]
            for kind in ("test", "validation")
        },
    }


@once_per_run
def _levels(run: RunFolder) -> dict[str, dict[str, Series]]:
    """Return test and validation by cluster and round; who is away keeps the level it had."""
    measure = "accuracy" if run.is_accuracy else "loss"
    trained, before = (f"validation_{measure}_{moment}" for moment in ("trained", "before"))
    test = f"test_{measure}"
    found: dict[str, dict[str, dict[int, float]]] = {"test": {}, "validation": {}}
    names = ("round", "cluster", trained, before, test)
    for number, peers in by_round(columns(run.table("metrics"), *names)):
        latest = np.where(np.isnan(peers[trained]), peers[before], peers[trained])
        for cluster, members in by_cluster(peers["cluster"]):
            for kind, values in (("test", peers[test]), ("validation", latest)):
                found[kind].setdefault(cluster, {})[number] = mean(values[members])
    return {kind: dict(levels) for kind, levels in found.items()}
