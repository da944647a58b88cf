"""Heatmaps, graphs, estimated and true similarities: matrices of peers, checked by hand."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from report_runs import fetches, metrics, run, run_group

from coterie.reports.html.views.estimates_view import build_estimates
from coterie.reports.html.views.fetch_windows import make_bins, window_length
from coterie.reports.html.views.graph_layout import move_nodes, spread_nodes
from coterie.reports.html.views.graph_view import build_graph
from coterie.reports.html.views.heatmap_view import build_heatmap
from coterie.reports.html.views.similarity_view import build_similarity

# Peers 0 and 2 are of one cluster, 1 and 3 of the other: the order by cluster is 0, 2, 1, 3.
MIXED = (0, 1, 0, 1)


def unpacked(packed):
    dtype = np.dtype(packed["type"]).newbyteorder("<")
    return np.frombuffer(base64.b64decode(packed["base64"]), dtype).reshape(packed["shape"])


def rows(last=2, **more):
    return [row for number in range(last + 1) for row in metrics(number, [0.5] * 4, MIXED, **more)]


def test_the_heatmap_is_ordered_by_cluster():
    moved = fetches(1, [(0, 2), (1, 3)]) + fetches(2, [(0, 2), (0, 1)])
    moved += fetches(2, [(3, 0)], delivered=False) + fetches(2, [(3, 0)], kind="probe")
    found = build_heatmap(run_group(run("dac", metrics=rows(), exchanges=moved)))
    [shown] = found["runs"]
    assert shown["windows"] == [[0, 1, 1], [0, 2, 2]]
    assert shown["bins"]["0"] == {"peers": [[0], [2], [1], [3]], "clusters": [0, 0, 1, 1]}
    assert shown["unit"] == 1
    first, second = unpacked(shown["cells"])
    assert first.tolist() == [[0, 1, 0, 0], [0] * 4, [0, 0, 0, 1], [0] * 4]
    assert second.tolist() == [[0, 1, 1, 0], [0] * 4, [0] * 4, [0] * 4]


@pytest.mark.parametrize("view", [build_heatmap, build_graph])
def test_poisoned_peers_are_known(view):
    bad = [{**row, "poisoned": row["peer"] == 2} for row in rows()]
    [shown] = view(run_group(run("dac", metrics=bad, exchanges=fetches(1, [(0, 2)]))))["runs"]
    assert shown["poisoned"] == [2]


def test_strategies_without_exchange_are_named():
    dac = run("dac", metrics=rows(), exchanges=fetches(1, [(0, 2)]))
    found = build_heatmap(run_group(run("local", strategy="local", metrics=rows()), dac))
    assert found["without"] == ["local"]
    assert [each["strategy"] for each in found["runs"]] == [1]
    assert "missing" in build_heatmap(run_group(run("local", strategy="local", metrics=rows())))


def test_a_server_is_no_peer():
    uploads = fetches(1, [(-1, 0)], kind="upload") + fetches(1, [(0, -1)], kind="download")
    assert "missing" in build_heatmap(run_group(run("fedavg", metrics=rows(), exchanges=uploads)))


def test_windows_do_not_span_shifts():
    shifted = [
        *metrics(0, [0.5] * 4, MIXED),
        *metrics(1, [0.5] * 4, MIXED),
        *metrics(2, [0.5] * 4, (1, 1, 0, 0), step=1),
    ]
    moved = fetches(1, [(0, 2)]) + fetches(2, [(0, 1)])
    [shown] = build_heatmap(run_group(run("dac", metrics=shifted, exchanges=moved)))["runs"]
    assert shown["windows"] == [[0, 1, 1], [1, 2, 2]]
    assert shown["bins"]["1"]["peers"] == [[2], [3], [0], [1]]
    assert unpacked(shown["cells"])[1][2].tolist() == [0, 0, 0, 1]


def test_many_peers_form_bins_of_one_cluster_each():
    bins = make_bins(np.array([0] * 7 + [1] * 3, dtype=np.int32), max_bins=5)
    assert bins.members() == [[0, 1], [2, 3], [4, 5], [6], [7, 8], [9]]
    assert bins.clusters.tolist() == [0, 0, 0, 0, 1, 1]
    sums = np.zeros((6, 6))
    sums[0, 0], sums[0, 3], sums[3, 3] = 4, 4, 0
    means = bins.pair_means(sums)
    assert means[0, 0] == 2  # two peers form two pairs of different peers
    assert means[0, 3] == 2
    assert means[3, 3] == 0


@pytest.mark.parametrize(("rounds", "length"), [(1, 1), (10, 2), (40, 5), (300, 15), (2000, 100)])
def test_windows_are_few_but_not_too_short(rounds, length):
    assert window_length(rounds) == length


def test_the_graph_prefers_probabilities_to_counts():
    moved = fetches(1, [(0, 1), (0, 2), (2, 1)]) + fetches(2, [(0, 1)])
    estimates = [
        {"round": 2, "peer": 0, "other": 2, "origin": "measured", "probability": 0.75},
        {"round": 2, "peer": 0, "other": 3, "origin": "measured", "probability": 0.25},
        {"round": 2, "peer": 1, "other": 3, "origin": "measured", "probability": 0.5},
    ]
    [shown] = build_graph(
        run_group(run("dac", metrics=rows(), exchanges=moved, beliefs=estimates))
    )["runs"]
    assert shown["from_probabilities"] == [False, True]
    assert shown["strongest"] == 1
    targets, strengths = unpacked(shown["targets"]), unpacked(shown["strengths"])
    # In the first window peer 0 took as much from 1 as from 2, peer 2 (place 1) all from 1.
    assert targets[0, 0].tolist() == [1, 2, 3]
    assert strengths[0, 0].tolist() == [128, 128, 0]
    assert (targets[0, 1, 0], strengths[0, 1, 0]) == (2, 255)
    assert targets[1, 0].tolist()[:2] == [1, 3]
    assert strengths[1, 0].tolist() == [192, 64, 0]
    assert unpacked(shown["places"]).max() <= 1000


def test_the_graph_ignores_probabilities_of_a_few_peers():
    estimates = [{"round": 2, "peer": 0, "other": 2, "origin": "measured", "probability": 1.0}]
    moved = fetches(2, [(0, 1), (1, 3), (2, 0), (3, 1)])
    [shown] = build_graph(
        run_group(run("dac", metrics=rows(), exchanges=moved, beliefs=estimates))
    )["runs"]
    assert shown["from_probabilities"] == [False, False]


def test_the_graph_is_the_same_every_time():
    one = run("dac", metrics=rows(), exchanges=fetches(1, [(0, 1), (2, 3)]))
    two = run("dac", metrics=rows(), exchanges=fetches(1, [(0, 1), (2, 3)]))
    assert build_graph(run_group(one)) == build_graph(run_group(two))


def test_peers_that_prefer_each_other_are_placed_together():
    clusters = np.repeat([0, 1, 2], 8)
    same = clusters[:, None] == clusters[None, :]
    shares = np.where(same, 1.0, 0.02)
    np.fill_diagonal(shares, 0)
    shares /= shares.sum(axis=1, keepdims=True)
    places = move_nodes(spread_nodes(24), shares, 150)
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    assert apart[same].mean() < 0.5 * apart[~same].mean()


def test_estimates_keep_measured_estimated_and_unknown_apart():
    recorded_rows = [
        {"round": 1, "peer": 0, "other": 2, "origin": "measured", "similarity": 1.0},
        {"round": 1, "peer": 0, "other": 1, "origin": "estimated", "similarity": 3.0},
        {"round": 1, "peer": 3, "other": 0, "origin": "measured", "similarity": 3.0},
    ]
    [shown] = build_estimates(run_group(run("dac", metrics=rows(), beliefs=recorded_rows)))["runs"]
    assert shown["rounds"] == [1]
    [cells] = unpacked(shown["cells"])
    # Only 0 and 3 were recorded; the order of the others is 0, 2, 1, 3. Levels reach from 1 to 127,
    # estimated ones from 129 to 255.
    assert shown["axes"][0]["rows"] == {"peers": [[0], [3]], "clusters": [0, 1]}
    assert shown["axes"][0]["columns"]["peers"] == [[0], [2], [1], [3]]
    assert not shown["has_all_peers"]
    assert cells.tolist() == [[0, 1, 255, 0], [127, 0, 0, 0]]
    assert shown["known"] == [[pytest.approx(2 / 6, abs=1e-3), pytest.approx(1 / 6, abs=1e-3)]]
    assert "older versions" in build_estimates(run_group(run("dac", metrics=rows())))["missing"]


def test_true_similarity_follows_clusters_through_drift():
    seen = [
        {
            "round": number,
            "peer": 0,
            "cluster": 0,
            "other": other,
            "other_cluster": cluster,
            "similarity": number + other / 10,
        }
        for number, clusters in ((1, (1, 0)), (2, (1, 1)))
        for other, cluster in zip((1, 2), clusters, strict=True)
    ]
    [shown] = build_similarity(run_group(run("dac", metrics=rows(), similarities=seen)))["runs"]
    [line] = shown["watched"]
    assert (line["peer"], line["metric"], line["rounds"]) == (0, "inverse-loss", [1, 2])
    assert line["values"] == [[1.1, 2.1], [1.2, 2.2]]
    assert line["clusters"] == [[[0, 1]], [[0, 0], [1, 1]]]
    assert "watch.peers" in build_similarity(run_group(run("dac", metrics=rows())))["missing"]
