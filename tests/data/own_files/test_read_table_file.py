"""Tables are read as people write them, and mistakes in files are explained."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pyarrow.parquet
import pytest

from coterie.data.own_files.read_table_file import read_table_file
from coterie.errors import DataError

TEXT = "farm,rain,crop\neast,1.5,good\nwest,?,bad\nwest,,good\n"


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_columns_are_separated_as_the_first_line_shows(tmp_path, separator):
    path = tmp_path / "farms.csv"
    path.write_text(TEXT.replace(",", separator))
    assert read_table_file(path).to_pydict() == {
        "farm": ["east", "west", "west"],
        "rain": [1.5, None, None],
        "crop": ["good", "bad", "good"],
    }


def test_compressed_text_and_parquet_hold_the_same_table(tmp_path):
    plain = tmp_path / "farms.csv"
    plain.write_text(TEXT)
    table = read_table_file(plain)
    packed = tmp_path / "farms.csv.gz"
    packed.write_bytes(gzip.compress(TEXT.encode()))
    pa.parquet.write_table(table, tmp_path / "farms.parquet")
    assert read_table_file(packed) == table
    assert read_table_file(tmp_path / "farms.parquet") == table


def test_the_type_of_a_column_comes_from_all_rows(tmp_path):
    """The reader's own first block has a megabyte of whole numbers."""
    path = tmp_path / "long.csv"
    path.write_text("a,b\n" + "1,2\n" * 400_000 + "1,2.5\n")
    assert read_table_file(path)["b"].type == pa.float64()


def test_a_byte_order_mark_is_not_part_of_a_name(tmp_path):
    path = tmp_path / "farms.csv"
    path.write_text(TEXT, encoding="utf-8-sig")
    assert read_table_file(path).column_names[0] == "farm"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b" \n\n", "is empty"),
        ("a.csv", b"farm,rain\n", "has no rows"),
        ("a.csv", b"farm,rain\neast,1\nwest,2,3\n", "Expected a table as UTF-8 text"),
        ("a.csv", b"farm,farm\n1,2\n", "two columns named 'farm'"),
        ("a.csv", b"\x7fELF\0\0\0", "binary data"),
        ("a.csv", "höhe,b\nö,1\n".encode("latin-1"), "is not UTF-8 text: line 1"),
        ("a.csv", "a,b\nö,1\n".encode("latin-1"), "is not UTF-8 text: line 2"),
        ("a.csv.gz", b"farm,rain\neast,1\n", "cannot be read"),
        ("a.csv.gz", gzip.compress(TEXT.encode(), mtime=0)[:-9], "cannot be read"),
        ("a.parquet", TEXT.encode(), "Expected a Parquet file"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as failure:
        read_table_file(path)
    assert str(path) in str(failure.value)


def test_a_file_made_to_fill_the_memory_is_refused_early(tmp_path):
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"0,0\n" * 2**25, mtime=0))
    with pytest.raises(DataError, match="made to fill the memory"):
        read_table_file(path)
