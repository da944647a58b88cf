"""Reads a table: .csv, .csv.gz or .parquet."""

from __future__ import annotations

import csv
import gzip
import io
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from coterie.data.sources import check_unpacked, explain_read_errors
from coterie.errors import DataError

ENDINGS = (".csv", ".csv.gz", ".parquet")
MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
"""Texts of cells that mean that a value is missing."""
LARGEST_CSV = 2**31 - 2
"""The CSV reader counts bytes in 32 bits, and columns get their types from all rows at once."""
_SAMPLE = 1 << 16
_UNPACKED_AT_ONCE = 1 << 26


def is_table(path: Path) -> bool:
    """Whether a file name is that of a table."""
    return path.name.lower().endswith(ENDINGS)


def read_table_file(path: Path) -> pa.Table:
    """Return all columns of a table; a DataError says what is wrong with the file."""
    is_parquet = path.name.lower().endswith(".parquet")
    table = _read_parquet(path) if is_parquet else _read_csv(path)
    twice = [name for name, count in Counter(table.column_names).items() if count > 1]
    if twice:
        raise DataError(f"{path} has two columns named '{twice[0]}'. Rename one of them.")
    if table.num_rows == 0:
        raise DataError(f"{path} has no rows. Expected a line with names, then one line per row.")
    return table


def _read_parquet(path: Path) -> pa.Table:
    with explain_read_errors(path, "a Parquet file"):
        return pa.parquet.read_table(path)


def _read_csv(path: Path) -> pa.Table:
    content = _content(path)
    if not content.strip():
        raise DataError(f"{path} is empty. Expected a line with names, then one line per row.")
    if b"\0" in content[:_SAMPLE]:
        raise DataError(
            f"{path} is not a table of text: it contains binary data. Expected UTF-8 text."
        )
    _check_text(path, content)
    expected = "a table as UTF-8 text, with a line of names and one line per row"
    with explain_read_errors(path, expected):
        return pa.csv.read_csv(
            pa.BufferReader(content),
            # One block: otherwise the first megabyte alone would decide the types of columns.
            read_options=pa.csv.ReadOptions(block_size=len(content) + 1),
            parse_options=pa.csv.ParseOptions(delimiter=_delimiter(content)),
            convert_options=pa.csv.ConvertOptions(
                null_values=list(MISSING), strings_can_be_null=True
            ),
        )


def _check_text(path: Path, content: bytes) -> None:
    """Refuse text in another encoding, whose names and texts would be unreadable."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise DataError(
            f"{path} is not UTF-8 text: line {line} has other characters. Save it as UTF-8; in a "
            "spreadsheet choose 'CSV UTF-8'."
        ) from None


def _content(path: Path) -> bytes:
    """Return the text of a file; a compressed one is unpacked after a check of its size."""
    with explain_read_errors(path, "a table that can be read"), path.open("rb") as stream:
        packed = stream.read()
        content = _unpacked(path, packed) if path.name.lower().endswith(".gz") else packed
    if len(content) > LARGEST_CSV:
        raise DataError(f"{path} has more than 2 GB of text. Store it as a .parquet file.")
    return content


def _unpacked(path: Path, packed: bytes) -> bytes:
    """Return the unpacked text; stop before a file that unpacks to too much fills the memory."""
    content = bytearray()
    with gzip.open(io.BytesIO(packed)) as stream:
        while len(content) <= LARGEST_CSV and (part := stream.read(_UNPACKED_AT_ONCE)):
            content += part
            check_unpacked(path, len(content))
    return bytes(content)


def _delimiter(content: bytes) -> str:
    """Return what separates columns, from the line of names: comma, semicolon or tab."""
    line = content[:_SAMPLE].split(b"\n", 1)[0].decode("utf-8", errors="replace")
    counts = {mark: len(next(csv.reader([line], delimiter=mark), [])) for mark in ",;\t"}
    return max(counts, key=lambda mark: counts[mark])
