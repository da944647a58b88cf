"""Following runs from outside: from before they begin until they have finished."""

from __future__ import annotations

import os
import time

import pytest
from watching_runs import create

from coterie.reports.live.run_follower import RunFollower, Snapshot


def seen(follower: RunFollower) -> Snapshot:
    snapshot = follower.take_snapshot()
    assert snapshot is not None
    return snapshot


def test_a_folder_that_comes_later(tmp_path):
    folder = tmp_path / "later"
    follower = RunFollower(folder)
    assert seen(follower).progress == ()
    assert follower.take_snapshot() is None
    folder.mkdir()
    assert follower.take_snapshot() is None
    create(folder, ["random"], [0], **{"strategy.fetches": 2})
    (run,) = seen(follower).progress
    assert (run.name, run.state, run.num_done, run.num_rounds) == ("random-seed0", "waiting", 0, 7)
    assert follower.take_snapshot() is None


def test_a_run_from_its_start_to_its_end(tmp_path):
    experiment = create(tmp_path / "out", ["random"], [0], **{"strategy.fetches": 2})
    follower = RunFollower(tmp_path / "out")
    snapshots: list[tuple[int, int]] = []

    def look(run, glimpse):
        snapshot = follower.take_snapshot()
        if snapshot is not None:
            (progress,) = snapshot.progress
            assert progress.num_done <= glimpse.round + 1
            snapshots.append((glimpse.round, progress.num_done))

    experiment.run(threads=1, on_round=look, tell=lambda message: None)
    assert len({num_done for _, num_done in snapshots}) >= 3
    last = seen(follower)
    assert last.is_finished
    assert last.num_done == last.num_rounds == 7
    (run,) = last.runs
    assert run.table("metrics").num_rows == 7 * 8
    assert follower.take_snapshot() is None


def test_single_runs_and_whole_folders(runs):
    assert len(seen(RunFollower(runs)).runs) == 4
    (run,) = seen(RunFollower(runs / "random-seed1")).runs
    assert (run.label, run.seed) == ("random", 1)


def test_a_run_without_news_may_have_been_stopped(runs):
    for name in ("summary.json",):
        (runs / "random-seed0" / name).unlink()
    follower = RunFollower(runs)
    by_name = {run.name: run.state for run in seen(follower).progress}
    assert by_name["random-seed0"] == "running"
    assert by_name["random-seed1"] == "finished"
    old = time.time() - 3600
    os.utime(runs / "random-seed0" / "timings.parquet", (old, old))
    by_name = {run.name: run.state for run in seen(follower).progress}
    assert by_name["random-seed0"] == "quiet"


def test_the_time_that_is_left(runs):
    follower = RunFollower(runs)
    assert seen(follower).seconds_left is None
    (runs / "random-seed0" / "summary.json").unlink()
    assert seen(follower).seconds_left == 0.0
    config = runs / "random-seed0" / "config.yaml"
    config.write_text(config.read_text().replace("rounds: 6", "rounds: 16"))
    snapshot = seen(RunFollower(runs))
    (slow,) = [run for run in snapshot.progress if run.name == "random-seed0"]
    assert snapshot.seconds_left == pytest.approx(10 * slow.seconds_per_round)


def test_a_damaged_list_of_runs_is_named_and_the_runs_are_still_shown(runs):
    (runs / "experiment.yaml").write_text("runs: 7")
    snapshot = seen(RunFollower(runs))
    assert len(snapshot.runs) == 4
    assert any("experiment.yaml is damaged" in problem for problem in snapshot.runs.problems)


def test_a_damaged_configuration_costs_one_run(runs):
    (runs / "local-seed0" / "config.yaml").write_text("{")
    snapshot = seen(RunFollower(runs))
    assert len(snapshot.runs) == 3
    assert any("local-seed0" in problem for problem in snapshot.runs.problems)


def test_a_damaged_table_is_named_and_the_others_are_shown(runs):
    (runs / "local-seed0" / "metrics.parquet").write_bytes(b"no table")
    snapshot = seen(RunFollower(runs))
    assert len(snapshot.runs) == 3
    assert any("metrics.parquet" in problem for problem in snapshot.runs.problems)
