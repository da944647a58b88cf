"""Drops at shifts, and how long it takes to make up for them."""

from __future__ import annotations

import math

import pytest
from recorded_tables import recorded, where

from coterie.results.analyses.recovery import recovery, recovery_per_shift, rounds_until
from coterie.tasks.score import ACCURACY, MSE

# Accuracies after training in rounds 1 to 8; steps of 4 rounds; before merging in round 5: 0.2.
PEER_0 = [0.4, 0.6, 0.8, 0.8, 0.5, 0.7, 0.77, 0.9]
PEER_1 = [0.2, 0.4, 0.4, 0.4, 0.1, 0.3, 0.37, 0.37]


def metrics(*curves: list[float], start: float = 0.2):
    """Two clusters, which exchange their peers at the shift."""
    rows = []
    for number in range(9):
        step = int(number > 4)
        for peer, curve in enumerate(curves):
            rows.append(
                {
                    "round": number,
                    "step": step,
                    "peer": peer,
                    "cluster": (peer + step) % 2,
                    "validation_score_trained": curve[number - 1] if number else math.nan,
                    "validation_score_before": start,
                }
            )
    return recorded("metrics", rows)


def test_all_peers_by_hand():
    row = where(recovery(metrics(PEER_0, PEER_1), window=2, score=ACCURACY), step=1, cluster="all")
    assert row["level_before"] == pytest.approx(0.6)  # rounds 3 and 4
    assert row["drop"] == pytest.approx(0.4)
    assert row["drop_after_round"] == pytest.approx(0.3)  # round 5: 0.3
    assert row["rounds_to_95"] == 3  # round 7: 0.57
    assert row["rounds_to_100"] == 4  # round 8: 0.635
    assert row["mean_level"] == pytest.approx((0.3 + 0.5 + 0.57 + 0.635) / 4)
    assert (row["first_round"], row["round"], row["measure"]) == (5, 8, "accuracy")


def test_a_cluster_is_whoever_is_in_it_then():
    """Cluster 0 was peer 0 before the shift and is peer 1 after it."""
    detail = recovery(metrics(PEER_0, PEER_1), window=2, score=ACCURACY)
    fallen, risen = (where(detail, step=1, cluster=name) for name in ("0", "1"))
    assert fallen["level_before"] == pytest.approx(0.8)
    assert math.isnan(fallen["rounds_to_95"])
    assert risen["level_before"] == pytest.approx(0.4)
    assert risen["rounds_to_100"] == 1


def test_a_peer_that_did_not_train_keeps_its_old_level():
    gone = [*PEER_1[:4], math.nan, 0.3, 0.37, 0.37]
    row = where(recovery(metrics(PEER_0, gone), window=2, score=ACCURACY), step=1, cluster="all")
    assert row["mean_level"] == pytest.approx(((0.5 + 0.2) / 2 + 0.5 + 0.57 + 0.635) / 4)


def test_the_first_step_has_no_shift_before_it():
    row = where(recovery(metrics(PEER_0, PEER_1), window=2, score=ACCURACY), step=0, cluster="all")
    assert math.isnan(row["drop"])
    assert math.isnan(row["rounds_to_95"])
    assert row["mean_level"] == pytest.approx((0.3 + 0.5 + 0.6 + 0.6) / 4)


def test_the_summary_adds_the_mean_over_time():
    detail = recovery(metrics(PEER_0, PEER_1), window=2, score=ACCURACY)
    summary = recovery_per_shift(detail, 2)
    assert summary["shift"].to_pylist() == ["1", "all"]
    assert where(summary, shift="all")["mean_level"] == pytest.approx(
        (0.3 + 0.5 + 0.6 + 0.6 + 0.3 + 0.5 + 0.57 + 0.635) / 8
    )
    assert where(summary, shift="all")["drop"] == pytest.approx(0.4)


def test_a_loss_falls_when_it_gets_better():
    falling = [4.0, 2.0, 1.0, 1.0, 3.0, 1.5, 1.04, 0.9]
    row = where(recovery(metrics(falling, falling, start=5.0), 2, MSE), step=1, cluster="0")
    assert (row["measure"], row["level_before"], row["drop"]) == ("MSE", 1.0, 4.0)
    assert (row["rounds_to_95"], row["rounds_to_100"]) == (3, 4)


def test_without_a_shift_there_is_nothing_to_recover_from():
    flat = metrics(PEER_0, PEER_1)
    first_step = flat.slice(0, 10)
    assert recovery(first_step, window=2, score=ACCURACY).num_rows == 0


def test_rounds_count_from_the_first_on_new_data():
    assert rounds_until({11: 0.5, 12: 0.9, 13: 0.4}, 0.9, 1.0, 1.0) == 2
    assert math.isnan(rounds_until({11: 0.5}, 0.9, 1.0, 1.0))
    assert math.isnan(rounds_until({11: 0.5}, math.nan, 1.0, 1.0))
