"""Precision and recall against the true clusters, computed by hand."""

from __future__ import annotations

import math

import pytest
from recorded_tables import recorded, where

from coterie.results.analyses.neighbours import (
    chosen_at_the_end,
    chosen_precision,
    fetched_lately,
    fetched_precision,
)


def received(number, peer, cluster, count, same, weight=0.0, weight_same=0.0):
    return {
        "round": number,
        "peer": peer,
        "cluster": cluster,
        "num_received": count,
        "num_same_cluster": same,
        "weight_others": weight,
        "weight_same_cluster": weight_same,
    }


FETCHED = recorded(
    "neighbours",
    [
        *(received(0, peer, int(peer == 3), 0, 0) for peer in range(4)),
        received(1, 0, 0, 4, 1, 0.8, 0.2),
        received(1, 1, 0, 2, 2, 0.5, 0.5),
        received(1, 2, 0, 0, 0),
        received(1, 3, 1, 2, 0, 0.5, 0.0),
        *(received(2, peer, int(peer == 3), 1, 1, 0.5, 0.5) for peer in range(4)),
    ],
)


def test_precision_of_what_was_fetched():
    detail = fetched_precision(FETCHED)
    everybody = where(detail, round=1, cluster="all")
    assert everybody["precision"] == pytest.approx((0.25 + 1 + 0) / 3)
    assert everybody["weight_share"] == pytest.approx((0.25 + 1 + 0) / 3)
    # Blindly, each of the first three meets its own kind in 2 of 3 cases, the last one never;
    # peer 2 received nothing and so is not counted.
    assert everybody["chance"] == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
    assert where(detail, round=1, cluster="0")["precision"] == 0.625
    assert where(detail, round=1, cluster="1")["precision"] == 0.0
    assert set(detail["round"].to_pylist()) == {1, 2}


def test_the_summary_is_the_mean_over_the_last_rounds():
    detail = fetched_precision(FETCHED)
    assert fetched_lately(detail, 1)["precision"].to_pylist() == [1.0]
    assert fetched_lately(detail, 2)["precision"][0].as_py() == pytest.approx((1 + 1.25 / 3) / 2)


def test_precision_and_recall_of_lists():
    def chosen(number, peer, cluster, count, same, true):
        return {
            "round": number,
            "peer": peer,
            "cluster": cluster,
            "num_chosen": count,
            "num_same_cluster": same,
            "num_true": true,
        }

    detail = chosen_precision(
        recorded(
            "chosen_neighbours",
            [
                chosen(1, 0, 0, 5, 5, 5),
                chosen(2, 0, 0, 4, 3, 6),
                chosen(2, 1, 0, 0, 0, 6),
                chosen(2, 2, 1, 2, 0, 0),
            ],
        )
    )
    last = where(detail, round=2, cluster="all")
    assert last["precision"] == pytest.approx((0.75 + 0) / 2)  # an empty list has none
    assert last["recall"] == pytest.approx((0.5 + 0) / 2)  # nobody could be found by peer 2
    assert last["num_neighbours"] == 2.0
    assert math.isnan(where(detail, round=2, cluster="1")["recall"])
    (summary,) = chosen_at_the_end(detail, 10).to_pylist()
    assert summary == {name: last[name] for name in ("precision", "recall", "num_neighbours")}
