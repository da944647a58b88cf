"""Validation before and after merges, and the traffic until then."""

from __future__ import annotations

import math

import pytest
from recorded_tables import recorded, where

from coterie.results.analyses.columns import with_communication
from coterie.results.analyses.merges import around_merges, merges_lately


def peer(number, who, cluster, before, merged, trained, **more):
    return {
        "round": number,
        "peer": who,
        "cluster": cluster,
        "validation_score_before": before,
        "validation_score_merged": merged,
        "validation_score_trained": trained,
        **more,
    }


METRICS = recorded(
    "metrics",
    [
        peer(0, 0, 0, math.nan, math.nan, 0.5),
        peer(0, 1, 1, math.nan, math.nan, 0.5),
        peer(1, 0, 0, 0.5, 0.3, 0.6, models_received=2, bytes_sent=3_000_000),
        peer(1, 1, 1, 0.5, 0.4, 0.7, models_sent=2, bytes_received=3_000_000),
        # The peers have exchanged their clusters; one is offline.
        peer(2, 0, 1, 0.6, 0.2, 0.8, models_received=1),
        peer(2, 1, 0, 0.7, math.nan, math.nan, status="offline"),
    ],
)


def test_means_of_active_peers_by_their_cluster_now():
    detail = around_merges(METRICS)
    first = where(detail, round=1, cluster="all")
    assert first["score_before"] == 0.5
    assert first["score_merged"] == pytest.approx(0.35)
    assert first["score_trained"] == pytest.approx(0.65)
    assert where(detail, round=2, cluster="1")["score_merged"] == 0.2
    away = where(detail, round=2, cluster="0")
    assert math.isnan(away["score_before"])
    assert away["num_active"] == 0
    assert where(detail, round=2, cluster="all")["score_before"] == 0.6
    assert set(detail["round"].to_pylist()) == {1, 2}


def test_the_summary_per_cluster():
    summary = merges_lately(around_merges(METRICS), 2)
    row = where(summary, cluster="1")
    assert row["score_before"] == pytest.approx((0.5 + 0.6) / 2)
    assert row["merge_gain"] == pytest.approx(0.3 - 0.55)
    assert where(merges_lately(around_merges(METRICS), 1), cluster="1")["merge_gain"] == (
        pytest.approx(-0.4)
    )


def test_communication_so_far_stands_beside_it():
    detail = with_communication(around_merges(METRICS), METRICS)
    first, second = (where(detail, round=n, cluster="all") for n in (1, 2))
    assert (first["models_per_peer"], first["megabytes_per_peer"]) == (2.0, 3.0)
    assert (second["models_per_peer"], second["megabytes_per_peer"]) == (2.5, 3.0)
