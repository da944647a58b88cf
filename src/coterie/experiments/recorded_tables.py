"""The tables of one run, finished or not, up to its last complete round."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.errors import StorageError
from coterie.runtime.exchange_log import SERVER
from coterie.runtime.run_tables import read_table

_PEERS = ("peer", "receiver", "sender", "other")
_MOST_CLUSTERS = 1000
_LARGEST_NUMBER = 1e100
"""Far beyond what float32 can hold, and far below what overflows when it is squared."""
_CLUSTERS = ("cluster", "other_cluster", "step")


class RecordedTables:
    """Reads and checks the tables of a run, each once."""

    def __init__(
        self, folder: Path, num_peers: int, read: Callable[[Path, str], pa.Table] = read_table
    ) -> None:
        self.folder = folder
        self.num_peers = num_peers
        self.read = read
        """Reads a table, by folder and name."""
        self._tables: dict[str, pa.Table] = {}

    def table(self, name: str) -> pa.Table:
        """Return a table up to the last complete round."""
        if name not in self._tables:
            last = self.last_round  # read first: a running run may add rounds meanwhile
            table = self.read(self.folder, name)
            self._check(name, table)
            complete = pc.less_equal(table["round"], last)
            table = table.filter(complete)
            self._check_rounds(name, table)
            self._tables[name] = table
        return self._tables[name]

    @property
    def last_round(self) -> int:
        """The last complete round; −1 if there is none."""
        if "timings" not in self._tables:
            # The timings of a round are written after its other tables.
            table = self.read(self.folder, "timings")
            self._check("timings", table)
            rounds = table["round"].to_numpy()
            if (np.diff(rounds, prepend=-1) < 1).any():
                raise self._damage("timings", "its rounds are repeated or out of order")
            self._tables["timings"] = table
        last: int | None = pc.max(self._tables["timings"]["round"]).as_py()
        return -1 if last is None else last

    def _check(self, name: str, table: pa.Table) -> None:
        """Refuse values that no run writes, such as nulls or peers that do not exist."""
        limits = {
            **dict.fromkeys(_PEERS, (SERVER if name == "exchanges" else 0, self.num_peers - 1)),
            **dict.fromkeys(_CLUSTERS, (0, max(_MOST_CLUSTERS, self.num_peers))),
            "round": (0, None),
        }
        for column in table.column_names:
            values = table[column]
            lowest, highest = limits.get(column, (None, None))
            if (
                values.null_count
                or (pa.types.is_floating(values.type) and not _is_possible(name, values))
                or (lowest is not None and table.num_rows and pc.min(values).as_py() < lowest)
                or (highest is not None and table.num_rows and pc.max(values).as_py() > highest)
            ):
                raise self._damage(
                    name,
                    f"its column '{column}' holds values that a run of {self.num_peers} peers "
                    "cannot have",
                )

    def _check_rounds(self, name: str, table: pa.Table) -> None:
        """Refuse tables with rounds out of order, or with rounds that have no timings."""
        rounds = table["round"].to_numpy()
        if (np.diff(rounds) < 0).any():
            raise self._damage(name, "its rounds are out of order")
        timed = self._tables["timings"]["round"].to_numpy()
        if not np.isin(rounds, timed).all():
            raise self._damage(name, "it holds rounds that the table 'timings' does not have")
        if name == "metrics" and len(timed):
            present, counts = np.unique(rounds, return_counts=True)
            is_whole = np.array_equal(present, timed) and not np.ptp(counts)
            if not is_whole or counts[0] > self.num_peers:
                raise self._damage(name, "it does not hold every peer once in every round")

    def _damage(self, name: str, what: str) -> StorageError:
        return StorageError(
            f"The table '{name}' of {self.folder} is damaged: {what}. Run it again in another "
            "folder."
        )


def _is_possible(name: str, column: pa.ChunkedArray) -> bool:
    """Whether a run can have measured these values: losses may be infinite, times may not."""
    values = column.to_numpy()
    is_finite = np.isfinite(values)
    if name == "timings" and not (is_finite & (values >= 0)).all():
        return False
    return bool(np.abs(values[is_finite]).max(initial=0) <= _LARGEST_NUMBER)
