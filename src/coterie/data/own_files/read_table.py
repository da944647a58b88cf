"""Reads a table whose rows belong to peers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from coterie.data.own_files.encode_columns import (
    encode_features,
    encode_labels,
    encode_times,
    is_float,
)
from coterie.data.own_files.owned_samples import OwnedSamples, count_of, number_owners
from coterie.data.own_files.read_table_file import read_table_file
from coterie.data.own_files.settings import TableFile
from coterie.errors import DataError, suggest

MANY_ROWS_PER_PEER = 2
"""With fewer rows per value on average, a column does not name the owners of rows."""


@lru_cache(maxsize=1)
def read_table(path: Path, digest: str, settings: TableFile) -> OwnedSamples:
    """Return the rows of a table; the last one is kept, because several runs use it.

    The digest tells a changed file from the one that was kept.
    """
    table = read_table_file(path)
    _check_columns(path, settings, table.column_names)
    needed = (settings.peers_by, settings.label, *settings.time)
    table, notes = _drop_missing(path, table, needed)
    owners, names = number_owners(table[settings.peers_by].to_pylist())
    if len(names) * MANY_ROWS_PER_PEER > table.num_rows:
        raise DataError(
            f"{path}: the column '{settings.peers_by}' has {len(names):,} different values in "
            f"{count_of(table.num_rows, 'row')}, so most peers would have one row. Name the column "
            "with the owner of each row."
        )
    times = encode_times(str(path), settings.time, table) if settings.time else None
    labels = encode_labels(str(path), settings.label, table[settings.label])
    features = encode_features(str(path), table, _feature_names(settings, table.column_names))
    return OwnedSamples(
        where=str(path),
        inputs=features.inputs,
        targets=labels.targets,
        classes=labels.classes,
        owners=owners,
        peer_names=names,
        times=times,
        scaled=features.scaled,
        notes=tuple(notes),
    )


def _feature_names(settings: TableFile, columns: Sequence[str]) -> list[str]:
    """Return the columns to predict from, in the order of the table."""
    used = {settings.peers_by, settings.label, *settings.time, *settings.ignore}
    wanted = columns if settings.features is None else settings.features
    return [name for name in columns if name in wanted and name not in used]


def _check_columns(path: Path, settings: TableFile, columns: Sequence[str]) -> None:
    """Refuse columns that the table does not have."""
    named = [("--peers-by", settings.peers_by), ("--label", settings.label)]
    named += [("--time", name) for name in settings.time]
    named += [("--features", name) for name in settings.features or ()]
    named += [("--ignore", name) for name in settings.ignore]
    for option, name in named:
        if name not in columns:
            raise DataError(f"{option}: {path} has no column '{name}'.{suggest(name, columns)}")


def _drop_missing(path: Path, table: pa.Table, needed: Sequence[str]) -> tuple[pa.Table, list[str]]:
    """Return the rows whose peer, label and time are known, and notes about the others."""
    notes = []
    for name in needed:
        column = table[name]
        unknown = column.is_null(nan_is_null=is_float(column))
        missing = pc.sum(unknown).as_py() or 0
        if missing == table.num_rows:
            raise DataError(f"{path}: the column '{name}' has no values. Choose another column.")
        if missing:
            notes.append(f"{count_of(missing, 'row')} without '{name}' left out.")
            table = table.filter(pc.invert(unknown))
    return table, notes
