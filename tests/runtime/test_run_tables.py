"""Tables are read by Arrow alone, in parts; nothing outlives the interpreter."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.errors import StorageError
from coterie.runtime.run_tables import SCHEMAS, read_table_file

TIMINGS = pa.table(
    {"round": [0, 1], "wall_seconds": [0.5, 1.5], "cpu_seconds": [0.25, 1.0]},
    schema=SCHEMAS["timings"],
)


def test_a_table_comes_back(tmp_path):
    pq.write_table(TIMINGS, tmp_path / "timings.parquet")
    assert read_table_file(tmp_path / "timings.parquet", "timings").equals(TIMINGS)


def test_an_empty_file_is_damaged(tmp_path):
    (tmp_path / "timings.parquet").touch()
    with pytest.raises((StorageError, pa.ArrowException)):
        read_table_file(tmp_path / "timings.parquet", "timings")


def test_no_object_of_python_is_handed_to_threads_of_arrow(tmp_path, monkeypatch):
    """They drop it late: if Python has ended by then, the process aborts instead of ending well."""
    pq.write_table(TIMINGS, tmp_path / "timings.parquet")
    sources = []
    read_table = pq.read_table
    monkeypatch.setattr(
        pq,
        "read_table",
        lambda source, **how: (sources.append(source), read_table(source, **how))[1],
    )
    read_table_file(tmp_path / "timings.parquet", "timings")
    (source,) = sources
    assert type(source) is pa.OSFile


def test_a_name_that_is_not_text(tmp_path):
    path = tmp_path / os.fsdecode(b"\xff.parquet")
    pq.write_table(TIMINGS, tmp_path / "timings.parquet")
    (tmp_path / "timings.parquet").rename(path)
    assert read_table_file(path, "timings").equals(TIMINGS)
