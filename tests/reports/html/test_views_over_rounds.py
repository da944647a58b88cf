"""Curves, merges, recovered clusters and costs over rounds: numbers checked by hand."""

from __future__ import annotations

import math

import pytest
from report_runs import fetches, metrics, run, run_group

from coterie.reports.html.views.curves_view import build_curves
from coterie.reports.html.views.frontier_view import build_frontier
from coterie.reports.html.views.merge_view import build_merge
from coterie.reports.html.views.recovery_view import build_recovery
from coterie.reports.html.views.view_parts import (
    MAX_POINTS,
    shorten_number,
    summarise_seeds,
    thin_rounds,
)
from coterie.tasks.score import MSE


def test_curves_are_means_over_peers_and_ranges_over_seeds():
    one = run("dac", 0, metrics=[*metrics(0, [0.1] * 4), *metrics(1, [0.2, 0.4, 0.6, 0.8])])
    two = run("dac", 1, metrics=[*metrics(0, [0.1] * 4), *metrics(1, [0.4, 0.6, 0.6, 0.8])])
    found = build_curves(run_group(one, two))
    every, left, right = found["curves"]["test"][0]
    assert every["round"] == [0, 1]
    assert every["mean"] == [10, 55]
    assert (every["low"], every["high"]) == ([10, 50], [10, 60])
    assert left["mean"][1] == 40
    assert right["mean"][1] == 70
    assert found["shifts"] == []


def test_an_offline_peer_keeps_its_last_validation():
    rows = [*metrics(0, [0.5] * 4), *metrics(1, [0.5] * 4)]
    rows[4] |= {"validation_score_trained": math.nan, "validation_score_before": 0.1}
    found = build_curves(run_group(run("dac", metrics=rows)))
    assert found["curves"]["validation"][0][0]["mean"] == [50, 40]


def test_rounds_without_a_test_are_no_points():
    rows = metrics(0, [0.5] * 4) + metrics(1, [0.6] * 4, test_score=math.nan)
    found = build_curves(run_group(run("dac", metrics=rows)))["curves"]
    assert found["test"][0][0]["round"] == [0]
    assert found["validation"][0][0]["round"] == [0, 1]


def test_clusters_follow_the_drift_and_shifts_are_marked():
    rows = metrics(0, [0.5] * 4) + metrics(1, [0.2, 0.2, 0.4, 0.4])
    rows += metrics(2, [0.2, 0.2, 0.4, 0.4], clusters=(1, 1, 0, 0), step=1)
    found = build_curves(run_group(run("dac", metrics=rows)))
    assert found["shifts"] == [2]
    assert found["curves"]["validation"][0][1]["mean"] == [50, 20, 40]


def test_errors_are_not_percent():
    rows = metrics(0, [3.0, 5.0, 4.0, 4.0])
    found = build_curves(run_group(run("dac", metrics=rows, score=MSE)))
    assert found["curves"]["test"][0][0]["mean"] == [4]
    assert not found["measure"]["higher_is_better"]


def test_long_runs_are_thinned_and_keep_their_end():
    kept = thin_rounds(range(1000))
    assert len(kept) <= MAX_POINTS
    assert kept[-1] == 999
    assert thin_rounds([1, 2, 3]) == [1, 2, 3]


def test_seeds_of_different_length_and_unknown_numbers():
    found = summarise_seeds([{0: 1.0, 1: 3.0}, {0: 2.0}, {0: math.nan}])
    assert found["round"] == [0, 1]
    assert found["mean"] == [1.5, 3]
    assert shorten_number(math.inf) is None
    assert shorten_number(0.123456789) == 0.12346


def test_the_moments_of_a_merge():
    rows = metrics(0, [0.5] * 4) + [
        row | {"validation_score_before": 0.5, "validation_score_merged": 0.3}
        for row in metrics(1, [0.7] * 4)
    ]
    found = build_merge(run_group(run("dac", metrics=rows)))
    assert found["moments"] == ["before", "merged", "trained"]
    assert [line["mean"] for line in found["lines"][0][0]] == [[50], [30], [70]]
    assert build_merge(run_group(run("dac", metrics=metrics(0, [0.5] * 4)))).keys() == {"missing"}


def test_what_peers_spent_until_each_test():
    spent = {"models_received": 2, "models_sent": 2, "bytes_received": 1_000_000}
    rows = metrics(0, [0.1] * 4) + metrics(1, [0.5] * 4, **spent)
    rows += metrics(2, [0.6] * 4, **spent)
    [way] = build_frontier(run_group(run("dac", metrics=rows)))["paths"]
    assert way["models"] == [0, 4, 8]
    assert way["megabytes"] == [0, 1, 2]
    assert way["level"] == [10, 50, 60]
    untested = metrics(0, [0.5] * 4, test_score=math.nan)
    assert "missing" in build_frontier(run_group(run("dac", metrics=untested)))


def test_whether_peers_found_their_own_cluster():
    peers = [{"peer": n, "cluster": n // 2} for n in range(4)]
    neighbours = [
        {"round": 1, **each, "num_received": 2, "num_same_cluster": same}
        for each, same in zip(peers, (2, 1, 1, 0), strict=True)
    ]
    rows = metrics(0, [0.5] * 4) + metrics(1, [0.5] * 4)
    moved = fetches(1, [(0, 1), (1, 0), (2, 0)], weight=0.5)
    dac = run("dac", metrics=rows, neighbours=neighbours, exchanges=moved)
    shown = {each["key"]: each for each in build_recovery(run_group(dac))["measures"]}
    assert shown["precision"]["lines"][0]["mean"] == [50]
    assert shown["precision"]["chance"]["mean"] == [pytest.approx(33.333)]
    assert shown["unfetched"]["lines"][0]["mean"] == [50]
    assert "list_recall" not in shown
    assert "missing" in build_recovery(run_group(run("local", metrics=rows)))
