"""Test results against communication: what each strategy reaches, and at what cost."""

from __future__ import annotations

import pyarrow as pa

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.view_parts import (
    Json,
    build_legend,
    cache_per_run,
    describe_measure,
    make_notice,
    shorten_number,
    thin_rounds,
)
from coterie.results.analyses.columns import by_round, columns, mean, with_communication
from coterie.results.statistics import confidence_interval


def build_frontier(group: RunGroup) -> Json:
    """Return per strategy a path: models and megabytes per peer, and the test result, by round."""
    paths = [_path(runs, describe_measure(group)["scale"]) for runs in group.runs_by_label.values()]
    if not any(path["round"] for path in paths):
        return make_notice("No model has been tested yet.")
    return {**build_legend(group), "paths": paths}


def _path(runs: list[RunFolder], scale: float) -> Json:
    """Return means over the seeds of a strategy, in the rounds in which all seeds were tested."""
    found = [_points(run) for run in runs]
    shared = set.intersection(*(set(points) for points in found))
    path: Json = {"round": [], "models": [], "megabytes": [], "level": [], "width": []}
    for after in thin_rounds(sorted(shared)):
        models, megabytes, levels = zip(*(points[after] for points in found), strict=True)
        level, width = confidence_interval(levels)
        path["round"].append(after)
        path["models"].append(shorten_number(mean(models)))
        path["megabytes"].append(shorten_number(mean(megabytes)))
        path["level"].append(shorten_number(level * scale))
        path["width"].append(shorten_number(width * scale))
    return path


@cache_per_run
def _points(run: RunFolder) -> dict[int, tuple[float, float, float]]:
    """Return by tested round: models and megabytes per peer so far, and the test result."""
    metrics = run.table("metrics")
    test = "test_score"
    rows = [
        {"round": after, "level": level}
        for after, peers in by_round(columns(metrics, "round", test))
        if (level := mean(peers[test])) == level  # not NaN: it was tested
    ]
    tested = with_communication(pa.Table.from_pylist(rows), metrics)
    return {
        row["round"]: (row["models_per_peer"], row["megabytes_per_peer"], row["level"])
        for row in tested.to_pylist()
    }
