"""CIFAR-10 and CIFAR-100 in their official binary and python versions, as folder or archive."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

import numpy as np
import numpy.typing as npt

from coterie.data.cifar100_names import CIFAR100_CLASSES
from coterie.data.cifar_pickle import read_cifar_pickle
from coterie.data.labelled_dataset import Dataset
from coterie.data.sources import (
    RemoteFile,
    check_unpacked,
    download_or_explain,
    explain_read_errors,
    first_file,
    first_folder,
    verify_md5,
)
from coterie.errors import DataError

Part = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]

_IMAGE_SHAPE = (3, 32, 32)
_IMAGE_BYTES = 3 * 32 * 32
_LARGEST_MEMBER = 1 << 30


@dataclass(frozen=True)
class CifarVersion:
    """One official packaging: its folder, its archive and the files in them."""

    folder: str
    archive: RemoteFile
    train_files: tuple[str, ...]
    test_file: str
    names_file: str

    @property
    def data_files(self) -> tuple[str, ...]:
        """The files without which there is no dataset."""
        return (*self.train_files, self.test_file)


@dataclass(frozen=True)
class Cifar:
    """What tells CIFAR-10 and CIFAR-100 apart."""

    name: str
    title: str
    classes: tuple[str, ...]
    binary: CifarVersion
    python: CifarVersion
    # In the binary version every image follows this many label bytes; the last is the fine label.
    label_bytes: int
    labels_key: str
    names_key: str

    @property
    def versions(self) -> tuple[CifarVersion, CifarVersion]:
        """Both packagings, the preferred one first."""
        return (self.binary, self.python)


def _archive(file_name: str, md5: str) -> RemoteFile:
    return RemoteFile(f"https://www.cs.toronto.edu/~kriz/{file_name}", md5, file_name)


_CIFAR10_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)

CIFAR10 = Cifar(
    name="cifar10",
    title="CIFAR-10",
    classes=_CIFAR10_CLASSES,
    binary=CifarVersion(
        folder="cifar-10-batches-bin",
        archive=_archive("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
        train_files=tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
        test_file="test_batch.bin",
        names_file="batches.meta.txt",
    ),
    python=CifarVersion(
        folder="cifar-10-batches-py",
        archive=_archive("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),
        train_files=tuple(f"data_batch_{number}" for number in range(1, 6)),
        test_file="test_batch",
        names_file="batches.meta",
    ),
    label_bytes=1,
    labels_key="labels",
    names_key="label_names",
)

CIFAR100 = Cifar(
    name="cifar100",
    title="CIFAR-100",
    classes=CIFAR100_CLASSES,
    binary=CifarVersion(
        folder="cifar-100-binary",
        archive=_archive("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),
        train_files=("train.bin",),
        test_file="test.bin",
        names_file="fine_label_names.txt",
    ),
    python=CifarVersion(
        folder="cifar-100-python",
        archive=_archive("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),
        train_files=("train",),
        test_file="test",
        names_file="meta",
    ),
    label_bytes=2,
    labels_key="fine_labels",
    names_key="fine_label_names",
)


def locate_cifar(cifar: Cifar, root: Path) -> Path | None:
    """Return the local folder or archive that would be read."""
    folder = first_folder(root / version.folder for version in cifar.versions)
    return folder or first_file(root / version.archive.file_name for version in cifar.versions)


def read_cifar(cifar: Cifar, root: Path) -> Dataset:
    """Read CIFAR from a local copy or a download; images (n, 3, 32, 32), fine labels (n,)."""
    place = locate_cifar(cifar, root)
    if place is None:
        looked_for = [root / version.folder for version in cifar.versions]
        looked_for += [root / version.archive.file_name for version in cifar.versions]
        place = download_or_explain(cifar.title, cifar.binary.archive, root, looked_for)
    version = next(v for v in cifar.versions if place.name in (v.folder, v.archive.file_name))
    contents = _contents(version, place)
    parse = _binary_part if version is cifar.binary else _pickled_part
    parts = {name: parse(cifar, contents[name], f"{place / name}") for name in version.data_files}
    train = [parts[name] for name in version.train_files]
    test_images, test_labels = parts[version.test_file]
    return Dataset(
        name=cifar.name,
        inputs=np.concatenate([images for images, _ in train]),
        targets=np.concatenate([labels for _, labels in train]),
        # A copy, because the parsed images are read-only views of the file's bytes.
        test_inputs=test_images.copy(),
        test_targets=test_labels,
        classes=_class_names(cifar, version, contents, place),
    )


def _contents(version: CifarVersion, place: Path) -> dict[str, bytes]:
    """Return {file name: bytes} of the files of one version, all data files among them."""
    wanted = (*version.data_files, version.names_file)
    if os.path.isdir(place):
        contents = {}
        for name in wanted:
            if os.path.isfile(place / name):
                with explain_read_errors(place / name, "an official CIFAR file"):
                    check_unpacked(place / name, (place / name).stat().st_size)
                    contents[name] = (place / name).read_bytes()
    else:
        verify_md5(place, version.archive)
        contents = _members(place, version.folder, wanted)
    missing = [name for name in version.data_files if name not in contents]
    if missing:
        raise DataError(
            f"{place} does not have {', '.join(missing)}. "
            f"Expected {', '.join(version.data_files)}. "
            f"Get the whole archive from {version.archive.url}."
        )
    return contents


def _members(archive: Path, folder: str, wanted: Collection[str]) -> dict[str, bytes]:
    """Read members in memory; nothing is ever extracted to where a hostile archive wants it."""
    contents: dict[str, bytes] = {}
    with (
        explain_read_errors(archive, "a gzip-compressed tar archive"),
        tarfile.open(archive, "r:gz") as tar,
    ):
        for member in tar:
            parent, _, name = member.name.rpartition("/")
            if parent != folder or name not in wanted or not member.isfile():
                continue
            if member.size > _LARGEST_MEMBER:
                raise DataError(
                    f"{archive}: {member.name} has {member.size} bytes, more than any official "
                    "file. Replace the archive with the official one."
                )
            stream = tar.extractfile(member)
            contents[name] = stream.read() if stream else b""
    return contents


def _binary_part(cifar: Cifar, content: bytes, where: str) -> Part:
    record = cifar.label_bytes + _IMAGE_BYTES
    if not content or len(content) % record:
        raise DataError(
            f"{where} has {len(content)} bytes. Expected a multiple of {record}: "
            f"{cifar.label_bytes} of label and {_IMAGE_BYTES} of image for each sample. It is "
            f"probably truncated. Get it again from {cifar.binary.archive.url}."
        )
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, record)
    labels = records[:, cifar.label_bytes - 1].astype(np.int64)
    return _checked_part(cifar, records[:, cifar.label_bytes :], labels, where)


def _pickled_part(cifar: Cifar, content: bytes, where: str) -> Part:
    batch = read_cifar_pickle(content, where)
    images = _item(batch, "data", where)
    labels = _item(batch, cifar.labels_key, where)
    if not (
        isinstance(images, np.ndarray)
        and images.dtype == np.uint8
        and images.shape[1:] == (_IMAGE_BYTES,)
    ):
        raise DataError(f"{where}: 'data' is not a uint8 array of shape (n, {_IMAGE_BYTES}).")
    if not (isinstance(labels, list) and all(type(label) is int for label in labels)):
        raise DataError(f"{where}: '{cifar.labels_key}' is not a list of whole numbers.")
    if len(labels) != len(images):
        raise DataError(f"{where}: {len(images)} images but {len(labels)} labels.")
    if any(abs(label) > 255 for label in labels):
        raise DataError(f"{where}: '{cifar.labels_key}' has numbers that are not classes.")
    return _checked_part(cifar, images, np.array(labels, dtype=np.int64), where)


def _checked_part(
    cifar: Cifar, images: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64], where: str
) -> Part:
    count = len(cifar.classes)
    if len(labels) == 0:
        raise DataError(f"{where} has no images.")
    if labels.min() < 0 or labels.max() >= count:
        raise DataError(
            f"{where}: labels run from {labels.min()} to {labels.max()}, but {cifar.title} has "
            f"{count} classes. The file is damaged or belongs to another dataset."
        )
    return images.reshape(-1, *_IMAGE_SHAPE), labels


def _class_names(
    cifar: Cifar, version: CifarVersion, contents: dict[str, bytes], place: Path
) -> tuple[str, ...]:
    content = contents.get(version.names_file)
    if content is None:
        return cifar.classes
    where = f"{place / version.names_file}"
    if version is cifar.binary:
        names = [line.strip() for line in content.decode("latin-1").splitlines() if line.strip()]
    else:
        listed = _item(read_cifar_pickle(content, where), cifar.names_key, where)
        names = [_as_text(name) for name in listed] if _are_texts(listed) else []
    if len(names) != len(cifar.classes):
        raise DataError(
            f"{where} names {len(names)} classes, expected {len(cifar.classes)}. Delete it to use "
            "the official names."
        )
    return tuple(names)


def _item(batch: object, key: str, where: str) -> object:
    """Look a key up that python 2 wrote as bytes and python 3 may have written as text."""
    if isinstance(batch, dict):
        for spelling in (key, key.encode()):
            if spelling in batch:
                return batch[spelling]
    raise DataError(f"{where} has no '{key}'; it is not a file of the official python version.")


def _are_texts(listed: object) -> TypeGuard[list[str | bytes]]:
    return isinstance(listed, list) and all(isinstance(name, str | bytes) for name in listed)


def _as_text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
