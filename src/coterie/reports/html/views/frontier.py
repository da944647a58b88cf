"""Accuracy against communication: what each strategy reaches, and what its peers sent for it."""

from __future__ import annotations

import pyarrow as pa

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.subjects import Subject
from coterie.reports.html.views.view_parts import (
    Json,
    legend,
    measure,
    missing,
    number,
    once_per_run,
    thinned,
)
from coterie.results.analyses.columns import by_round, columns, mean, with_communication
from coterie.results.statistics import confidence_interval


def frontier(subject: Subject) -> Json:
    """Return per strategy its way: models and megabytes per peer and the test result then."""
    ways = [_way(runs, measure(subject)["scale"]) for runs in subject.by_label.values()]
    if not any(way["round"] for way in ways):
        return missing("No model has been tested yet.")
    return {**legend(subject), "ways": ways}


def _way(runs: list[RunFolder], scale: float) -> Json:
    """Return the points of a strategy: means over its seeds, in rounds that all have tested."""
    found = [_points(run) for run in runs]
    shared = set.intersection(*(set(points) for points in found))
    way: Json = {"round": [], "models": [], "megabytes": [], "level": [], "width": []}
    for after in thinned(sorted(shared)):
        models, megabytes, levels = zip(*(points[after] for points in found), strict=True)
        level, width = confidence_interval(levels)
        way["round"].append(after)
        way["models"].append(number(mean(models)))
        way["megabytes"].append(number(mean(megabytes)))
        way["level"].append(number(level * scale))
        way["width"].append(number(width * scale))
    return way


@once_per_run
def _points(run: RunFolder) -> dict[int, tuple[float, float, float]]:
    """Return by round: models and megabytes per peer until then, and the test result."""
    metrics = run.table("metrics")
    test = f"test_{'accuracy' if run.is_accuracy else 'loss'}"
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
