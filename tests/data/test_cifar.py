"""Small CIFAR files in every official packaging, whole and damaged."""

import hashlib
import io
import os
import pickle
import struct
import tarfile
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from coterie.data.cifar import CIFAR10, CIFAR100, locate_cifar, read_cifar
from coterie.data.cifar100_names import CIFAR100_CLASSES, CIFAR100_SUPERCLASSES
from coterie.errors import DataError

PER_FILE = 4
VARIANTS = pytest.mark.parametrize("cifar", [CIFAR10, CIFAR100], ids=lambda cifar: cifar.name)


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    monkeypatch.setenv("COTERIE_OFFLINE", "1")


def _batch(cifar, number):
    """Random images (n, 3072) and labels of one file."""
    random = np.random.default_rng(number)
    images = random.integers(0, 256, (PER_FILE, 3072), dtype=np.uint8)
    return images, random.integers(0, len(cifar.classes), PER_FILE)


def _binary(cifar, images, labels):
    coarse = np.full((len(labels), cifar.label_bytes - 1), 19, dtype=np.uint8)
    return np.hstack([coarse, labels[:, np.newaxis].astype(np.uint8), images]).tobytes()


def _python2_string(value):
    if len(value) < 256:
        return b"U" + bytes([len(value)]) + value
    return b"T" + struct.pack("<i", len(value)) + value


def _python2_array(array):
    """The opcodes with which python 2 wrote a numpy array in protocol 2."""
    dtype = b"cnumpy\ndtype\nq\x05U\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ"
    dtype += b"\xff\xff\xff\xffK\x00tb"
    shape = b"".join(b"M" + struct.pack("<H", size) for size in array.shape) + b"\x86"
    start = b"cnumpy.core.multiarray\n_reconstruct\nq\x06cnumpy\nndarray\nq\x07K\x00\x85U\x01b\x87R"
    return start + b"(K\x01" + shape + dtype + b"\x89" + _python2_string(array.tobytes()) + b"tb"


def _python2(cifar, images, labels):
    """The opcodes with which python 2 wrote the official batches."""
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    content = b"\x80\x02}q\x01(" + _python2_string(b"batch_label") + _python2_string(b"batch 1")
    content += _python2_string(cifar.labels_key.encode()) + listed
    return content + _python2_string(b"data") + _python2_array(images) + b"u."


def _python3(protocol, as_bytes):
    def write(cifar, images, labels):
        batch = {"data": images, cifar.labels_key: labels.tolist(), "filenames": ["a.png"]}
        if as_bytes:
            batch = {key.encode(): value for key, value in batch.items()}
        return pickle.dumps(batch, protocol)

    return write


WRITERS = {
    "python2": _python2,
    "python3-protocol2": _python3(2, as_bytes=False),
    "python3-protocol4": _python3(4, as_bytes=True),
}


def _files(cifar, version, write):
    return {
        name: write(cifar, *_batch(cifar, number)) for number, name in enumerate(version.data_files)
    }


def _write_folder(root, version, files):
    (root / version.folder).mkdir(parents=True)
    for name, content in files.items():
        (root / version.folder / name).write_bytes(content)


def _write_archive(root, version, files):
    """Write the archive under its official name; return the version with a matching checksum."""
    path = root / version.archive.file_name
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{version.folder}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return _trusting(version, path)


def _trusting(version, path):
    md5 = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    return replace(version, archive=replace(version.archive, md5=md5))


def _assert_whole(cifar, dataset):
    batches = [_batch(cifar, number) for number in range(len(cifar.binary.data_files))]
    images = np.concatenate([images for images, _ in batches]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([labels for _, labels in batches])
    np.testing.assert_array_equal(dataset.inputs, images[:-PER_FILE])
    np.testing.assert_array_equal(dataset.targets, labels[:-PER_FILE])
    np.testing.assert_array_equal(dataset.test_inputs, images[-PER_FILE:])
    np.testing.assert_array_equal(dataset.test_targets, labels[-PER_FILE:])
    assert dataset.targets.dtype == np.int64
    assert dataset.inputs.flags.writeable
    assert dataset.test_inputs.flags.writeable


@VARIANTS
def test_binary_folder(cifar, tmp_path):
    _write_folder(tmp_path, cifar.binary, _files(cifar, cifar.binary, _binary))
    assert locate_cifar(cifar, tmp_path) == tmp_path / cifar.binary.folder
    dataset = read_cifar(cifar, tmp_path)
    _assert_whole(cifar, dataset)
    assert dataset.classes == cifar.classes


@VARIANTS
@pytest.mark.parametrize("writer", WRITERS)
def test_python_folder(cifar, writer, tmp_path):
    _write_folder(tmp_path, cifar.python, _files(cifar, cifar.python, WRITERS[writer]))
    _assert_whole(cifar, read_cifar(cifar, tmp_path))


@VARIANTS
def test_archives_are_read_in_place(cifar, tmp_path):
    for kind, write in (("binary", _binary), ("python", _python2)):
        root = tmp_path / kind
        root.mkdir()
        version = getattr(cifar, kind)
        trusting = replace(
            cifar, **{kind: _write_archive(root, version, _files(cifar, version, write))}
        )
        _assert_whole(cifar, read_cifar(trusting, root))
        assert [path.name for path in root.iterdir()] == [version.archive.file_name]


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.mark.network
def test_archive_is_downloaded_and_read(tmp_path, monkeypatch):
    monkeypatch.delenv("COTERIE_OFFLINE")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "web").mkdir()
    files = _files(CIFAR100, CIFAR100.binary, _binary)
    version = _write_archive(tmp_path / "web", CIFAR100.binary, files)
    serve = partial(_QuietHandler, directory=tmp_path / "web")
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/{version.archive.file_name}"
        version = replace(version, archive=replace(version.archive, url=url))
        dataset = read_cifar(replace(CIFAR100, binary=version), tmp_path / "root")
        server.shutdown()
        thread.join()
    _assert_whole(CIFAR100, dataset)
    assert (tmp_path / "root" / version.archive.file_name).is_file()


@VARIANTS
def test_class_names_come_from_the_files(cifar, tmp_path):
    names = [f"name {number}" for number in range(len(cifar.classes))]
    text = "\n".join(names) + "\n\n"
    binary_files = _files(cifar, cifar.binary, _binary) | {cifar.binary.names_file: text.encode()}
    _write_folder(tmp_path / "binary", cifar.binary, binary_files)
    assert read_cifar(cifar, tmp_path / "binary").classes == tuple(names)

    meta = pickle.dumps({cifar.names_key.encode(): [name.encode() for name in names]}, 2)
    python_files = _files(cifar, cifar.python, _python2) | {cifar.python.names_file: meta}
    _write_folder(tmp_path / "python", cifar.python, python_files)
    assert read_cifar(cifar, tmp_path / "python").classes == tuple(names)

    (tmp_path / "binary" / cifar.binary.folder / cifar.binary.names_file).write_text("one\n")
    with pytest.raises(DataError, match="names 1 classes"):
        read_cifar(cifar, tmp_path / "binary")


def test_wrong_checksum_of_an_archive(tmp_path):
    _write_archive(tmp_path, CIFAR10.binary, _files(CIFAR10, CIFAR10.binary, _binary))
    with pytest.raises(DataError, match=CIFAR10.binary.archive.md5) as caught:
        read_cifar(CIFAR10, tmp_path)
    for helpful in ("found", "truncated", "Delete it", "unverified", str(tmp_path)):
        assert helpful in str(caught.value)


@pytest.mark.parametrize("fraction", [0.0, 0.001, 0.3, 0.7, 0.999])
def test_truncated_archive_is_a_data_error_even_with_a_right_checksum(fraction, tmp_path):
    _write_archive(tmp_path, CIFAR10.binary, _files(CIFAR10, CIFAR10.binary, _binary))
    path = tmp_path / CIFAR10.binary.archive.file_name
    path.write_bytes(path.read_bytes()[: int(fraction * path.stat().st_size)])
    trusting = replace(CIFAR10, binary=_trusting(CIFAR10.binary, path))
    with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz"):
        read_cifar(trusting, tmp_path)


def test_archive_without_the_right_members(tmp_path):
    version = replace(CIFAR10.binary, folder="../elsewhere")
    trusted = _write_archive(tmp_path, version, _files(CIFAR10, version, _binary))
    with pytest.raises(DataError, match=r"does not have data_batch_1\.bin"):
        read_cifar(
            replace(CIFAR10, binary=replace(trusted, folder=CIFAR10.binary.folder)), tmp_path
        )


@pytest.mark.parametrize("length", [0, 1, 3072, 3073 * PER_FILE - 1])
def test_truncated_binary_file(length, tmp_path):
    files = _files(CIFAR10, CIFAR10.binary, _binary)
    files["data_batch_3.bin"] = files["data_batch_3.bin"][:length]
    _write_folder(tmp_path, CIFAR10.binary, files)
    with pytest.raises(DataError, match=rf"data_batch_3\.bin has {length} bytes.*3073"):
        read_cifar(CIFAR10, tmp_path)


@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.5, 0.999])
def test_truncated_python_file(fraction, tmp_path):
    files = _files(CIFAR100, CIFAR100.python, _python2)
    files["train"] = files["train"][: int(fraction * len(files["train"]))]
    _write_folder(tmp_path, CIFAR100.python, files)
    with pytest.raises(DataError, match=r"cifar-100-python.train is damaged"):
        read_cifar(CIFAR100, tmp_path)


def test_missing_file_of_a_folder(tmp_path):
    files = _files(CIFAR10, CIFAR10.binary, _binary)
    del files["data_batch_2.bin"]
    _write_folder(tmp_path, CIFAR10.binary, files)
    with pytest.raises(DataError, match=r"does not have data_batch_2\.bin"):
        read_cifar(CIFAR10, tmp_path)


def test_labels_beyond_the_classes(tmp_path):
    files = _files(CIFAR10, CIFAR10.binary, _binary)
    files["test_batch.bin"] = b"\x0a" + files["test_batch.bin"][1:]
    _write_folder(tmp_path, CIFAR10.binary, files)
    with pytest.raises(DataError, match=r"test_batch\.bin: labels run from \d to 10"):
        read_cifar(CIFAR10, tmp_path)


@pytest.mark.parametrize(
    ("batch", "complaint"),
    [
        ([], "no 'data'"),
        ({"data": np.zeros((2, 3072), np.uint8)}, "no 'labels'"),
        ({"data": np.zeros((2, 3071), np.uint8), "labels": [0, 0]}, "'data' is no"),
        ({"data": np.zeros((2, 3072), np.int64), "labels": [0, 0]}, "'data' is no"),
        ({"data": np.zeros((0, 3072), np.uint8), "labels": []}, "has no images"),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [0]}, "2 images but 1 labels"),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [0, None]}, "not a list"),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [0, 2**80]}, "not classes"),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [0, -1]}, "labels run from -1"),
    ],
)
def test_python_batches_with_the_wrong_contents(batch, complaint, tmp_path):
    files = _files(CIFAR10, CIFAR10.python, _python2)
    files["data_batch_1"] = pickle.dumps(batch, 3)
    _write_folder(tmp_path, CIFAR10.python, files)
    with pytest.raises(DataError, match=complaint) as caught:
        read_cifar(CIFAR10, tmp_path)
    assert str(tmp_path / "cifar-10-batches-py" / "data_batch_1") in str(caught.value)


@VARIANTS
def test_nothing_there(cifar, tmp_path):
    assert locate_cifar(cifar, tmp_path) is None
    with pytest.raises(DataError) as caught:
        read_cifar(cifar, tmp_path)
    for version in (cifar.binary, cifar.python):
        assert str(tmp_path / version.folder) in str(caught.value)
        assert str(tmp_path / version.archive.file_name) in str(caught.value)


def test_superclasses_partition_the_classes():
    members = [name for names in CIFAR100_SUPERCLASSES.values() for name in names]
    assert len(CIFAR100_SUPERCLASSES) == 20
    assert {len(names) for names in CIFAR100_SUPERCLASSES.values()} == {5}
    assert len(set(members)) == 100
    assert set(members) == set(CIFAR100_CLASSES)
    assert list(CIFAR100_SUPERCLASSES) == sorted(CIFAR100_SUPERCLASSES)


def test_official_positions_of_fine_names():
    positions = {0: "apple", 1: "aquarium_fish", 19: "cattle", 39: "keyboard", 49: "mountain"}
    positions |= {58: "pickup_truck", 71: "sea", 87: "television", 98: "woman", 99: "worm"}
    for position, name in positions.items():
        assert CIFAR100_CLASSES[position] == name


def test_a_hole_in_a_binary_file_does_not_fill_the_memory(tmp_path):
    folder = tmp_path / CIFAR10.binary.folder
    folder.mkdir()
    for name in CIFAR10.binary.data_files:
        (folder / name).write_bytes(bytes(3073))
    os.truncate(folder / "data_batch_2.bin", 2**36)
    with pytest.raises(DataError, match=r"data_batch_2\.bin .* would unpack to 68,719,476,736"):
        read_cifar(CIFAR10, tmp_path)


def test_class_names_that_stand_for_billions_of_values(tmp_path):
    names: list[object] = ["lol"]
    for _ in range(40):
        names = [names, names]
    folder = tmp_path / CIFAR10.python.folder
    folder.mkdir()
    batch = {b"labels": [1, 2], b"data": np.zeros((2, 3072), np.uint8)}
    for name in CIFAR10.python.data_files:
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    meta = {b"label_names": [names] * 10}
    (folder / CIFAR10.python.names_file).write_bytes(pickle.dumps(meta, protocol=2))
    with pytest.raises(DataError, match=r"names 0 classes, expected 10"):
        read_cifar(CIFAR10, tmp_path)
