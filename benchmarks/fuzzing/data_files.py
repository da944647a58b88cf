"""Data files of every format: made, damaged, and read by a run."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import pickle
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from coterie.data.cifar import CIFAR10
from coterie.data.idx import MNIST
from fuzzing import damage
from fuzzing.calling import Call, command, library
from fuzzing.content import changed_bytes

TINY = ("--peers", "4", "--rounds", "1", "--threads", "1", "--strategy", "random",
        "--set", "strategy.fetches=1", "--set", "shift={kind: none}",
        "--set", "peers.train_size=4", "--set", "peers.validation_size=2")  # fmt: skip
PICTURES = 8
CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")


def make_data(folder: Path) -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    folder.mkdir()
    labels = np.arange(60) % 4
    images = rng.integers(0, 256, (60, 8, 8), dtype=np.uint8)
    names = np.array(list("abcd"))
    for name, save in (("plain", np.savez), ("compressed", np.savez_compressed)):
        save(folder / f"{name}.npz", x_train=images, y_train=labels, x_test=images[:20],
             y_test=labels[:20], classes=names)  # fmt: skip
    (folder / "idx" / "mnist").mkdir(parents=True)
    for remote, count in (
        (MNIST.train_images, 60), (MNIST.train_labels, 60),
        (MNIST.test_images, 20), (MNIST.test_labels, 20),
    ):  # fmt: skip
        is_images = "idx3" in remote.file_name
        shape = (count, 28, 28) if is_images else (count,)
        header = struct.pack(f">4B{len(shape)}I", 0, 0, 8, len(shape), *shape)
        content = header + rng.integers(0, 10, shape, dtype=np.uint8).tobytes()
        (folder / "idx" / "mnist" / remote.file_name).write_bytes(gzip.compress(content, mtime=0))
        (folder / "idx" / "mnist" / remote.file_name.removesuffix(".gz")).write_bytes(content)
    binary, python = (
        folder / "binary" / CIFAR10.binary.folder,
        folder / "python" / CIFAR10.python.folder,
    )
    for place, version in ((binary, CIFAR10.binary), (python, CIFAR10.python)):
        place.mkdir(parents=True)
        for name in version.data_files:
            records = rng.integers(0, 10, (20, 3073), dtype=np.uint8)
            batch = {
                b"batch_label": b"x",
                b"labels": records[:, 0].tolist(),
                b"data": records[:, 1:],
                b"filenames": [b"a.png"] * 20,
            }
            content = records.tobytes() if place is binary else pickle.dumps(batch, protocol=2)
            (place / name).write_bytes(content)
    (binary / CIFAR10.binary.names_file).write_text("\n".join(CIFAR10.classes))
    meta = {b"label_names": [name.encode() for name in CIFAR10.classes], b"num_vis": 3072}
    (python / CIFAR10.python.names_file).write_bytes(pickle.dumps(meta, protocol=2))
    for name in CLASSES:
        place = folder / "pacs" / "pacs" / "photo" / name
        place.mkdir(parents=True)
        for number in range(PICTURES):
            pixels = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            picture = Image.fromarray(pixels).resize((227, 227))
            picture.save(place / f"{number}.{'jpg' if number else 'png'}", quality=30)


def _data_case(case: Path, root: Path, dataset: str, model: str) -> list[Call]:
    options = (
        "--data-root",
        root,
        "--set",
        f"data.datasets=[{dataset}]",
        "--set",
        f"model.name={model}",
    )
    return [
        ("data", lambda: command("data", "--data-root", root)),
        ("run", lambda: command("run", "digits", *TINY, *options, "--out", case / "out")),
    ]


@contextlib.contextmanager
def damaged_npz(bases: Path, case: Path, chance: random.Random) -> Iterator[list[Call]]:
    """Yield what reads a damaged .npz file."""
    path = case / "mine.npz"
    shutil.copy(bases / "data" / chance.choice(["plain.npz", "compressed.npz"]), path)
    if chance.random() < 0.1:
        os.truncate(path, chance.choice([0, path.stat().st_size + 2**33]))
    else:
        damage.changed_content(path, chance)
    yield _data_case(case, case, str(path), "digits-cnn")


@contextlib.contextmanager
def damaged_idx(bases: Path, case: Path, chance: random.Random) -> Iterator[list[Call]]:
    """Yield what reads four idx files, some of them damaged."""
    root = shutil.copytree(bases / "data" / "idx", case / "root")
    ending = chance.choice([".gz", ""])
    for path in sorted((root / "mnist").iterdir()):
        if (path.suffix == ".gz") != (ending == ".gz"):
            path.unlink()
    path = chance.choice(sorted((root / "mnist").iterdir()))
    if chance.random() < 0.25:
        path.write_bytes(idx_bomb(chance, is_gzip=ending == ".gz"))
    elif chance.random() < 0.3 and ending:
        path.write_bytes(gzip.compress(changed_bytes(gzip.decompress(path.read_bytes()), chance)))
    else:
        damage.damage_folder(root, chance)
    yield _data_case(case, root, "mnist", "fashion-cnn")


def idx_bomb(chance: random.Random, *, is_gzip: bool) -> bytes:
    """Return an idx file that announces, or holds, far more than it should."""
    counts = chance.choice([(2**31, 1, 1), (70_000, 28, 28), (2**32 - 1,) * 3, (2_000_000, 28, 28)])
    header = struct.pack(">4B3I", 0, 0, 8, 3, *counts)
    if not is_gzip:
        return header + bytes(1000)
    sink = io.BytesIO()
    with gzip.open(sink, "wb", 9) as file:
        file.write(header)
        for _ in range(chance.choice([1, 300, 1500])):
            file.write(bytes(2**20))
    return sink.getvalue()


@contextlib.contextmanager
def damaged_binary(bases: Path, case: Path, chance: random.Random) -> Iterator[list[Call]]:
    """Yield what reads CIFAR's binary version, damaged."""
    root = shutil.copytree(bases / "data" / "binary", case / "root")
    damage.damage_folder(root, chance)
    yield _data_case(case, root, "cifar10", "cifar-cnn")


@contextlib.contextmanager
def damaged_python(bases: Path, case: Path, chance: random.Random) -> Iterator[list[Call]]:
    """Yield what reads CIFAR's python version, damaged."""
    root = shutil.copytree(bases / "data" / "python", case / "root")
    if chance.random() < 0.25:
        path = chance.choice(sorted((root / CIFAR10.python.folder).iterdir()))
        path.write_bytes(pickle_bomb(path.read_bytes(), chance))
    else:
        damage.damage_folder(root, chance)
    yield _data_case(case, root, "cifar10", "cifar-cnn")


def pickle_bomb(data: bytes, chance: random.Random) -> bytes:
    """Return a pickle that is small and stands for much, or for something of another type."""
    deep: Any = ["lol"]
    for _ in range(chance.choice([20, 100, 200])):
        deep = [deep, deep] if chance.random() < 0.9 else {"x": deep, "y": deep}
    batch = pickle.loads(data)  # noqa: S301 — made here
    key = chance.choice(list(batch))
    odd = [
        deep,
        [deep] * 10,
        [2**70],
        [-1],
        None,
        5,
        [True],
        [1.5],
        np.zeros(3),
        b"",
        "x",
        {},
        (1,),
    ]
    odd += [
        [[]],
        [None] * 10,
        np.zeros((20, 3072), np.int64),
        [300] * 20,
        [{"a": 1}] * 10,
        [b"a"] * 10,
    ]
    ways: list[Callable[[], bytes]] = [
        lambda: pickle.dumps(batch | {key: chance.choice(odd)}, protocol=2),
        lambda: b"\x80\x02" + b"}" * 3_000_000 + b".",
        lambda: b"\x80\x02" + b"]" * 12_000_000 + b".",
        lambda: b"\x80\x02" + b"\x85" * 100_000 + b".",
        lambda: b"\x80\x02)" + b"\x85" * 100_000 + b".",
        lambda: b"\x80\x02B\xff\xff\xff\x7fx.",
        lambda: b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"x.",
        lambda: b"\x80\x02\x8b" + struct.pack("<I", 2**30) + b"\x01" * 100 + b".",
        lambda: b"I" + b"9" * 5000 + b"\n.",
        lambda: pickle.dumps(deep, protocol=2),
    ]
    return chance.choice(ways)()


@contextlib.contextmanager
def damaged_pacs(bases: Path, case: Path, chance: random.Random) -> Iterator[list[Call]]:
    """Yield what reads a folder of pictures, damaged."""
    root = shutil.copytree(bases / "data" / "pacs", case / "root")
    if chance.random() < 0.2:
        path = chance.choice(sorted(path for path in root.rglob("*") if path.is_file()))
        path.write_bytes(odd_picture(chance))
    else:
        damage.damage_folder(root, chance)
    yield _data_case(case, root, "pacs-photo", "pacs-cnn")


def odd_picture(chance: random.Random) -> bytes:
    """Return a picture of another size, mode or format, or one that unpacks to far too much."""
    from PIL import Image, PngImagePlugin

    sink = io.BytesIO()
    mode = chance.choice(["1", "L", "P", "RGBA", "CMYK", "I;16", "LA"])
    size = chance.choice([(227, 227), (227, 227), (1, 1), (20_000, 9000), (226, 227)])
    kind = chance.choice(["PNG", "PNG", "JPEG", "GIF", "BMP", "TIFF"])
    notes = PngImagePlugin.PngInfo()
    if size == (227, 227) and kind == "PNG":
        notes.add_text("x", "y" * 2**20 * chance.choice([1, 200]), zip=True)
    try:
        Image.new(mode, size).save(sink, kind, **({"pnginfo": notes} if kind == "PNG" else {}))
    except (OSError, ValueError):
        return b"\x89PNG\r\n\x1a\n"
    return sink.getvalue()


@contextlib.contextmanager
def damaged_weights(bases: Path, case: Path, chance: random.Random) -> Iterator[list[Call]]:
    """Yield what reads the weights that a run begins with, damaged."""
    import torch

    from coterie.models.imagenet import load_imagenet_weights

    path = case / "weights.pth"
    state = {"a.weight": torch.ones(4, 3), "a.bias": torch.zeros(4), "n": torch.tensor(3)}
    torch.save(state, path, _use_new_zipfile_serialization=chance.random() < 0.6)
    data = path.read_bytes()
    for _ in range(chance.choice([1, 1, 2, 3])):
        data = changed_bytes(data, chance)
    path.write_bytes(data)
    yield [("read", lambda: library(lambda: load_imagenet_weights(path, torch.nn.Linear(3, 4))))]
