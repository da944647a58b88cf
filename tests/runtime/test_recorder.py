"""The tables of a run: readable while it goes on, joined at its end, rewound before it resumes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.errors import StorageError
from coterie.runtime.recorder import Recorder
from coterie.runtime.round import MEASURES, Round
from coterie.runtime.run_tables import SCHEMAS, parts_of, read_table
from coterie.strategies.strategy import GroundTruth

NUM_PEERS = 3
NAMES = ("metrics", "exchanges", "neighbours", "timings")
SAME_EVERY_TIME = ("metrics", "exchanges", "neighbours")
"""The tables without clock times."""


def a_round(number: int, *, exchanging: bool = True) -> Round:
    """Return a round with numbers of its own, some of them missing."""
    rng = np.random.default_rng(number)
    now = Round(
        number=number,
        step=0,
        online=rng.random(NUM_PEERS) < 0.7,
        stopped=np.zeros(NUM_PEERS, dtype=bool),
        truth=GroundTruth(np.arange(NUM_PEERS) % 2),
    )
    for name in MEASURES[:4]:
        now.measures[name][:] = rng.random(NUM_PEERS)
    if exchanging:
        for sender in range(1, NUM_PEERS):
            now.exchanges.add("fetch", 0, sender, 100 + number, bool(rng.random() < 0.8))
        now.exchanges.record_merge_weight(0, 1, float(rng.random()))
    return now


def record(run: Path, rounds: range, flush_after: set[int], *, finish: bool = True) -> Recorder:
    recorder = Recorder(run)
    for number in rounds:
        recorder.add(a_round(number))
        if number in flush_after:
            recorder.flush()
    if finish:
        recorder.finish()
    return recorder


def rounds_in(run: Path, name: str) -> list[int]:
    """Return the rounds of a table in the order of its rows, each as often as in a row."""
    return read_table(run, name)["round"].to_pylist()


def recorded_rounds(run: Path) -> set[tuple[int, ...]]:
    return {tuple(dict.fromkeys(rounds_in(run, name))) for name in NAMES}


def part_names(run: Path) -> dict[str, list[str]]:
    return {name: [part.name for part in parts_of(run, name)] for name in NAMES}


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_tables_are_readable_while_the_run_goes_on(tmp_path):
    recorder = Recorder(tmp_path)
    recorder.add(a_round(0))
    recorder.add(a_round(1))
    assert rounds_in(tmp_path, "metrics") == []
    recorder.flush()
    assert rounds_in(tmp_path, "metrics") == [0] * NUM_PEERS + [1] * NUM_PEERS
    recorder.add(a_round(2))
    assert rounds_in(tmp_path, "timings") == [0, 1]
    recorder.flush()
    assert rounds_in(tmp_path, "timings") == [0, 1, 2]
    assert rounds_in(tmp_path, "exchanges") == [0, 0, 1, 1, 2, 2]


def test_parts_are_named_by_their_first_and_last_round(tmp_path):
    record(tmp_path, range(8), {0, 4, 7}, finish=False)
    parts = [
        "0000000-0000000.parquet",
        "0000001-0000004.parquet",
        "0000005-0000007.parquet",
    ]
    assert part_names(tmp_path) == dict.fromkeys(NAMES, parts)


def test_flushing_nothing_writes_nothing(tmp_path):
    recorder = record(tmp_path, range(2), {1}, finish=False)
    before = part_names(tmp_path)
    recorder.flush()
    assert part_names(tmp_path) == before


def test_flushes_by_itself_only_when_due(tmp_path, monkeypatch):
    recorder = Recorder(tmp_path)
    recorder.add(a_round(0))
    recorder.flush_if_due()
    assert rounds_in(tmp_path, "timings") == []
    monkeypatch.setattr("coterie.runtime.recorder.FLUSH_SECONDS", 0.0)
    recorder.flush_if_due()
    assert rounds_in(tmp_path, "timings") == [0]


def test_values_survive_with_their_types(tmp_path):
    now = a_round(3)
    now.measures["test_loss"][:] = [np.nan, np.inf, 0.1]
    recorder = Recorder(tmp_path)
    recorder.add(now)
    recorder.finish()
    for name, columns in now.tables().items():
        table = read_table(tmp_path, name)
        assert table.schema == SCHEMAS[name]
        for column, values in columns.items():
            np.testing.assert_array_equal(table[column].to_numpy(), values)
        assert all(column.null_count == 0 for column in table.columns)


def test_timings_are_those_of_each_round(tmp_path):
    recorder = Recorder(tmp_path)
    for number in range(3):
        recorder.add(a_round(number))
    timings = recorder.table("timings")
    assert timings["round"].to_pylist() == [0, 1, 2]
    assert all(0 < seconds < 60 for seconds in timings["wall_seconds"].to_pylist())
    assert all(0 <= seconds < 60 for seconds in timings["cpu_seconds"].to_pylist())


def test_finish_joins_the_parts_and_removes_their_folders(tmp_path):
    record(tmp_path, range(6), {1, 3})
    assert names_in(tmp_path) == sorted(f"{name}.parquet" for name in NAMES)
    assert recorded_rounds(tmp_path) == {tuple(range(6))}


def test_bytes_do_not_depend_on_how_often_was_flushed(tmp_path):
    rounds = range(12)
    ways = [set(), {11}, {5}, {0, 1, 7}, set(rounds)]
    for number, flush_after in enumerate(ways):
        record(tmp_path / str(number), rounds, flush_after)
    for name in SAME_EVERY_TIME:
        seen = {(tmp_path / str(n) / f"{name}.parquet").read_bytes() for n in range(len(ways))}
        assert len(seen) == 1


def test_bytes_do_not_depend_on_interruptions(tmp_path):
    record(tmp_path / "steady", range(10), {4})
    record(tmp_path / "resumed", range(7), {2, 5}, finish=False).flush()
    resumed = Recorder(tmp_path / "resumed")
    resumed.rewind(3)
    for number in range(3, 10):
        resumed.add(a_round(number))
    resumed.finish()
    for name in SAME_EVERY_TIME:
        file = f"{name}.parquet"
        assert (tmp_path / "resumed" / file).read_bytes() == (
            tmp_path / "steady" / file
        ).read_bytes()


def test_the_recorder_returns_what_is_on_disk_and_what_is_not_yet(tmp_path):
    recorder = record(tmp_path, range(5), {2}, finish=False)
    assert recorder.table("timings")["round"].to_pylist() == [0, 1, 2, 3, 4]
    assert rounds_in(tmp_path, "timings") == [0, 1, 2]
    recorder.finish()
    assert recorder.table("timings")["round"].to_pylist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("next_round", [0, 1, 3, 5, 6, 9])
def test_rewind_drops_later_rounds_from_the_parts(tmp_path, next_round):
    record(tmp_path, range(6), {0, 2, 4, 5}, finish=False)
    Recorder(tmp_path).rewind(next_round)
    assert recorded_rounds(tmp_path) == {tuple(range(min(next_round, 6)))}


@pytest.mark.parametrize("next_round", [0, 1, 4, 6])
def test_rewind_drops_later_rounds_from_a_finished_file(tmp_path, next_round):
    record(tmp_path, range(6), {2})
    resumed = Recorder(tmp_path)
    resumed.rewind(next_round)
    assert recorded_rounds(tmp_path) == {tuple(range(next_round))}
    for number in range(next_round, 8):
        resumed.add(a_round(number))
    resumed.finish()
    assert recorded_rounds(tmp_path) == {tuple(range(8))}
    assert rounds_in(tmp_path, "timings") == list(range(8))


def test_a_part_that_reaches_beyond_the_rewound_round_is_cut(tmp_path):
    record(tmp_path, range(6), {1, 5}, finish=False)
    Recorder(tmp_path).rewind(4)
    assert recorded_rounds(tmp_path) == {(0, 1, 2, 3)}


def test_rewinding_does_not_need_what_it_drops(tmp_path):
    record(tmp_path, range(6), {2, 5}, finish=False)
    parts_of(tmp_path, "metrics")[1].write_bytes(b"damaged")
    Recorder(tmp_path).rewind(3)
    assert recorded_rounds(tmp_path) == {(0, 1, 2)}
    parts_of(tmp_path, "metrics")[0].write_bytes(b"damaged")
    Recorder(tmp_path).rewind(0)
    assert recorded_rounds(tmp_path) == {()}


@pytest.mark.parametrize("next_round", [3, 6])
def test_a_finish_that_was_cut_short_does_not_double_rows(tmp_path, next_round):
    """Killed between writing a joined file and removing its parts, the run has both."""
    record(tmp_path, range(6), {2, 5}, finish=False)
    for name in NAMES[:2]:
        pq.write_table(read_table(tmp_path, name), tmp_path / f"{name}.parquet")
    resumed = Recorder(tmp_path)
    resumed.rewind(next_round)
    for number in range(next_round, 6):
        resumed.add(a_round(number))
    resumed.finish()
    for name in NAMES:
        assert read_table(tmp_path, name)["round"].to_pylist() == sorted(
            read_table(tmp_path, name)["round"].to_pylist()
        )
    assert rounds_in(tmp_path, "metrics") == [n for n in range(6) for _ in range(NUM_PEERS)]
    assert rounds_in(tmp_path, "timings") == list(range(6))


def test_a_half_written_part_of_a_killed_run_does_not_disturb_its_end(tmp_path):
    record(tmp_path, range(3), {2}, finish=False)
    (tmp_path / "metrics" / "12345.partial").write_bytes(b"half a part")
    resumed = Recorder(tmp_path)
    resumed.rewind(3)
    resumed.finish()
    assert names_in(tmp_path) == sorted(f"{name}.parquet" for name in NAMES)
    assert rounds_in(tmp_path, "timings") == [0, 1, 2]


def test_a_flush_that_failed_can_be_repeated(tmp_path):
    """What the failed flush had written already is neither lost nor in the way."""
    recorder = Recorder(tmp_path)
    recorder.add(a_round(0))
    recorder.add(a_round(1))
    (tmp_path / "exchanges").rmdir()
    for _ in range(2):
        with pytest.raises(StorageError, match="No such file or directory"):
            recorder.flush()
    (tmp_path / "exchanges").mkdir()
    recorder.flush()
    recorder.add(a_round(2))
    recorder.finish()
    assert recorded_rounds(tmp_path) == {(0, 1, 2)}
    assert rounds_in(tmp_path, "timings") == [0, 1, 2]


def test_rounds_without_exchanges_give_an_empty_table(tmp_path):
    recorder = Recorder(tmp_path)
    for number in range(2):
        recorder.add(a_round(number, exchanging=False))
    recorder.flush()
    assert read_table(tmp_path, "exchanges").num_rows == 0
    recorder.finish()
    table = read_table(tmp_path, "exchanges")
    assert table.num_rows == 0
    assert table.schema == SCHEMAS["exchanges"]
    assert read_table(tmp_path, "neighbours").num_rows == 2 * NUM_PEERS


def test_a_run_without_rounds_has_empty_tables(tmp_path):
    recorder = Recorder(tmp_path)
    recorder.finish()
    for name in NAMES:
        assert recorder.table(name).equals(SCHEMAS[name].empty_table())
        assert read_table(tmp_path, name).equals(SCHEMAS[name].empty_table())


def test_a_folder_that_holds_no_run_has_empty_tables(tmp_path):
    assert read_table(tmp_path, "metrics").num_rows == 0
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("finish", [False, True])
@pytest.mark.parametrize("damage", ["truncated", "empty", "not parquet"])
def test_a_damaged_table_is_reported(tmp_path, finish, damage):
    record(tmp_path, range(3), {0, 2}, finish=finish)
    victim = tmp_path / "metrics.parquet" if finish else parts_of(tmp_path, "metrics")[0]
    whole = victim.read_bytes()
    victim.write_bytes(
        {"truncated": whole[: len(whole) // 2], "empty": b"", "not parquet": b"x" * 999}[damage]
    )
    with pytest.raises(StorageError, match="Cannot read the table 'metrics' of") as caught:
        read_table(tmp_path, "metrics")
    assert str(tmp_path) in str(caught.value)
    assert read_table(tmp_path, "neighbours").num_rows == 3 * NUM_PEERS


def test_a_table_of_another_kind_is_reported(tmp_path):
    pq.write_table(pa.table({"round": ["not", "a", "number"]}), tmp_path / "timings.parquet")
    with pytest.raises(StorageError, match="Cannot read the table 'timings'"):
        read_table(tmp_path, "timings")


def test_without_a_folder_everything_stays_in_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorder = Recorder()
    assert recorder.table("metrics").equals(SCHEMAS["metrics"].empty_table())
    for number in range(3):
        recorder.add(a_round(number))
        recorder.flush()
        recorder.flush_if_due()
    recorder.finish()
    assert recorder.table("timings")["round"].to_pylist() == [0, 1, 2]
    assert recorder.table("metrics").num_rows == 3 * NUM_PEERS
    assert os.listdir(tmp_path) == []


def test_in_memory_and_on_disk_are_the_same(tmp_path):
    on_disk, in_memory = Recorder(tmp_path), Recorder()
    for number in range(4):
        for recorder in (on_disk, in_memory):
            recorder.add(a_round(number))
        on_disk.flush()
    on_disk.finish()
    for name in SAME_EVERY_TIME:
        ours, theirs = on_disk.table(name), in_memory.table(name)
        assert ours.schema == theirs.schema
        for column in ours.column_names:
            np.testing.assert_array_equal(ours[column].to_numpy(), theirs[column].to_numpy())


def test_a_run_folder_that_cannot_be_made_is_reported(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="Cannot create the folder"):
        Recorder(tmp_path / "file")


def test_a_folder_that_vanishes_is_reported(tmp_path):
    recorder = Recorder(tmp_path / "run")
    recorder.add(a_round(0))
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(StorageError, match="Cannot write to"):
        recorder.flush()


@pytest.mark.parametrize("written", ["nothing", "everything", "some tables"])
def test_what_was_pending_is_recorded_once(tmp_path, written):
    """Whether or not it was written between the checkpoint and the end of the process."""
    first = record(tmp_path, range(5), {1}, finish=False)
    kept = first.pending()
    assert "metrics" in kept
    assert kept["metrics"].dtype == np.uint8
    if written != "nothing":
        first.flush()
    if written == "some tables":
        for name in ("timings", "exchanges"):
            for part in parts_of(tmp_path, name)[1:]:
                part.unlink()
    second = Recorder(tmp_path)
    second.rewind(5)
    second.add_pending(kept)
    second.add(a_round(5))
    second.finish()
    whole = tmp_path / "whole"
    record(whole, range(6), set())
    for name in NAMES:
        assert rounds_in(tmp_path, name) == rounds_in(whole, name)


def test_nothing_pending_is_nothing(tmp_path):
    recorder = record(tmp_path, range(3), {2}, finish=False)
    assert recorder.pending() == {}
