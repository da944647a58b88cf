"""Groups recovered from who merged with whom."""

from __future__ import annotations

import math

import numpy as np
import pytest
from recorded_tables import recorded, where

from coterie.results.analyses.clusters import (
    agreement,
    clusters_at_the_end,
    groups_in,
    merge_weights,
    recovered_clusters,
)


def merged(number, receiver, sender, weight=0.5, **more):
    return {"round": number, "receiver": receiver, "sender": sender, "weight": weight, **more}


def metrics(clusters_of_steps: list[list[int]], every: int):
    """Return the clusters of each round: round 0, then `every` rounds per step."""
    rounds = [(0, 0)] + [
        (step * every + n + 1, step) for step in range(len(clusters_of_steps)) for n in range(every)
    ]
    return recorded(
        "metrics",
        [
            {"round": number, "step": step, "peer": peer, "cluster": cluster}
            for number, step in rounds
            for peer, cluster in enumerate(clusters_of_steps[step])
        ],
    )


def within(number, groups):
    """Everybody merges with everybody of its group."""
    return [
        merged(number, one, other)
        for group in groups
        for one in group
        for other in group
        if one != other
    ]


def test_the_matrix_of_weights_is_symmetric():
    weights = merge_weights(
        np.array([0, 0, 1, 2, 2]),
        np.array([1, 1, 0, 0, 1]),
        np.array([0.2, 0.1, 0.5, math.nan, -1.0]),
        np.zeros(3, np.int32),
    )
    np.testing.assert_allclose(weights, [[0, 0.4, 0], [0.4, 0, 0], [0, 0, 0]])


def test_true_clusters_are_found_also_after_a_shift():
    """Each step is judged by the clusters of that step, and no window spans the shift."""
    exchanges = recorded(
        "exchanges",
        [
            *(row for n in (1, 2, 3) for row in within(n, [(0, 1, 2), (3, 4, 5)])),
            *(row for n in (4, 5, 6) for row in within(n, [(0, 2, 4), (1, 3, 5)])),
        ],
    )
    peers = metrics([[0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1]], every=3)
    detail = recovered_clusters(exchanges, peers, window=2)
    spans = [(row["step"], row["first_round"], row["round"]) for row in detail.to_pylist()]
    assert spans == [(0, 1, 1), (0, 2, 3), (1, 4, 4), (1, 5, 6)]
    assert detail["adjusted_rand_index"].to_pylist() == [1.0] * 4
    stale = recovered_clusters(exchanges, metrics([[0, 0, 0, 1, 1, 1]], every=6), window=3)
    assert stale["adjusted_rand_index"].to_pylist() == [1.0, pytest.approx(-1 / 9)]
    (summary,) = clusters_at_the_end(stale, 3).to_pylist()
    assert summary["adjusted_rand_index"] == pytest.approx(-1 / 9)
    assert summary["over_time"] == pytest.approx(4 / 9)


def test_only_merged_models_of_other_peers_count():
    """Probes, lost models and those that were never merged say nothing about kinship."""
    clusters = [0, 0, 0, 1, 1, 1]
    rows = within(1, [(0, 1, 2), (3, 4, 5)])
    noise = [
        merged(1, 0, 3, 9.0, kind="probe"),
        merged(1, 0, 4, 9.0, delivered=False),
        merged(1, 0, 5, math.nan),
        merged(1, 0, -1, 9.0, kind="download"),
    ]
    detail = recovered_clusters(recorded("exchanges", rows + noise), metrics([clusters], 1), 5)
    assert where(detail, round=1)["adjusted_rand_index"] == 1.0


def test_peers_that_merged_with_nobody_are_left_out():
    rows = within(1, [(0, 1, 2), (3, 4, 5)])
    peers = metrics([[0, 0, 0, 1, 1, 1, 1]], every=1)
    row = where(recovered_clusters(recorded("exchanges", rows), peers, 5), round=1)
    assert (row["adjusted_rand_index"], row["num_peers"]) == (1.0, 6)
    assert recovered_clusters(recorded("exchanges", []), peers, 5).num_rows == 0


def test_more_islands_than_clusters_are_grouped_the_same_way_every_time():
    shared = np.kron(np.eye(4), np.ones((5, 5)) - np.eye(5))
    first = groups_in(shared, 2)
    np.testing.assert_array_equal(first, groups_in(shared, 2))
    assert len(np.unique(first)) == 2
    islands = first.reshape(4, 5)
    assert (islands == islands[:, :1]).all(), "an island stays together"


def test_noisy_clusters_of_different_sizes_are_found():
    rng = np.random.default_rng(0)
    clusters = np.repeat([0, 1, 2], [40, 15, 5])
    same = clusters[:, None] == clusters[None, :]
    taken = rng.random((60, 60)) * np.where(same, 1.0, 0.1)
    assert agreement((taken + taken.T) / 2, clusters) > 0.95


def test_chance_gives_about_zero_and_one_cluster_nothing():
    rng = np.random.default_rng(0)
    taken = rng.random((60, 60))
    assert abs(agreement((taken + taken.T) / 2, np.arange(60) % 4)) < 0.1
    assert math.isnan(agreement(taken, np.zeros(60, np.int32)))
