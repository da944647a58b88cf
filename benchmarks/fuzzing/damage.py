"""Damages files and folders as disks, crashes, editors and hostile people do."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from fuzzing.arrays import changed_table, changed_zip
from fuzzing.content import LARGEST, changed_bytes, changed_json, changed_text, changed_yaml

CHANGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    ".yaml": changed_yaml,
    ".json": changed_json,
    ".parquet": changed_table,
    ".npz": changed_zip,
}


def changed_content(path: Path, chance: random.Random) -> None:
    """Change what a file holds, by its bytes or by its meaning."""
    if path.stat().st_size > LARGEST:  # made so before
        return
    data = path.read_bytes()
    change = CHANGES.get(path.suffix)
    if change and chance.random() < 0.6:
        data = change(data, chance)
    elif path.suffix in (".yaml", ".json", ".csv") and chance.random() < 0.6:
        data = changed_text(data, chance)
    else:
        data = changed_bytes(data, chance)
    path.write_bytes(data)


def damage_folder(folder: Path, chance: random.Random) -> None:
    """Do one to three things to the files of a folder."""
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        files = sorted(
            path for path in folder.rglob("*") if path.is_file() and path.stat().st_size < LARGEST
        )
        folders = sorted(
            path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink()
        )
        if not files:
            return
        path = chance.choice(files)
        # There are many parts and few of the files that decide.
        named = [each for each in files if each.suffix in (".yaml", ".json", ".safetensors")]
        if named and chance.random() < 0.4:
            path = chance.choice(named)
        if chance.random() < 0.6:
            changed_content(path, chance)
        else:
            _change_tree(path, files, folders, chance)


def _change_tree(path: Path, files: list[Path], folders: list[Path], chance: random.Random) -> None:
    other = chance.choice(files)
    inside = chance.choice(folders) if folders else path.parent
    ways: list[Callable[[], object]] = [
        path.unlink,
        lambda: _become_folder(path, chance),
        lambda: _become_file(inside, chance),
        lambda: _swap(path, other),
        lambda: _copy_like(path, files, chance),
        lambda: _copy_beside(path, chance),
        lambda: _grow(path, chance),
        lambda: _become_link(path, path.name),
        lambda: _become_link(path, chance.choice(LINKS)),
        lambda: os.link(
            os.fsencode(path), os.fsencode(path.parent) + b"/" + chance.choice(ODD_NAMES)
        ),
        lambda: _add_folder(path, chance),
        lambda: path.write_bytes(b""),
        lambda: path.rename(path.with_name(path.name.upper())),
    ]
    chance.choice(ways)()


LINKS = ["nowhere", "..", ".", "/", "/dev/null", "/etc/passwd"]
ODD_NAMES = [b"\xff\xfe", b"\xe9t\xe9.parquet", b"a\nb"]


def _become_folder(path: Path, chance: random.Random) -> None:
    path.unlink()
    path.mkdir()
    if chance.random() < 0.5:
        (path / "inside").write_text("x")


def _become_file(folder: Path, chance: random.Random) -> None:
    shutil.rmtree(folder)
    folder.write_bytes(chance.choice([b"", b"x", b"x" * 9999]))


def _become_link(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


def _swap(path: Path, other: Path) -> None:
    content, there = path.read_bytes(), other.read_bytes()
    path.write_bytes(there)
    other.write_bytes(content)


def _copy_like(path: Path, files: list[Path], chance: random.Random) -> None:
    """Give a file the content of another whose name ends alike."""
    same = [each for each in files if each.suffix == path.suffix]
    path.write_bytes(chance.choice(same).read_bytes())


def _copy_beside(path: Path, chance: random.Random) -> None:
    first, last = chance.randrange(9), chance.randrange(9)
    names = [
        *(f"{first:07d}-{last:07d}.parquet", f"copy of {path.name}", "x.parquet", "a-b.parquet"),
        *(f"round-{first:07d}-{'0' * 16}.safetensors", "round-x.safetensors", "metrics.parquet"),
    ]
    target = path.with_name(chance.choice(names))
    if target != path:
        shutil.copy(path, target)


def _grow(path: Path, chance: random.Random) -> None:
    """Put a hole at the end of a file: it takes no room on the disk."""
    size = path.stat().st_size
    os.truncate(path, chance.choice([size + 1, size + 2**20, 2**32, 2**36]))


def _add_folder(path: Path, chance: random.Random) -> None:
    """Make a folder in a table's place: a table in parts and in whole."""
    names = ["metrics", "timings", "exchanges", "checkpoints", "x.parquet"]
    target = path.parent / chance.choice(names)
    if not target.exists():
        target.mkdir()
        shutil.copy(path, target / chance.choice([path.name, "0000000-0000001.parquet"]))
