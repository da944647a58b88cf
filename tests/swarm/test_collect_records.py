"""Records of peers, each in its own numbers, become the tables of one run."""

from __future__ import annotations

import numpy as np
import pytest
from recorded_peers import NUM_PEERS, make_peers, small_run

from coterie.errors import StorageError
from coterie.peer.peer_run import PEERS, RUN
from coterie.runtime.run_tables import read_table
from coterie.swarm.collect_records import RecordCollector

EVERYBODY = range(NUM_PEERS)


@pytest.fixture
def run_and_world(tmp_path):
    return small_run(tmp_path / "run")


@pytest.fixture
def peers(run_and_world):
    return make_peers(run_and_world[0])


@pytest.fixture
def collector(run_and_world, peers):
    return RecordCollector(*run_and_world, [peer.folder for peer in peers])


def rows(run_and_world, name):
    return read_table(run_and_world[0].folder, name).to_pylist()


def test_everybody_is_called_by_the_same_number(run_and_world, peers, collector):
    for peer, senders in zip(peers, ([1, 2], [2, 0], [0, 1]), strict=True):
        peer.fetch(0, senders)
    collector.collect(EVERYBODY)
    found = [
        (row["receiver"], row["sender"], row["bytes"]) for row in rows(run_and_world, "exchanges")
    ]
    assert found == [(0, 1, 101), (0, 2, 102), (1, 2, 102), (1, 0, 100), (2, 0, 100), (2, 1, 101)]
    metrics = rows(run_and_world, "metrics")
    assert [row["validation_loss_trained"] for row in metrics] == [0.0, 1.0, 2.0]
    assert [row["bytes_sent"] for row in metrics] == [200, 202, 204]
    assert [row["models_sent"] for row in metrics] == [2, 2, 2]


def test_true_clusters_are_filled_in_that_no_peer_knows(run_and_world, peers, collector):
    true = run_and_world[1].clusters(0).tolist()
    assert sorted(set(true)) == [0, 1]
    for peer in peers:
        peer.fetch(0, [other for other in EVERYBODY if other != peer.number])
    collector.collect(EVERYBODY)
    neighbours = rows(run_and_world, "neighbours")
    assert [row["cluster"] for row in neighbours] == true
    for row in neighbours:
        same = true.count(true[row["peer"]]) - 1
        assert row["num_received"] == 2
        assert row["num_same_cluster"] == same
        assert row["weight_same_cluster"] == 0.25 * same


def test_rounds_are_gathered_as_far_as_the_slowest(run_and_world, peers, collector):
    for number in range(3):
        peers[0].fetch(number, [])
        peers[1].fetch(number, [])
    collector.collect(EVERYBODY)
    assert collector.num_rounds == 0
    peers[2].fetch(0, [])
    peers[2].fetch(1, [])
    collector.collect(EVERYBODY)
    assert collector.num_rounds == 2
    collector.collect(EVERYBODY)
    assert [row["round"] for row in rows(run_and_world, "timings")] == [0, 1]
    assert len(rows(run_and_world, "metrics")) == 2 * NUM_PEERS


def test_a_round_takes_what_it_takes_on_average_and_all_cpu(run_and_world, peers, collector):
    for peer in peers:
        peer.fetch(0, [])
    collector.collect(EVERYBODY)
    assert rows(run_and_world, "timings") == [{"round": 0, "wall_seconds": 3.0, "cpu_seconds": 1.5}]


def test_who_has_died_is_offline_and_keeps_its_last_test(run_and_world, peers, collector):
    for peer in peers:
        peer.fetch(0, [], test=0.5 + peer.number)
    for number in (1, 2):
        for peer in peers[:2]:
            peer.fetch(number, [], test=0.25 if number == 2 else float("nan"))
    collector.collect([0, 1])
    metrics = [row for row in rows(run_and_world, "metrics") if row["peer"] == 2]
    assert [row["status"] for row in metrics] == ["active", "offline", "offline"]
    np.testing.assert_array_equal([row["test_loss"] for row in metrics], [2.5, np.nan, 2.5])
    np.testing.assert_array_equal(
        [row["validation_loss_trained"] for row in metrics], [2.0, np.nan, np.nan]
    )


def test_the_rest_is_gathered_when_nobody_is_left(run_and_world, peers, collector):
    for number in range(3):
        peers[1].fetch(number, [])
    peers[0].fetch(0, [])
    collector.collect_rest(from_start=False)
    assert collector.num_rounds == 3
    online = [row["peer"] for row in rows(run_and_world, "metrics") if row["status"] == "active"]
    assert online == [0, 1, 1, 1]


def test_a_round_that_was_done_again_counts_as_it_was_done_last(run_and_world, peers, collector):
    for peer in peers:
        peer.fetch(0, [])
        peer.fetch(1, [])
    collector.collect(EVERYBODY)
    peers[0].recorder.rewind(1)
    peers[0].fetch(1, [2])
    collector.collect_rest(from_start=True)
    assert [row["sender"] for row in rows(run_and_world, "exchanges")] == [2]
    assert [row["round"] for row in rows(run_and_world, "timings")] == [0, 1]


def test_a_gatherer_that_begins_again_finds_everything(run_and_world, peers, collector):
    for peer in peers:
        peer.fetch(0, [(peer.number + 1) % NUM_PEERS])
    collector.collect(EVERYBODY)
    before = rows(run_and_world, "exchanges")
    again = RecordCollector(*run_and_world, [peer.folder for peer in peers])
    again.collect(EVERYBODY)
    assert rows(run_and_world, "exchanges") == before


def test_a_damaged_list_of_peers_is_named(run_and_world, peers, collector):
    for peer in peers:
        peer.fetch(0, [])
    path = peers[1].folder / RUN / PEERS
    for damage in ("[", '[{"name": "x"}]', '[{"id": "unknown"}]'):
        path.write_text(damage)
        with pytest.raises(StorageError, match=f"{path} is damaged"):
            collector.collect(EVERYBODY)


def test_nothing_is_gathered_before_the_first_round(run_and_world, collector):
    collector.collect(EVERYBODY)
    collector.collect_rest(from_start=True)
    assert collector.num_rounds == 0
    assert rows(run_and_world, "metrics") == []
