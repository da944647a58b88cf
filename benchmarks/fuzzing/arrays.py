"""Damages tables in Parquet and archives of arrays, by their meaning."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fuzzing.content import NUMBERS, TYPES, changed_bytes, changed_text


def changed_table(data: bytes, chance: random.Random) -> bytes:
    """Return a Parquet file with columns or values that no run records."""
    try:
        table = pq.read_table(io.BytesIO(data))
    except (pa.ArrowException, OSError):
        return changed_bytes(data, chance)
    for _ in range(chance.choice([1, 1, 2, 3])):
        table = _changed_columns(table, chance)
    sink = io.BytesIO()
    pq.write_table(table, sink, compression=chance.choice(["zstd", "none", "snappy", "gzip"]))
    return sink.getvalue()


def _changed_columns(table: pa.Table, chance: random.Random) -> pa.Table:
    if not table.num_columns:
        return table
    at = chance.randrange(table.num_columns)
    way = chance.randrange(12)
    name, num_rows, names = table.column_names[at], table.num_rows, table.column_names
    ways: list[Callable[[], pa.Table]] = [
        lambda: table.remove_column(at),
        lambda: table.rename_columns([f"{each}x" if each == name else each for each in names]),
        lambda: table.slice(0, chance.choice([0, 1, num_rows // 2])),
        lambda: pa.concat_tables([table] * chance.choice([2, 5])),
        lambda: table.take(
            pa.array(np.random.default_rng(chance.randrange(99)).permutation(num_rows))
        ),
        lambda: table.append_column(name, table.column(at)),
        lambda: table.set_column(at, name, pa.nulls(num_rows, chance.choice(TYPES))),
    ]
    return ways[way]() if way < len(ways) else _with_odd_values(table, at, chance)


def _with_odd_values(table: pa.Table, at: int, chance: random.Random) -> pa.Table:
    name, column = table.column_names[at], table.column(at)
    values = column.to_pylist()
    for _ in range(chance.choice([1, 1, 3, max(len(values), 1)]) if values else 0):
        values[chance.randrange(len(values))] = _odd_value(column.type, chance)
    try:
        return table.set_column(at, name, pa.array(values, column.type))
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return table.set_column(at, name, pa.nulls(table.num_rows, column.type))


def _odd_value(kind: pa.DataType, chance: random.Random) -> Any:
    if pa.types.is_string(kind):
        return chance.choice(["", "x", "🙂", "\x00", "<script>", "[bold]", None, "y" * 5000])
    if pa.types.is_floating(kind):
        return chance.choice([*map(float, NUMBERS), None])
    if pa.types.is_boolean(kind):
        return chance.choice([True, False, None])
    if not pa.types.is_integer(kind):  # a column changed before
        return None
    bits = kind.bit_width
    return chance.choice([0, -1, -2, 1, 5, 7, 8, 99, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), None])


def changed_zip(data: bytes, chance: random.Random) -> bytes:
    """Return an archive of arrays with other members: bombs, false headers, objects, text."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, OSError, ValueError):
        return changed_bytes(data, chance)
    if not members:
        return data
    name = chance.choice(list(members))
    way = chance.randrange(9)
    if way == 3:
        del members[name]
    elif way == 4:
        others = ["x_train.npy", "classes.npy", "../x.npy", "y_test.npy"]
        members[chance.choice(others)] = members[name]
    elif way == 8:
        shuffled = chance.sample(list(members.values()), len(members))
        members = dict(zip(members, shuffled, strict=True))
    else:
        members[name] = _changed_member(members[name], way, chance)
    sink = io.BytesIO()
    kind = chance.choice(
        [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
    )
    kind = zipfile.ZIP_DEFLATED if way == 1 else kind
    with zipfile.ZipFile(sink, "w", kind) as archive:
        for each, content in members.items():
            archive.writestr(each, content)
    return sink.getvalue()


def _changed_member(data: bytes, way: int, chance: random.Random) -> bytes:
    ways: dict[int, Callable[[], bytes]] = {
        0: lambda: changed_bytes(data, chance),
        1: lambda: array_bomb(chance),
        2: lambda: array_bytes(np.array([{"a": 1}, None], dtype=object)),
        5: lambda: changed_header(data, chance),
        6: lambda: array_bytes(chance.choice(_odd_arrays())),
        7: lambda: changed_text(data, chance),
    }
    return ways[way]()


def _odd_arrays() -> list[np.ndarray[Any, Any]]:
    return [
        *(np.arange(6), np.zeros((0, 8, 8), np.uint8), np.array("x"), np.zeros((3, 0))),
        *(np.full(60, np.nan), np.full(60, -5), np.full(60, 2**62), np.array(["a"] * 60)),
        *(np.zeros(60, [("a", "i4")]), np.zeros(60, "M8[s]"), np.zeros(60, complex)),
        *(np.zeros(60, bool), np.full((60, 8, 8), np.inf), np.zeros((60, 8, 8, 3), "f2")),
        *(np.full((60, 8, 8), 1e300), np.zeros((60,) + (1,) * 20), np.zeros(60, "u8") - 1),
        *(np.zeros((60, 1)), np.full(60, 3.7), np.zeros(60, "V8"), np.zeros(60, "f16")),
    ]


def array_bytes(array: np.ndarray[Any, Any]) -> bytes:
    """Return an array as a .npy file."""
    sink = io.BytesIO()
    np.save(sink, array, allow_pickle=True)
    return sink.getvalue()


def array_bomb(chance: random.Random) -> bytes:
    """Return an array that takes little room in an archive and much in memory, or says so."""
    claimed = chance.choice([(10**12,), (2**31, 2**31), (2**62, 4), (-5, 8), (10**9, 8, 8)])
    if chance.random() < 0.5:
        header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {claimed}, }}"
        text = header.ljust(118) + "\n"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
    return array_bytes(np.zeros((6_000_000, 8, 8), np.uint8))


def changed_header(data: bytes, chance: random.Random) -> bytes:
    """Return an array whose header says something else."""
    swaps = [
        (b"'fortran_order': False", b"'fortran_order': 'x'  "), (b"|u1", b"|O8"), (b"<i8", b"<U9"),
        (b"'shape'", b"'shapf'"), (b"(", b"["), (b"{", b"[" * 60), (b"<", b">"), (b"60", b"99"),
        (b"60", b"-1"), (b"'descr'", b"__import__"), (b"}", b"+1"), (b"|u1", b"<f8"),
    ]  # fmt: skip
    old, new = chance.choice(swaps)
    return data.replace(old, new, 1)
