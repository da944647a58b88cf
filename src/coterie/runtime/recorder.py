"""Records the rounds of a run as Parquet files, in parts that can be read during the run."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coterie.runtime.round import Round
from coterie.runtime.run_tables import SCHEMAS, parts_of, read_table, with_scores
from coterie.storage.files import prepare_folder, remove_files, write_atomically, write_together

FLUSH_SECONDS = 2.0


class Recorder:
    """Collects rows of rounds; `flush` writes them, `finish` joins the parts to one file."""

    def __init__(self, run: Path | None = None) -> None:
        self._run = run
        self._rows: dict[str, list[pa.Table]] = {name: [] for name in SCHEMAS}
        self._rounds: list[int] = []
        self._clock = _clock()
        self._flushed = time.monotonic()
        if run is not None:
            for folder in (run, *(run / name for name in SCHEMAS)):
                prepare_folder(folder)

    def add(self, now: Round, seconds: tuple[float, float] | None = None) -> None:
        """Add a finished round; `seconds` are its wall and CPU time if another process ran it."""
        clock = _clock()
        wall, cpu = seconds or (new - old for new, old in zip(clock, self._clock, strict=True))
        self._clock = clock
        timings = {
            "round": np.array([now.number], dtype=np.int32),
            "wall_seconds": np.array([wall]),
            "cpu_seconds": np.array([cpu]),
        }
        for name, columns in (*now.tables().items(), ("timings", timings)):
            arrays = [pa.array(columns[field.name], type=field.type) for field in SCHEMAS[name]]
            self._rows[name].append(pa.Table.from_arrays(arrays, schema=SCHEMAS[name]))
        self._rounds.append(now.number)

    def table(self, name: str) -> pa.Table:
        """Return everything recorded so far."""
        fresh = self._rows[name]
        if self._run is not None:
            return pa.concat_tables([read_table(self._run, name), *fresh])
        return pa.concat_tables(fresh) if fresh else SCHEMAS[name].empty_table()

    def flush(self) -> None:
        """Write the rounds since the last flush as one part of each table."""
        if self._run is None or not self._rounds:
            return
        part = _part_name(self._rounds[0], self._rounds[-1])
        write_together(
            (self._run / name, _filler(part, pa.concat_tables(tables)))
            for name, tables in self._rows.items()
            if tables
        )
        # Only after all are written, so that a failed flush can be repeated.
        for tables in self._rows.values():
            tables.clear()
        self._rounds.clear()
        self._flushed = time.monotonic()

    def pending(self) -> dict[str, npt.NDArray[np.uint8]]:
        """Return the rows that are not written yet, as bytes (n,) of each table with rows."""
        return {name: _packed(tables) for name, tables in self._rows.items() if tables}

    def add_pending(self, pending: Mapping[str, npt.NDArray[np.uint8]]) -> None:
        """Add the rows that `pending` returned, except rows that were written since."""
        for name, packed in pending.items():
            with pa.ipc.open_stream(pa.py_buffer(packed.tobytes())) as stream:
                table = with_scores(stream.read_all())
            last = -1 if self._run is None else _last_round(read_table(self._run, name))
            table = table.filter(pc.greater(table["round"], last))
            if table.num_rows:
                self._rows[name].append(table)
                self._rounds = sorted({*self._rounds, *table["round"].to_pylist()})

    def flush_if_due(self) -> None:
        """Write the rows if the last flush was some time ago, for live views."""
        if time.monotonic() - self._flushed >= FLUSH_SECONDS:
            self.flush()

    def finish(self) -> None:
        """Join the parts of each table to one file."""
        self.flush()
        if self._run is None:
            return
        for name in SCHEMAS:
            parts = parts_of(self._run, name)
            if parts:
                _write(self._run, f"{name}.parquet", read_table(self._run, name))
            remove_files(parts)
            with suppress(OSError):  # there may be files that are not parts
                (self._run / name).rmdir()

    def rewind(self, next_round: int) -> None:
        """Delete the rows of `next_round` and later, before the run continues from there."""
        if self._run is None:
            return
        for name in SCHEMAS:
            whole = self._run / f"{name}.parquet"
            if not whole.exists():
                parts = parts_of(self._run, name)
                remove_files(part for part in parts if _first_round(part) >= next_round)
            table = read_table(self._run, name)
            beyond = _last_round(table) >= next_round
            if beyond or whole.exists():
                self._replace(name, whole, table.filter(pc.less(table["round"], next_round)))

    def _replace(self, name: str, whole: Path, table: pa.Table) -> None:
        """Write a table as one joined file, which has priority, then as one part."""
        _write(whole.parent, whole.name, table)
        remove_files(parts_of(whole.parent, name))
        if table.num_rows:
            last = pc.max(table["round"]).as_py()
            _write(whole.parent / name, _part_name(0, last), table)
        remove_files([whole])


def write_tables(run: Path, tables: Mapping[str, pa.Table]) -> None:
    """Write whole tables into the folder of a run; those without rows have no file."""
    for name, table in tables.items():
        if table.num_rows:
            _write(run, f"{name}.parquet", table)


def _write(folder: Path, name: str, table: pa.Table) -> None:
    write_atomically(folder, _filler(name, table))


def _filler(name: str, table: pa.Table) -> Callable[[BinaryIO], str]:
    """Return a function that writes a table to a file of this name."""

    def fill(file: BinaryIO) -> str:
        # One chunk, so that the bytes do not depend on the number of flushes.
        pq.write_table(table.combine_chunks(), file, compression="zstd")
        return name

    return fill


def _packed(tables: list[pa.Table]) -> npt.NDArray[np.uint8]:
    table = pa.concat_tables(tables).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _last_round(table: pa.Table) -> int:
    return int(pc.max(table["round"]).as_py()) if table.num_rows else -1


def _part_name(first: int, last: int) -> str:
    return f"{first:07d}-{last:07d}.parquet"


def _first_round(part: Path) -> int:
    return int(part.name.split("-")[0])


def _clock() -> tuple[float, float]:
    """Return wall time and the CPU time of this process and its workers."""
    return time.perf_counter(), _cpu_seconds()


def _cpu_seconds() -> float:
    # psutil could find the workers too, but would read all processes of the machine.
    total = time.process_time()
    for worker in multiprocessing.active_children():
        with suppress(psutil.NoSuchProcess):  # it has just ended
            total += sum(psutil.Process(worker.pid).cpu_times()[:2])
    return total
