"""Tables of a run that goes on, is killed, rewound, resumed and joined: read once, never wrong."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from recorded_tables import recorded

from coterie.experiments import growing_tables
from coterie.experiments.growing_tables import MAX_CHUNKS, GrowingTables

NUM_PEERS = 2


def write_round(run: Path, *numbers: int, only: tuple[str, ...] = ("metrics", "timings")) -> None:
    """Record rounds as the recorder does: one part of each table."""
    name = f"{numbers[0]:07d}-{numbers[-1]:07d}.parquet"
    rows = [{"round": number, "peer": peer} for number in numbers for peer in range(NUM_PEERS)]
    tables = {"metrics": recorded("metrics", rows)}
    tables["timings"] = recorded("timings", [{"round": n, "wall_seconds": 1.0} for n in numbers])
    for table in only:
        (run / table).mkdir(parents=True, exist_ok=True)
        pq.write_table(tables[table], run / table / name)


def rounds(parts: GrowingTables, name: str = "metrics") -> list[int]:
    return sorted(set(parts.table(Path(), name)["round"].to_pylist()))


@pytest.fixture
def read_files(monkeypatch) -> list[str]:
    """Return the names of the files as they are read."""
    names: list[str] = []
    real = growing_tables.read_table_file

    def read(path, name, **options):
        names.append(path.name)
        return real(path, name, **options)

    monkeypatch.setattr(growing_tables, "read_table_file", read)
    return names


def test_every_part_is_read_once(tmp_path, read_files):
    parts = GrowingTables(tmp_path)
    for number in range(4):
        write_round(tmp_path, number)
        parts.refresh()
        assert rounds(parts) == rounds(parts, "timings") == list(range(number + 1))
    assert len(read_files) == 2 * 4


def test_nothing_is_there_yet(tmp_path):
    parts = GrowingTables(tmp_path / "later")
    parts.refresh()
    assert rounds(parts) == []
    assert parts.problems == []


def test_many_parts_are_joined_in_memory(tmp_path):
    parts = GrowingTables(tmp_path)
    for number in range(MAX_CHUNKS + 5):
        write_round(tmp_path, number)
    parts.refresh()
    assert rounds(parts) == list(range(MAX_CHUNKS + 5))
    assert parts.table(tmp_path, "metrics").column(0).num_chunks == 1


def test_parts_become_one_file(tmp_path):
    parts = GrowingTables(tmp_path)
    for number in range(3):
        write_round(tmp_path, number)
    parts.refresh()
    before = parts.table(tmp_path, "metrics")
    pq.write_table(before, tmp_path / "metrics.parquet")
    for part in (tmp_path / "metrics").iterdir():
        part.unlink()
    (tmp_path / "metrics").rmdir()
    parts.refresh()
    assert parts.table(tmp_path, "metrics") == before


def test_a_resumed_run_takes_rounds_back(tmp_path):
    parts = GrowingTables(tmp_path)
    for number in range(5):
        write_round(tmp_path, number)
    parts.refresh()
    for table in ("metrics", "timings"):
        for number in (3, 4):
            (tmp_path / table / f"{number:07d}-{number:07d}.parquet").unlink()
    parts.refresh()
    assert rounds(parts) == [0, 1, 2]
    write_round(tmp_path, 3)
    parts.refresh()
    assert rounds(parts) == rounds(parts, "timings") == [0, 1, 2, 3]


def test_timings_promise_nothing_that_the_metrics_no_longer_hold(tmp_path):
    """A run that is being resumed takes back its tables one after another."""
    write_round(tmp_path, 0)
    write_round(tmp_path, 1, only=("timings",))
    parts = GrowingTables(tmp_path)
    parts.refresh()
    assert rounds(parts, "timings") == [0]


@pytest.mark.parametrize("table", ["metrics", "timings"])
def test_a_damaged_part_costs_its_own_rounds_only(tmp_path, table):
    for first in (0, 2, 4):
        write_round(tmp_path, first, first + 1)
    damaged = tmp_path / table / "0000002-0000003.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    parts = GrowingTables(tmp_path)
    parts.refresh()
    parts.refresh()
    assert rounds(parts) == rounds(parts, "timings") == [0, 1, 4, 5]
    (problem,) = parts.problems
    assert str(damaged) in problem


def test_a_whole_table_that_is_damaged_is_named(tmp_path):
    write_round(tmp_path, 0)
    (tmp_path / "exchanges.parquet").write_bytes(b"PAR1 but no more")
    parts = GrowingTables(tmp_path)
    parts.refresh()
    assert rounds(parts) == [0]
    assert parts.table(tmp_path, "exchanges").num_rows == 0
    assert len(parts.problems) == 1


def test_a_part_that_vanishes_while_it_is_read(tmp_path, monkeypatch):
    """The run joins its parts between our look at the folder and our reading of a file."""
    for number in range(3):
        write_round(tmp_path, number)
    real, joined = growing_tables.read_table_file, []

    def read(path, name, **options):
        if not joined and name == "metrics":
            folder = path.parent
            tables = [pq.read_table(part) for part in sorted(folder.iterdir())]
            pq.write_table(pa.concat_tables(tables), tmp_path / "metrics.parquet")
            for part in folder.iterdir():
                part.unlink()
            joined.append(path)
        return real(path, name, **options)

    parts = GrowingTables(tmp_path)
    monkeypatch.setattr(growing_tables, "read_table_file", read)
    parts.refresh()
    assert joined
    assert rounds(parts) == [0, 1, 2]
    assert parts.problems == []


def test_a_part_written_again_on_the_same_inode_is_read_again(tmp_path):
    """As after a kill: what was recorded beyond the checkpoint is dropped and recorded again."""
    write_round(tmp_path, 0)
    parts = GrowingTables(tmp_path)
    parts.refresh()
    part = tmp_path / "metrics" / "0000000-0000000.parquet"
    inode = part.stat().st_ino
    pq.write_table(recorded("metrics", [{"round": 0, "peer": 7}]), part)
    assert part.stat().st_ino == inode
    parts.refresh()
    assert parts.table(Path(), "metrics")["peer"].to_pylist() == [7]
