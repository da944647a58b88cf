"""The tables of a run that is still going on; every file is read once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.errors import StorageError
from coterie.runtime.run_tables import SCHEMAS, is_part, read_table_file

MAX_CHUNKS = 32
"""How many chunks a table may have before they are combined in memory."""
Key: TypeAlias = tuple[str, int, int]
"""A file's name, inode and time. Parts never change, but a part may be deleted and written again
under the same name and inode."""
Rounds: TypeAlias = tuple[int, int]
"""The first and the last round of a part."""


class GrowingTables:
    """The tables of a run so far; meanwhile it may be killed, resumed or finished."""

    def __init__(self, run: Path, names: Iterable[str] = SCHEMAS) -> None:
        """Follow these tables; `metrics` and `timings` must be among them."""
        self._run = run
        self._tables = {name: _Table(run, name) for name in names}

    @property
    def problems(self) -> list[str]:
        """The files that could not be read; the others are not affected."""
        return [problem for table in self._tables.values() for problem in table.problems]

    def refresh(self) -> None:
        """Read new files."""
        # The timings of a round are written last, so the other tables have all rounds in them.
        for name in ("timings", *(name for name in self._tables if name != "timings")):
            self._tables[name].refresh()

    def table(self, run: Path, name: str) -> pa.Table:
        """Return a table without the rounds that are damaged in any table."""
        table = self._tables[name].table
        if name == "timings":
            # A resumed run deletes the metrics of lost rounds before their timings.
            table = table.filter(pc.less_equal(table["round"], self._last_measured()))
        damaged = [rounds for each in self._tables.values() for rounds in each.damaged]
        if not damaged or not table.num_rows:
            return table
        rounds = table["round"].to_numpy()
        intact = np.ones(len(rounds), dtype=bool)
        for first, last in damaged:
            intact &= (rounds < first) | (rounds > last)
        return table.filter(pa.array(intact))

    def _last_measured(self) -> int:
        last: int | None = pc.max(self._tables["metrics"].table["round"]).as_py()
        return -1 if last is None else last


class _Table:
    """One table of a run: its parts, or the file into which they were joined."""

    def __init__(self, run: Path, name: str) -> None:
        self._run, self._name = run, name
        self._reset()

    def _reset(self) -> None:
        self._keys: list[Key] = []
        self.table: pa.Table = SCHEMAS[self._name].empty_table()
        self.problems: list[str] = []
        self.damaged: list[Rounds] = []

    def refresh(self) -> None:
        """Read new files; if files are gone, read all files again."""
        try:
            self._read_new_files()
        except FileNotFoundError:
            # The run has just joined its parts into one file, or deleted some.
            self._reset()
            with suppress(FileNotFoundError):
                self._read_new_files()
        except OSError as error:
            self._reset()
            self.problems = [f"Cannot read {self._run}: {error.strerror}."]

    def _read_new_files(self) -> None:
        keys = self._files()
        if keys[: len(self._keys)] != self._keys:
            self._reset()
        self._append(keys[len(self._keys) :])

    def _append(self, keys: Sequence[Key]) -> None:
        read = [self._read(name) for name, *_ in keys]
        self._keys += keys
        self.table = pa.concat_tables([self.table, *(part for part in read if part is not None)])
        if self.table.column(0).num_chunks > MAX_CHUNKS:
            self.table = self.table.combine_chunks()

    def _files(self) -> list[Key]:
        """Return the files that make up the table, oldest first."""
        whole = self._run / f"{self._name}.parquet"
        if whole.exists():
            return [_key(whole.name, whole.stat())]
        folder = self._run / self._name
        if not folder.is_dir():
            return []
        with os.scandir(folder) as entries:
            return sorted(
                _key(f"{self._name}/{entry.name}", entry.stat())
                for entry in entries
                if is_part(entry.name)
            )

    def _read(self, name: str) -> pa.Table | None:
        try:
            return read_table_file(self._run / name, self._name, use_threads=False)
        except FileNotFoundError:
            raise
        except (OSError, StorageError, pa.ArrowException):
            self.problems.append(f"{self._run / name} is damaged and was skipped.")
            rounds = re.fullmatch(r"(\d{1,9})-(\d{1,9})\.parquet", name.rpartition("/")[2])
            if rounds:
                self.damaged.append((int(rounds[1]), int(rounds[2])))
            return None


def _key(name: str, status: os.stat_result) -> Key:
    return name, status.st_ino, status.st_mtime_ns
