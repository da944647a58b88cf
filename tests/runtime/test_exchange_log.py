"""What is counted of the models sent in a round, and what a round records of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from coterie.runtime.exchange_log import SERVER, ExchangeLog, neighbour_statistics, traffic
from coterie.runtime.round import MEASURES, Round
from coterie.runtime.run_tables import SCHEMAS
from coterie.strategies.strategy import GroundTruth

CLUSTERS = np.array([0, 0, 1, 1])


def a_log() -> ExchangeLog:
    """Return a log with everything in it: fetches, a probe, a push, lost ones and the server."""
    log = ExchangeLog()
    log.add("fetch", 0, 1, 100, True)
    log.add("fetch", 0, 2, 100, True)
    log.add("fetch", 0, 3, 100, False)
    log.add("probe", 1, 2, 10, True)
    log.add("push", 1, 0, 40, True)
    log.add("download", 3, SERVER, 7, True)
    log.add("upload", SERVER, 3, 7, True)
    log.record_merge_weight(0, 1, 0.5)
    log.record_merge_weight(0, 2, 0.125)
    log.record_merge_weight(1, 0, 0.25)
    return log


def test_columns_hold_one_row_per_model_in_order():
    columns = a_log().columns()
    assert columns["kind"].tolist() == [
        "fetch",
        "fetch",
        "fetch",
        "probe",
        "push",
        "download",
        "upload",
    ]
    assert columns["receiver"].tolist() == [0, 0, 0, 1, 1, 3, -1]
    assert columns["sender"].tolist() == [1, 2, 3, 2, 0, -1, 3]
    assert columns["bytes"].tolist() == [100, 100, 100, 10, 40, 7, 7]
    assert columns["delivered"].tolist() == [True, True, False, True, True, True, True]
    nan = np.nan
    np.testing.assert_array_equal(columns["weight"], [0.5, 0.125, nan, nan, 0.25, nan, nan])


def test_traffic_by_hand():
    """Lost models count as sent, not as received; probes count; the server is not a peer."""
    counts = traffic(a_log().columns(), 4)
    assert counts["models_received"].tolist() == [2, 2, 0, 1]
    assert counts["bytes_received"].tolist() == [200, 50, 0, 7]
    assert counts["models_sent"].tolist() == [1, 1, 2, 2]
    assert counts["bytes_sent"].tolist() == [40, 100, 110, 107]


def test_the_server_is_never_taken_for_the_last_peer():
    log = ExchangeLog()
    for client in range(3):
        log.add("download", client, SERVER, 5, True)
        log.add("upload", SERVER, client, 5, True)
    counts = traffic(log.columns(), 4)
    assert [counts[name][3] for name in counts] == [0, 0, 0, 0]
    assert counts["models_received"].sum() == counts["models_sent"].sum() == 3
    statistics = neighbour_statistics(log.columns(), CLUSTERS)
    assert all(not values.any() for values in statistics.values())


def test_large_byte_counts_are_exact():
    log = ExchangeLog()
    size = 45_000_001
    for _ in range(1000):
        log.add("fetch", 0, 1, size, True)
    assert traffic(log.columns(), 2)["bytes_received"].tolist() == [1000 * size, 0]


@pytest.mark.parametrize(
    "measure", [traffic, lambda columns, _: neighbour_statistics(columns, CLUSTERS)]
)
def test_a_round_without_exchanges_counts_zero(measure: Callable):
    counts = measure(ExchangeLog().columns(), 4)
    assert len(counts) == 4
    for values in counts.values():
        assert values.tolist() == [0, 0, 0, 0]


def test_neighbours_by_hand():
    """Delivered fetches and pushes only: no probes, nothing lost, no server."""
    statistics = neighbour_statistics(a_log().columns(), CLUSTERS)
    assert statistics["num_received"].tolist() == [2, 1, 0, 0]
    assert statistics["num_same_cluster"].tolist() == [1, 1, 0, 0]
    assert statistics["weight_others"].tolist() == [0.625, 0.25, 0.0, 0.0]
    assert statistics["weight_same_cluster"].tolist() == [0.5, 0.25, 0.0, 0.0]


def test_a_model_that_was_received_but_not_merged_weighs_nothing():
    log = ExchangeLog()
    log.add("fetch", 0, 1, 4, True)
    statistics = neighbour_statistics(log.columns(), CLUSTERS)
    assert statistics["num_received"].tolist() == [1, 0, 0, 0]
    assert statistics["weight_others"].tolist() == [0.0, 0.0, 0.0, 0.0]


def test_weights_go_to_the_latest_of_several_models_of_one_sender():
    log = ExchangeLog()
    log.add("fetch", 0, 1, 4, True)
    log.add("fetch", 0, 1, 4, True)
    log.record_merge_weight(0, 1, 0.5)
    np.testing.assert_array_equal(log.columns()["weight"], [np.nan, 0.5])


def test_a_model_from_an_earlier_round_has_no_row_to_weigh():
    log = ExchangeLog()
    log.record_merge_weight(0, 1, 0.5)
    assert log.columns()["weight"].tolist() == []


def test_a_weight_is_not_given_to_a_probe():
    """A probe lets the receiver score a model; what it merges came by fetch or push."""
    log = ExchangeLog()
    log.add("fetch", 0, 1, 4, True)
    log.add("probe", 0, 1, 4, True)
    log.record_merge_weight(0, 1, 0.5)
    np.testing.assert_array_equal(log.columns()["weight"], [0.5, np.nan])
    assert neighbour_statistics(log.columns(), CLUSTERS)["weight_others"][0] == 0.5


def test_a_weight_is_not_given_to_a_model_that_was_lost():
    log = ExchangeLog()
    log.add("fetch", 0, 1, 4, True)
    log.add("fetch", 0, 1, 4, False)
    log.record_merge_weight(0, 1, 0.5)
    np.testing.assert_array_equal(log.columns()["weight"], [0.5, np.nan])
    assert neighbour_statistics(log.columns(), CLUSTERS)["weight_others"][0] == 0.5


def a_round(**changes: object) -> Round:
    settings = {
        "number": 4,
        "step": 1,
        "online": np.array([True, False, True, False]),
        "stopped": np.array([False, False, True, True]),
        "truth": GroundTruth(CLUSTERS),
        "exchanges": a_log(),
        **changes,
    }
    return Round(**settings)


def test_active_are_those_online_who_have_not_stopped():
    assert a_round().active_peers.tolist() == [0]


def test_a_round_starts_unmerged_and_unmeasured():
    now = a_round()
    assert not now.merged.any()
    assert set(now.measures) == set(MEASURES)
    assert all(np.isnan(values).all() for values in now.measures.values())


def test_the_tables_of_a_round():
    now = a_round()
    now.measures["test_score"][:] = [0.25, 0.5, 0.75, 1.0]
    tables = now.tables()
    metrics = tables["metrics"]
    assert metrics["status"].tolist() == ["active", "offline", "stopped", "stopped"]
    assert metrics["round"].tolist() == [4] * 4
    assert metrics["step"].tolist() == [1] * 4
    assert metrics["peer"].tolist() == [0, 1, 2, 3]
    assert metrics["cluster"].tolist() == [0, 0, 1, 1]
    assert metrics["test_score"].tolist() == [0.25, 0.5, 0.75, 1.0]
    assert metrics["models_sent"].tolist() == [1, 1, 2, 2]
    assert tables["exchanges"]["round"].tolist() == [4] * 7
    assert tables["neighbours"]["num_received"].tolist() == [2, 1, 0, 0]


def test_the_tables_have_exactly_the_columns_that_are_recorded():
    for name, columns in a_round().tables().items():
        assert set(columns) == set(SCHEMAS[name].names)
        assert len({len(values) for values in columns.values()}) == 1
