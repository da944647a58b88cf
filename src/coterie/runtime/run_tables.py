"""The tables of a run: their columns, and reading them during or after the run.

A run folder holds each table as `NAME.parquet` once the run has finished. Until then it holds parts
in the folder `NAME/`, named by their first and last round. A table without rows, such as
`similarities` when no peer is watched, has no file.
"""

from __future__ import annotations

import math
import os
import re
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coterie.errors import StorageError
from coterie.runtime.round import MEASURES
from coterie.storage.files import reason_of

_PART = re.compile(r"\d{7,9}-\d{7,9}\.parquet")
_WHO = [("round", pa.int32()), ("peer", pa.int32()), ("cluster", pa.int32())]

SCHEMAS = {
    "metrics": pa.schema(
        [
            *_WHO,
            ("step", pa.int32()),
            ("status", pa.string()),
            ("poisoned", pa.bool_()),
            *((name, pa.float64()) for name in MEASURES),
            ("models_received", pa.int32()),
            ("bytes_received", pa.int64()),
            ("models_sent", pa.int32()),
            ("bytes_sent", pa.int64()),
        ]
    ),
    "exchanges": pa.schema(
        [
            ("round", pa.int32()),
            ("kind", pa.string()),
            ("receiver", pa.int32()),
            ("sender", pa.int32()),
            ("bytes", pa.int64()),
            ("delivered", pa.bool_()),
            ("weight", pa.float64()),
        ]
    ),
    "neighbours": pa.schema(
        [
            *_WHO,
            ("num_received", pa.int32()),
            ("num_same_cluster", pa.int32()),
            ("weight_others", pa.float64()),
            ("weight_same_cluster", pa.float64()),
        ]
    ),
    "chosen_neighbours": pa.schema(
        [
            *_WHO,
            ("num_chosen", pa.int32()),
            ("num_same_cluster", pa.int32()),
            ("num_true", pa.int32()),
        ]
    ),
    "similarities": pa.schema(
        [
            *_WHO,
            ("other", pa.int32()),
            ("other_cluster", pa.int32()),
            ("metric", pa.string()),
            ("similarity", pa.float64()),
        ]
    ),
    "beliefs": pa.schema(
        [
            *_WHO,
            ("other", pa.int32()),
            ("other_cluster", pa.int32()),
            ("origin", pa.string()),
            ("similarity", pa.float64()),
            ("probability", pa.float64()),
        ]
    ),
    "arrivals": pa.schema(
        [
            *_WHO,
            ("other", pa.int32()),
            ("other_round", pa.int32()),
            ("age_seconds", pa.float64()),
            ("seconds", pa.float64()),
            ("weight", pa.float64()),
        ]
    ),
    "listed_neighbours": pa.schema(
        [*_WHO, ("other", pa.int32()), ("other_cluster", pa.int32())],
    ),
    "efforts": pa.schema(
        [
            *_WHO,
            ("wall_seconds", pa.float64()),
            ("cpu_seconds", pa.float64()),
            ("work_seconds", pa.float64()),
            ("work_cpu_seconds", pa.float64()),
            ("wait_seconds", pa.float64()),
        ]
    ),
    "test_metrics": pa.schema([*_WHO, ("metric", pa.string()), ("value", pa.float64())]),
    "timings": pa.schema(
        [("round", pa.int32()), ("wall_seconds", pa.float64()), ("cpu_seconds", pa.float64())]
    ),
}


OLD_NAMES = {name.replace("score", "accuracy"): name for name in MEASURES if "score" in name}
"""The names of columns in runs of before, whose only score was accuracy."""
_OLD_NAME_OF = {new: old for old, new in OLD_NAMES.items()}
NEWER_COLUMNS = {"poisoned": False, "test_loss_other": math.nan, "test_score_other": math.nan}
"""Columns that older runs do not have, and the values to use instead."""


def read_table(run: Path, name: str) -> pa.Table:
    """Return all recorded rows of a table."""
    try:
        with suppress(FileNotFoundError):
            return _read(run, name)
        # The run has joined its parts to one file meanwhile.
        return _read(run, name)
    except (OSError, pa.ArrowException) as error:
        raise StorageError(
            f"Cannot read the table '{name}' of {run}: {reason_of(error)}."
        ) from error


def _read(run: Path, name: str) -> pa.Table:
    whole = run / f"{name}.parquet"
    if whole.exists():
        return read_table_file(whole, name)
    parts = [read_table_file(part, name) for part in parts_of(run, name)]
    return pa.concat_tables(parts) if parts else SCHEMAS[name].empty_table()


def read_table_file(path: Path, name: str, *, use_threads: bool = True) -> pa.Table:
    """Return a table, or a part of it, from its file; missing columns of older runs are added."""
    content, schema = _open_file(path), SCHEMAS[name]
    if not OLD_NAMES.keys().isdisjoint(pq.read_schema(content).names):
        fields = [field.with_name(_OLD_NAME_OF.get(field.name, field.name)) for field in schema]
        schema = pa.schema(fields)
    content.seek(0)
    table = with_scores(pq.read_table(content, schema=schema, use_threads=use_threads))
    for place, column in enumerate(table.column_names):
        # A column that is not in the file has only nulls; some nulls mean damage.
        if column in NEWER_COLUMNS and table[column].null_count == table.num_rows:
            filled = table[column].fill_null(NEWER_COLUMNS[column])
            table = table.set_column(place, SCHEMAS[name].field(column), filled)
        elif table[column].null_count:
            raise StorageError(f"{path} is damaged: values of its column '{column}' are missing.")
    return table


def with_scores(table: pa.Table) -> pa.Table:
    """Return a table with the column names of today.

    Runs of before that predicted values had their squared errors only in the columns of losses.
    """
    if OLD_NAMES.keys().isdisjoint(table.column_names):
        return table
    table = table.rename_columns([OLD_NAMES.get(name, name) for name in table.column_names])
    for place, name in enumerate(table.column_names):
        if name in _OLD_NAME_OF and pc.all(pc.is_nan(table[name])).as_py():
            losses = table[name.replace("score", "loss")]
            table = table.set_column(place, table.field(name), losses)
    return table


def _open_file(path: Path) -> pa.OSFile:
    """Open a file with Arrow, which reads only the parts of it that it needs.

    Nothing of Python is handed over: Arrow's threads release it late, and the process would abort
    (SIGABRT) if the interpreter had ended meanwhile. A name that is not text is passed as bytes.
    """
    with path.open("rb"):  # errors of Python have clear messages
        return pa.OSFile(os.fsencode(path))


def parts_of(run: Path, name: str) -> list[Path]:
    """Return the parts of a table, oldest first."""
    return sorted(path for path in (run / name).glob("*.parquet") if is_part(path.name))


def is_part(name: str) -> bool:
    """Return whether a file name is that of a part."""
    return _PART.fullmatch(name) is not None
