"""Checkpoints: whole, bit for bit, recognised when damaged, and never more than two."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.errors import CoterieError, StorageError
from coterie.runtime.checkpoints import Checkpoints
from coterie.storage.tensor_files import DTYPES


def silent(warning: str) -> None:
    pytest.fail(f"There was nothing to warn about: {warning}")


def there_and_back(folder: Path, saved: dict[str, Any]) -> dict[str, Any]:
    checkpoints = Checkpoints(folder)
    checkpoints.write(1, saved)
    read = checkpoints.read_newest(silent)
    assert read is not None
    return read


def assert_same(read: Any, saved: Any) -> None:
    """Compare types, shapes, dtypes and bits."""
    if isinstance(saved, np.ndarray):
        assert isinstance(read, np.ndarray)
        assert read.dtype == saved.dtype.newbyteorder("=")
        assert read.shape == saved.shape
        assert read.tobytes() == saved.astype(read.dtype).tobytes()
    elif isinstance(saved, dict):
        assert list(read) == list(saved)
        for key, value in saved.items():
            assert_same(read[key], value)
    elif isinstance(saved, list):
        assert len(read) == len(saved)
        for one, other in zip(read, saved, strict=True):
            assert_same(one, other)
    elif isinstance(saved, float):
        assert type(read) is float
        # In plain data a NaN is a NaN, whatever its payload.
        assert struct.pack("<d", read) == struct.pack("<d", saved) or (
            math.isnan(read) and math.isnan(saved)
        )
    else:
        assert type(read) is type(saved)
        assert read == saved


def with_rounds(folder: Path, *rounds: int) -> tuple[Checkpoints, list[Path]]:
    checkpoints = Checkpoints(folder)
    paths = [
        checkpoints.write(number, {"next_round": number, "models": np.full((4, 5), float(number))})
        for number in rounds
    ]
    return checkpoints, paths


def test_nested_data_survive(tmp_path):
    saved = {
        "next_round": 7,
        "nothing": None,
        "yes": True,
        "no": False,
        "zero": 0,
        "negative": -3,
        "huge": 2**80,
        "text": "Größe “∑” \n\0 \\ \" ' ✓ 😀",
        "empty text": "",
        "": "empty key",
        "empty": {"list": [], "dict": {}, "array": np.zeros(0)},
        "deep": [[[{"a": [np.arange(3), None, "x", [np.arange(2.0)]]}]]],
        "mixed": [1, 1.5, "1", True, None, np.array([1])],
        "dots.and/slashes": {"key with spaces": np.ones(2)},
    }
    assert_same(there_and_back(tmp_path, saved), saved)


def test_special_numbers_survive(tmp_path):
    odd = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 0.1]
    saved = {
        "plain": list(odd),
        "alone": math.nan,
        "doubles": np.array(odd),
        "singles": np.array([math.nan, math.inf, -math.inf, -0.0, 1e-45], dtype=np.float32),
    }
    assert_same(there_and_back(tmp_path, saved), saved)


def test_the_payload_of_a_nan_survives(tmp_path):
    odd = np.array([0x7FC00001, 0xFFFFFFFF, 0x7F800001], dtype=np.uint32).view(np.float32)
    read = there_and_back(tmp_path, {"models": odd})
    assert read["models"].tobytes() == odd.tobytes()


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (0, 0, 3)])
def test_empty_arrays_keep_their_shape(tmp_path, shape):
    saved = {
        "before": np.arange(3),
        "empty": np.zeros(shape, dtype=np.float32),
        "after": np.ones(2),
    }
    assert_same(there_and_back(tmp_path, saved), saved)


def test_nothing_but_empty_arrays(tmp_path):
    saved = {"a": np.zeros((0, 9), dtype=np.float32), "b": np.zeros(0, dtype=np.int64)}
    assert_same(there_and_back(tmp_path, saved), saved)


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_every_supported_kind_of_number_survives(tmp_path, dtype):
    values = np.arange(-3, 8).astype(dtype)
    # One odd byte before, so that nothing lies where its size would want it.
    saved = {
        "odd": np.zeros(1, dtype=np.uint8),
        "values": values,
        "matrix": values[:10].reshape(5, 2),
    }
    assert_same(there_and_back(tmp_path, saved), saved)


def test_a_single_number_as_an_array_survives(tmp_path):
    saved = {"scalar": np.array(2.5)}
    assert_same(there_and_back(tmp_path, saved), saved)


def test_matrices_of_models_survive_bit_for_bit(tmp_path):
    bits = np.random.default_rng(0).integers(0, 2**32, (37, 1013), dtype=np.uint32)
    saved = {name: (bits + n).view(np.float32) for n, name in enumerate(("current", "best"))}
    assert_same(there_and_back(tmp_path, saved), saved)


@pytest.mark.parametrize(
    "view",
    [
        lambda matrix: matrix.T,
        lambda matrix: matrix[::2],
        lambda matrix: matrix[:, 1:3],
        lambda matrix: matrix[::-1],
        np.asfortranarray,
    ],
)
def test_arrays_that_are_not_contiguous_survive(tmp_path, view):
    saved = {"view": view(np.arange(24, dtype=np.float32).reshape(6, 4))}
    assert_same(there_and_back(tmp_path, saved), saved)


def test_what_was_read_can_be_written_to(tmp_path):
    read = there_and_back(tmp_path, {"models": np.zeros((2, 3), dtype=np.float32)})
    read["models"][:] = 1
    assert read["models"].sum() == 6


def test_tuples_come_back_as_lists(tmp_path):
    assert there_and_back(tmp_path, {"pair": (1, (2, 3))}) == {"pair": [1, [2, 3]]}


@pytest.mark.parametrize("text", ["array:", "array:/models", "array:nothing", "array", "text:x"])
def test_text_that_looks_like_the_name_of_an_array_survives(tmp_path, text):
    saved = {"text": text, "models": np.ones(3), "list": [text, {"deep": text}]}
    assert_same(there_and_back(tmp_path, saved), saved)


def test_keys_with_slashes_are_not_confused_with_nesting(tmp_path):
    saved = {
        "a": {"b": np.array([1.0])},
        "a/b": np.array([2.0]),
        "c": [np.array([3])],
        "c/0": np.array([4]),
    }
    assert_same(there_and_back(tmp_path, saved), saved)


def test_arrays_of_the_other_byte_order_keep_their_values(tmp_path):
    read = there_and_back(tmp_path, {"values": np.array([1.0, 2.5, -3.0], dtype=">f4")})
    assert read["values"].tolist() == [1.0, 2.5, -3.0]


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.dictionaries(st.text(), PLAIN, max_size=4))
def test_any_plain_data_survive(tmp_path, saved):
    for old in tmp_path.iterdir():
        old.unlink()
    assert_same(there_and_back(tmp_path, saved), saved)


@pytest.mark.parametrize("values", [np.array([1j]), np.array(["text"]), np.array([None])])
def test_arrays_that_cannot_be_stored_are_refused_by_name(tmp_path, values):
    checkpoints, _ = with_rounds(tmp_path, 1)
    with pytest.raises((CoterieError, TypeError), match=r"here.*(complex128|<U4|object)"):
        checkpoints.write(2, {"somewhere": [{"here": values}]})
    assert [path.name[:13] for path in tmp_path.iterdir()] == ["round-0000001"]


@pytest.mark.parametrize("value", [{1, 2}, object(), b"bytes", 1j])
def test_data_that_cannot_be_stored_are_refused(tmp_path, value):
    checkpoints, _ = with_rounds(tmp_path, 1)
    with pytest.raises((CoterieError, TypeError), match=type(value).__name__):
        checkpoints.write(2, {"somewhere": {"here": value}})
    assert [path.name[:13] for path in tmp_path.iterdir()] == ["round-0000001"]


def test_dictionaries_whose_keys_would_change_are_refused(tmp_path):
    """JSON knows text as keys only: 3 would silently come back as '3'."""
    with pytest.raises((CoterieError, TypeError), match="3"):
        Checkpoints(tmp_path).write(1, {"similarities": {3: 0.5}})


def test_without_any_file_there_is_nothing_to_resume(tmp_path):
    assert Checkpoints(tmp_path / "new" / "folder").read_newest(silent) is None
    assert (tmp_path / "new" / "folder").is_dir()


def test_the_newest_is_read_and_only_two_are_kept(tmp_path):
    checkpoints, paths = with_rounds(tmp_path, 1, 2, 9, 10, 11)
    assert sorted(tmp_path.iterdir()) == sorted(paths[-2:])
    assert checkpoints.read_newest(silent)["next_round"] == 11


def test_rounds_are_ordered_as_numbers(tmp_path):
    checkpoints, _ = with_rounds(tmp_path, 9, 100, 1_000, 99_999)
    assert checkpoints.read_newest(silent)["next_round"] == 99_999


def test_the_name_holds_the_round_and_the_checksum(tmp_path):
    _, (first,) = with_rounds(tmp_path / "a", 42)
    _, (second,) = with_rounds(tmp_path / "b", 42)
    _, (other,) = with_rounds(tmp_path / "c", 43)
    assert first.name == second.name
    assert first.name.startswith("round-0000042-")
    assert first.name.split("-")[-1] != other.name.split("-")[-1]


def test_writing_the_same_round_twice_keeps_one(tmp_path):
    _, paths = with_rounds(tmp_path, 5, 5)
    assert list(tmp_path.iterdir()) == [paths[0]]


def test_leftovers_of_a_killed_run_are_removed(tmp_path):
    _, (path,) = with_rounds(tmp_path, 3)
    (tmp_path / "4711.partial").write_bytes(b"half a checkpoint")
    assert Checkpoints(tmp_path).read_newest(silent)["next_round"] == 3
    assert list(tmp_path.iterdir()) == [path]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def extend(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def flip(position: int, bit: int):
    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[position] ^= 1 << bit
        path.write_bytes(content)

    damage.__name__ = f"flip_{position}_{bit}"
    return damage


def rename(path: Path) -> None:
    path.rename(path.with_name("round-0000009-0123456789abcdef.safetensors"))


def rename_without_checksum(path: Path) -> None:
    path.rename(path.with_name("round-0000009.safetensors"))


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES = [
    truncate,
    halve,
    empty,
    extend,
    flip(0, 0),
    flip(9, 3),
    flip(60, 7),
    flip(-1, 0),
    flip(-40, 5),
    rename,
    rename_without_checksum,
    replace_by_folder,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_checkpoint_is_reported_and_the_one_before_used(tmp_path, damage):
    checkpoints, (_, newest) = with_rounds(tmp_path, 8, 9)
    damage(newest)
    warnings = []
    read = checkpoints.read_newest(warnings.append)
    assert read["next_round"] == 8
    assert (read["models"] == 8.0).all()
    assert len(warnings) == 1
    assert "round-0000009" in warnings[0]
    assert "is damaged" in warnings[0]


def test_the_same_round_written_again_replaces_the_damaged_one(tmp_path):
    checkpoints, (_, newest) = with_rounds(tmp_path, 8, 9)
    flip(-1, 0)(newest)
    checkpoints.write(9, {"next_round": 9, "models": np.full((4, 5), 9.0)})
    assert checkpoints.read_newest(silent)["next_round"] == 9


@pytest.mark.parametrize("damage", DAMAGES[:9], ids=lambda damage: damage.__name__)
def test_when_all_are_damaged_the_run_cannot_be_resumed(tmp_path, damage):
    checkpoints, paths = with_rounds(tmp_path, 8, 9)
    for path in paths:
        damage(path)
    warnings = []
    with pytest.raises(StorageError, match=r"All 2 checkpoints in .* are damaged"):
        checkpoints.read_newest(warnings.append)
    assert len(warnings) == 2


def test_other_files_in_the_folder_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    checkpoints, _ = with_rounds(tmp_path, 1, 2, 3)
    assert checkpoints.read_newest(silent)["next_round"] == 3
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_the_file_is_valid_safetensors(tmp_path):
    arrays = {
        "current": np.random.default_rng(0).random((3, 4), dtype=np.float32),
        "bytes": np.arange(5, dtype=np.uint8),
        "empty": np.zeros((0, 4), dtype=np.float32),
        "doubles": np.array([math.nan, 1.0]),
    }
    path = Checkpoints(tmp_path).write(1, {"state": arrays, "next_round": 1})
    read = safetensors.numpy.load(path.read_bytes())
    assert_same(read["0"], arrays["current"])
    assert json.loads(read["state"].tobytes())["state"]["current"] == "array:0"


def test_files_of_before_name_every_array(tmp_path):
    arrays = {"0/models": np.ones((2, 3)), "1/table/peers": np.arange(4)}
    plain = {"models": "array:0/models", "table": [{"peers": "array:1/table/peers"}]}
    content = safetensors.numpy.save(arrays, {"state": json.dumps(plain)})
    digest = hashlib.sha256(content).hexdigest()[:16]
    (tmp_path / f"round-0000004-{digest}.safetensors").write_bytes(content)
    expected = {"models": arrays["0/models"], "table": [{"peers": arrays["1/table/peers"]}]}
    assert_same(Checkpoints(tmp_path).read_newest(silent), expected)


def test_the_header_does_not_grow_with_the_number_of_tables(tmp_path):
    """It may have 100 MB, and every peer has about ten arrays."""
    sizes = []
    for count in (10, 1000):
        tables = [{"peers": np.arange(peer % 3), "q": np.ones(1)} for peer in range(count)]
        path = Checkpoints(tmp_path).write(count, {"tables": tables})
        assert_same(Checkpoints(tmp_path).read_newest(silent), {"tables": tables})
        sizes.append(int.from_bytes(path.read_bytes()[:8], "little"))
    assert sizes[1] < sizes[0] + 100


def test_the_header_is_padded_so_that_models_can_be_mapped(tmp_path):
    for length in range(1, 9):
        path = Checkpoints(tmp_path).write(length, {"x" * length: np.ones(2)})
        header = int.from_bytes(path.read_bytes()[:8], "little")
        assert header % 8 == 0


def test_a_folder_that_cannot_be_made_is_reported(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="Cannot create the folder"):
        Checkpoints(tmp_path / "file" / "checkpoints")
