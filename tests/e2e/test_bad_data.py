"""Data that are missing, broken or too few: a message that says where and what to do."""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
from commands import SMALL, Answer, coterie, refused, run_with

from coterie.data.cifar import CIFAR10
from coterie.data.idx import MNIST


def test_a_label_without_images(tmp_path):
    answer = run_with(tmp_path, "shift={kind: labels, groups: [[0, 1], [17]]}")
    refused(answer, 3, "label 17", "digits", "labels are 0 to 9")


def test_more_images_than_there_are(tmp_path):
    answer = run_with(tmp_path, "peers.train_size=5000")
    refused(answer, 3, "40,080", "only 1,438", "peers.train_size", "peers.count")


def test_more_images_of_some_labels_than_there_are(tmp_path):
    shift = "shift={kind: labels, groups: [[0, 1], [2, 3]]}"
    refused(run_with(tmp_path, shift, "peers.train_size=100"), 3, "440", "only 288", "[0, 1]")


@pytest.mark.parametrize("model", ["cifar-cnn", "linear", "resnet-18"])
def test_a_model_that_does_not_fit(tmp_path, model):
    refused(run_with(tmp_path, f"model.name={model}"), 2, f"'{model}'", "1×8×8", "expects")


def test_accuracies_of_a_regression(tmp_path):
    answer = coterie(
        *("run", "friends-synthetic", *SMALL, "--set", "task.score=accuracy"),
        *("--out", tmp_path / "out"),
    )
    refused(answer, 2, "accuracy does not fit the loss mse", "rmse")


def broken_npz(folder: Path) -> dict[str, Path]:
    """Write files that are all wrong in another way."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (400, 8, 8), dtype=np.uint8)
    labels = rng.integers(0, 10, 400)
    holed = images / np.float32(255)
    holed[5, 2, 3] = np.nan
    arrays = {
        "flat": {"x_train": images.reshape(400, 64), "y_train": labels},
        "small": {"x_train": images[:, :2, :2], "y_train": labels},
        "holed": {"x_train": holed, "y_train": labels},
        "nameless": {"x_trian": images, "y_train": labels},
        "fewer": {"x_train": images, "y_train": labels[:3]},
        "half": {"x_train": images, "y_train": labels, "x_test": images},
        "negative": {"x_train": images, "y_train": labels - 1},
    }
    paths = {name: folder / f"{name}.npz" for name in (*arrays, "text", "cut", "absent")}
    for name, members in arrays.items():
        np.savez(paths[name], **members)
    paths["text"].write_text("hello")
    paths["cut"].write_bytes(paths["fewer"].read_bytes()[:-100])
    return paths


@pytest.mark.parametrize(
    ("name", "code", "parts"),
    [
        ("flat", 3, ("(400, 64)", "expected", "(n, H, W)")),
        ("small", 2, ("digits-cnn", "1×2×2", "1×8×8")),
        ("holed", 3, ("holed.npz", "1 of 400", "NaN", "sample 5")),
        ("nameless", 3, ("nameless.npz", "x_train", "x_trian")),
        ("fewer", 3, ("fewer.npz", "400", "3")),
        ("half", 3, ("half.npz", "y_test")),
        ("negative", 3, ("negative", "-1")),
        ("text", 3, ("text.npz", "Expected a .npz archive")),
        ("cut", 3, ("cut.npz", "Expected a .npz archive")),
        ("absent", 3, ("absent.npz", "not found", "--data-root")),
    ],
)
def test_broken_files_of_ones_own(tmp_path, name, code, parts):
    path = broken_npz(tmp_path)[name]
    message = refused(run_with(tmp_path, f"data.datasets=[{path}]"), code, *parts)
    assert "Did you mean 'y_train'" not in message


@pytest.fixture
def data_root(tmp_path, monkeypatch) -> Path:
    """Return an empty data root, with downloads forbidden."""
    monkeypatch.setenv("COTERIE_OFFLINE", "1")
    root = tmp_path / "data"
    root.mkdir()
    return root


def run_preset(preset: str, root: Path | str) -> Answer:
    """Run a preset that needs data from a root."""
    out = Path(root).parent / "out" if isinstance(root, Path) else "out"
    return coterie("run", preset, *SMALL, "--data-root", root, "--out", out)


def test_data_that_are_not_there(data_root):
    archive = CIFAR10.binary.archive
    message = refused(run_preset("dac-cifar-rotation4", data_root), 3, "CIFAR-10", "COTERIE_DATA")
    for name in (CIFAR10.binary.folder, CIFAR10.python.folder, archive.file_name):
        assert str(data_root / name) in message
    assert f"Download {archive.url} (md5 {archive.md5}) yourself" in message
    assert f"put it at {data_root / archive.file_name}" in message
    assert "COTERIE_OFFLINE" in message


@pytest.mark.parametrize(
    ("preset", "parts"),
    [
        ("friends-mnist-fashion", ("MNIST", MNIST.train_images.url, "mnist/train-images-idx3")),
        ("hast-pacs", ("PACS", "pacs/PACS/photo", "https://domaingeneralization.github.io")),
    ],
)
def test_other_data_that_are_not_there(data_root, preset, parts):
    refused(run_preset(preset, data_root), 3, *parts, data_root, "--data-root")


def test_a_data_root_that_does_not_exist(data_root):
    refused(run_preset("dac-cifar-rotation4", data_root / "no"), 3, data_root / "no", "CIFAR-10")


def test_a_data_root_in_the_home_of_nobody(tmp_path, monkeypatch):
    monkeypatch.setenv("COTERIE_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    answer = run_preset("dac-cifar-rotation4", "~nobody-of-this-name/data")
    assert answer.code in (2, 3)
    refused(answer, answer.code, "~nobody-of-this-name/data")


def write_cifar(root: Path) -> Path:
    """Write a small CIFAR-10 in the binary version."""
    folder = root / CIFAR10.binary.folder
    folder.mkdir()
    records = np.random.default_rng(0).integers(0, 10, (200, 3073), dtype=np.uint8)
    for name in CIFAR10.binary.data_files:
        (folder / name).write_bytes(records.tobytes())
    return folder


def test_a_truncated_cifar_file(data_root):
    path = write_cifar(data_root) / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-100])
    answer = run_preset("dac-cifar-rotation4", data_root)
    refused(answer, 3, path, "614500 bytes", "3073", "truncated", CIFAR10.binary.archive.url)


def test_a_cifar_folder_that_lacks_a_file(data_root):
    path = write_cifar(data_root) / "data_batch_3.bin"
    path.unlink()
    answer = run_preset("dac-cifar-rotation4", data_root)
    refused(answer, 3, path.parent, "does not have data_batch_3.bin", CIFAR10.binary.archive.url)


@pytest.mark.parametrize("is_whole", [True, False])
def test_an_archive_that_is_not_the_official_one(data_root, is_whole):
    """Whole but different, or cut off: the checksum tells."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        tar.add(write_cifar(data_root), CIFAR10.binary.folder)
    shutil.rmtree(data_root / CIFAR10.binary.folder)
    path = data_root / CIFAR10.binary.archive.file_name
    path.write_bytes(content.getvalue() if is_whole else content.getvalue()[:-1000])
    found = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    answer = run_preset("dac-cifar-rotation4", data_root)
    refused(answer, 3, path, found, CIFAR10.binary.archive.md5, "Delete it")


def test_a_truncated_mnist_file(data_root):
    folder = data_root / "mnist"
    folder.mkdir()
    images = struct.pack(">4B3I", 0, 0, 8, 3, 50, 28, 28) + bytes(50 * 28 * 28)
    path = folder / MNIST.train_images.file_name
    path.write_bytes(gzip.compress(images)[:-10])
    refused(run_preset("friends-mnist-fashion", data_root), 3, path, "damaged", "Replace it")


@pytest.mark.parametrize(
    "change",
    [
        "shift={kind: labels, groups: [[17]]}",
        "model.name=linear",
        "data.datasets=[absent.npz]",
        "peers.train_size=5000",
    ],
)
def test_a_mistake_leaves_no_folder_behind(tmp_path, change):
    """Else the corrected command is refused, and `resume` repeats the mistake."""
    assert run_with(tmp_path, change).code in (2, 3)
    assert not (tmp_path / "out").exists()


def test_pretrained_weights_that_are_not_there(tmp_path):
    """A run that asks for pretrained weights never silently starts from scratch."""
    images = np.zeros((400, 3, 32, 32), np.uint8)
    np.savez(tmp_path / "images.npz", train_images=images, train_labels=np.arange(400) % 2)
    answer = run_with(
        tmp_path,
        f"data.datasets=[{tmp_path / 'images.npz'}]",
        "model={name: resnet-18, pretrained: nowhere.pth}",
    )
    refused(answer, 3, "There is no weights file", "nowhere.pth", "https://download.pytorch.org")
    assert not (tmp_path / "out").exists()


def test_a_folder_or_a_file_in_the_wrong_place_is_said_in_words(data_root):
    folder = data_root / "mnist"
    folder.mkdir()
    for remote in (MNIST.train_labels, MNIST.test_images, MNIST.test_labels):
        (folder / remote.file_name).write_bytes(b"x")
    (folder / MNIST.train_images.file_name).symlink_to(data_root)
    message = refused(run_preset("friends-mnist-fashion", data_root), 3, "MNIST")
    assert "[Errno" not in message
