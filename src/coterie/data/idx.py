"""MNIST and Fashion-MNIST in the idx format, compressed or not."""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass
from io import BufferedIOBase
from math import prod
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coterie.data.labelled_dataset import Dataset
from coterie.data.sources import (
    RemoteFile,
    check_unpacked,
    download_or_explain,
    explain_read_errors,
    first_file,
)
from coterie.errors import DataError

_GZIP_MAGIC = b"\x1f\x8b"
_UNSIGNED_BYTE = 8
_LARGEST_SIZE = 2 << 30


@dataclass(frozen=True)
class IdxSource:
    """A dataset of four idx files, and its possible folders; downloads go to the first one."""

    name: str
    title: str
    folders: tuple[str, ...]
    train_images: RemoteFile
    train_labels: RemoteFile
    test_images: RemoteFile
    test_labels: RemoteFile
    classes: tuple[str, ...]


def _official(base: str, kind: str, md5: str) -> RemoteFile:
    return RemoteFile(f"{base}/{kind}-ubyte.gz", md5, f"{kind}-ubyte.gz")


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"

MNIST = IdxSource(
    name="mnist",
    title="MNIST",
    folders=("mnist", "MNIST/raw"),
    train_images=_official(_MNIST, "train-images-idx3", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    train_labels=_official(_MNIST, "train-labels-idx1", "d53e105ee54ea40749a09fcbcd1e9432"),
    test_images=_official(_MNIST, "t10k-images-idx3", "9fb629c4189551a2d022fa330f9573f3"),
    test_labels=_official(_MNIST, "t10k-labels-idx1", "ec29112dd5afa0611ce80d1b7f02629c"),
    classes=tuple("0123456789"),
)

FASHION_MNIST = IdxSource(
    name="fashion-mnist",
    title="Fashion-MNIST",
    folders=("fashion-mnist", "fashion_mnist", "FashionMNIST/raw"),
    train_images=_official(_FASHION, "train-images-idx3", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
    train_labels=_official(_FASHION, "train-labels-idx1", "25c81989df183df01b3e8a0aad5dffbe"),
    test_images=_official(_FASHION, "t10k-images-idx3", "bef4ecab320f06d8554ea6380940ec79"),
    test_labels=_official(_FASHION, "t10k-labels-idx1", "bb300cfdad3c16e7a12a480ee83cd310"),
    classes=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
)


def locate_idx(source: IdxSource, root: Path) -> Path | None:
    """Return the local folder of the files; None unless all four exist."""
    files = (source.train_images, source.train_labels, source.test_images, source.test_labels)
    found = [first_file(_candidates(source, remote, root)) for remote in files]
    return found[0].parent if found[0] and all(found) else None


def read_idx_dataset(source: IdxSource, root: Path) -> Dataset:
    """Read four idx files from local copies or downloads; images (n, 1, H, W), labels (n,)."""
    inputs, targets = _read_part(source, source.train_images, source.train_labels, root)
    test_inputs, test_targets = _read_part(source, source.test_images, source.test_labels, root)
    return Dataset(source.name, inputs, targets, test_inputs, test_targets, source.classes)


def read_idx(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """Return the array of one idx file of unsigned bytes."""
    with (
        explain_read_errors(path, f"an idx file with {dimensions} dimension(s)"),
        _open_idx(path) as stream,
    ):
        shape = _read_header(stream, path, dimensions)
        size = prod(shape)
        check_unpacked(path, size)
        # One byte more than the header says: it detects excess, and makes gzip check its checksum.
        content = bytearray(stream.read(size + 1))
    if len(content) != size:
        found = "more" if len(content) > size else f"only {len(content)}"
        raise DataError(
            f"The header of {path} says {size} bytes of data (shape {shape}), but the file has "
            f"{found}. It is probably truncated or damaged; replace it with a complete copy."
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _read_header(stream: BufferedIOBase, path: Path, dimensions: int) -> tuple[int, ...]:
    expected = bytes((0, 0, _UNSIGNED_BYTE, dimensions))
    magic = stream.read(4)
    if magic != expected:
        raise DataError(
            f"{path} is not an idx file of unsigned bytes with {dimensions} dimension(s): it "
            f"starts with '{magic.hex()}', expected '{expected.hex()}'."
        )
    shape: tuple[int, ...] = struct.unpack(f">{dimensions}I", stream.read(4 * dimensions))
    if min(shape) == 0 or prod(shape) > _LARGEST_SIZE:
        raise DataError(
            f"The header of {path} says shape {shape}; expected at least one sample and at most "
            f"{_LARGEST_SIZE} bytes. The file is damaged."
        )
    return shape


def _open_idx(path: Path) -> BufferedIOBase:
    with path.open("rb") as stream:
        is_compressed = stream.read(2) == _GZIP_MAGIC
    return gzip.open(path, "rb") if is_compressed else path.open("rb")


def _read_part(
    source: IdxSource, images: RemoteFile, labels: RemoteFile, root: Path
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    pixels = read_idx(_local_or_downloaded(source, images, root), 3)
    numbers = read_idx(_local_or_downloaded(source, labels, root), 1)
    return pixels[:, np.newaxis], numbers.astype(np.int64)


def _local_or_downloaded(source: IdxSource, remote: RemoteFile, root: Path) -> Path:
    candidates = _candidates(source, remote, root)
    found = first_file(candidates)
    return found or download_or_explain(
        f"{source.title} ({remote.file_name})", remote, root / source.folders[0], candidates
    )


def _candidates(source: IdxSource, remote: RemoteFile, root: Path) -> list[Path]:
    plain = remote.file_name.removesuffix(".gz")
    dotted = plain.replace("-idx", ".idx")
    names = (plain, remote.file_name, dotted, f"{dotted}.gz")
    return [root / folder / name for folder in source.folders for name in names]
