"""Small idx files in the layouts people have them in, whole and damaged."""

import gzip
import os
import struct
import tracemalloc

import numpy as np
import pytest

from coterie.data.idx import FASHION_MNIST, MNIST, locate_idx, read_idx, read_idx_dataset
from coterie.errors import DataError

SOURCES = pytest.mark.parametrize("source", [MNIST, FASHION_MNIST], ids=lambda source: source.name)


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    monkeypatch.setenv("COTERIE_OFFLINE", "1")


def _idx(array):
    header = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def _arrays():
    random = np.random.default_rng(0)
    return {
        "train-images-idx3-ubyte": random.integers(0, 256, (12, 7, 5)),
        "train-labels-idx1-ubyte": random.integers(0, 10, 12),
        "t10k-images-idx3-ubyte": random.integers(0, 256, (4, 7, 5)),
        "t10k-labels-idx1-ubyte": random.integers(0, 10, 4),
    }


def _write(folder, compressed=False, dotted=False):
    folder.mkdir(parents=True)
    for name, array in _arrays().items():
        content = gzip.compress(_idx(array)) if compressed else _idx(array)
        file_name = (name.replace("-idx", ".idx") if dotted else name) + ".gz" * compressed
        (folder / file_name).write_bytes(content)


@SOURCES
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dotted", [False, True])
def test_every_layout(source, compressed, dotted, tmp_path):
    for number, folder in enumerate(source.folders):
        root = tmp_path / str(number)
        _write(root / folder, compressed, dotted)
        assert locate_idx(source, root) == root / folder
        dataset = read_idx_dataset(source, root)
        expected = list(_arrays().values())
        assert dataset.inputs.shape == (12, 1, 7, 5)
        np.testing.assert_array_equal(dataset.inputs[:, 0], expected[0])
        np.testing.assert_array_equal(dataset.targets, expected[1])
        np.testing.assert_array_equal(dataset.test_inputs[:, 0], expected[2])
        np.testing.assert_array_equal(dataset.test_targets, expected[3])
        assert len(dataset.classes) == 10
        assert dataset.inputs.flags.writeable


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.03, 0.5, 0.98])
def test_truncated_files(compressed, fraction, tmp_path):
    content = _idx(_arrays()["train-images-idx3-ubyte"])
    content = gzip.compress(content) if compressed else content
    path = tmp_path / "images"
    path.write_bytes(content[: int(fraction * len(content))])
    with pytest.raises(DataError) as caught:
        read_idx(path, 3)
    assert str(path) in str(caught.value)


def test_damaged_gzip_contents(tmp_path):
    content = bytearray(gzip.compress(_idx(np.random.default_rng(1).integers(0, 256, (9, 9, 9)))))
    path = tmp_path / "images.gz"
    for position in (3, 10, 40, len(content) - 8):
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        with pytest.raises(DataError):
            read_idx(path, 3)


@pytest.mark.parametrize("compressed", [False, True])
def test_more_bytes_than_announced(compressed, tmp_path):
    content = _idx(np.zeros((2, 3, 3))) + b"x"
    path = tmp_path / "images"
    path.write_bytes(gzip.compress(content) if compressed else content)
    with pytest.raises(DataError, match=r"header of .* says 18 bytes.*has more"):
        read_idx(path, 3)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"\x00\x00\x08\x03" + struct.pack(">3I", 2**31, 2**31, 9), "header of .* says shape"),
        (b"\x00\x00\x08\x03" + struct.pack(">3I", 0, 28, 28), "header of .* says shape"),
        (b"\x00\x00\x0d\x03" + struct.pack(">3I", 1, 1, 1) + b"1234", "starts with '00000d03'"),
        (b"\x00\x00\x08\x01" + struct.pack(">I", 1) + b"1", "expected '00000803'"),
        (b"<html>not here</html>", "is not an idx file"),
    ],
)
def test_wrong_headers(content, complaint, tmp_path):
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(DataError, match=complaint):
        read_idx(path, 3)


def test_labels_and_images_must_match(tmp_path):
    _write(tmp_path / "mnist")
    (tmp_path / "mnist" / "train-labels-idx1-ubyte").write_bytes(_idx(np.zeros(11)))
    with pytest.raises(DataError, match="12 inputs but 11 targets"):
        read_idx_dataset(MNIST, tmp_path)


@SOURCES
def test_nothing_there(source, tmp_path):
    assert locate_idx(source, tmp_path) is None
    with pytest.raises(DataError) as caught:
        read_idx_dataset(source, tmp_path)
    for folder in source.folders:
        assert str(tmp_path / folder / "train-images-idx3-ubyte.gz") in str(caught.value)
    assert source.train_images.url in str(caught.value)


def test_one_file_missing(tmp_path):
    _write(tmp_path / "mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    assert locate_idx(MNIST, tmp_path) is None
    with pytest.raises(DataError, match=r"MNIST \(t10k-labels-idx1-ubyte\.gz\) was not found"):
        read_idx_dataset(MNIST, tmp_path)


@pytest.mark.parametrize("is_compressed", [True, False])
def test_a_small_file_that_would_fill_the_memory(is_compressed, tmp_path):
    """A gigabyte of nothing: compressed, or as a hole in the file."""
    path = tmp_path / "bomb"
    header = bytes((0, 0, 8, 3)) + struct.pack(">3I", 2**20, 32, 32)
    if is_compressed:
        path.write_bytes(gzip.compress(header + bytes(2**22)))
    else:
        path.write_bytes(header)
        os.truncate(path, 2**30 + len(header))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="would unpack to 1,073,741,824"):
            read_idx(path, 3)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
