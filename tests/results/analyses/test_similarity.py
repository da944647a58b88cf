"""How similar watched peers really are to all others."""

from __future__ import annotations

import math

import numpy as np
import pytest
from recorded_tables import recorded, where

from coterie.results.analyses.similarity import separation, similarity_at_the_end, true_similarity


def seen(number: int, others: dict[int, float], *, peer: int = 0, metric: str = "inverse-loss"):
    """Return rows of peer 0 in cluster 0; odd peers are in cluster 1."""
    return [
        {
            "round": number,
            "peer": peer,
            "cluster": peer % 2,
            "other": other,
            "other_cluster": other % 2,
            "metric": metric,
            "similarity": value,
        }
        for other, value in others.items()
    ]


def test_means_for_the_own_cluster_and_the_others_by_hand():
    table = recorded(
        "similarities",
        [
            *seen(2, {1: 1.0, 2: 4.0, 3: 5.0, 4: 6.0}),
            *seen(2, {1: -0.5, 2: 0.5, 3: -0.5, 4: 0.5}, metric="cosine-weights"),
            *seen(4, {1: 1.0, 2: 9.0, 3: 2.0, 4: 8.0}),
        ],
    )
    detail = true_similarity(table)
    assert detail.num_rows == 3
    row = where(detail, round=2, metric="inverse-loss")
    assert (row["own_cluster"], row["other_clusters"]) == (5.0, 3.0)
    assert row["separation"] == 0.75  # 4 > 1, 6 > 1 and 6 > 5, but not 4 > 5
    assert (row["peer"], row["cluster"]) == (0, "0")
    assert where(detail, round=2, metric="cosine-weights")["other_clusters"] == -0.5
    assert where(detail, round=4)["separation"] == 1.0


def test_the_summary_is_the_mean_over_watched_peers_in_the_last_round():
    table = recorded(
        "similarities",
        [
            *seen(2, {1: 100.0, 2: 100.0}),
            *seen(4, {1: 1.0, 2: 3.0}),
            *seen(4, {0: 2.0, 3: 9.0}, peer=1),
        ],
    )
    summary = similarity_at_the_end(true_similarity(table), 10)
    row = where(summary, metric="inverse-loss")
    assert (row["own_cluster"], row["other_clusters"], row["separation"]) == (6.0, 1.5, 1.0)


def test_separation_of_equal_values_is_a_coin_toss():
    assert separation(np.array([1.0, 1.0]), np.array([1.0])) == 0.5
    assert separation(np.array([0.0]), np.array([1.0, 2.0])) == 0.0
    assert math.isnan(separation(np.array([]), np.array([1.0])))


def test_a_cluster_of_one_has_no_similarity_to_itself():
    detail = true_similarity(recorded("similarities", seen(1, {1: 1.0, 3: 2.0})))
    row = where(detail, round=1)
    assert math.isnan(row["own_cluster"])
    assert row["other_clusters"] == pytest.approx(1.5)
