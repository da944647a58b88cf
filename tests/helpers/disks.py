"""What a power cut would leave of what is written meanwhile, by the calls that force it down."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

Entry = tuple[int, int]


class Disk:
    """Watches the calls of this process; a disk keeps only what it was made to keep.

    A file's contents are kept from its fsync on, until it changes. The names in a folder are kept
    as they were at the folder's fsync.
    """

    def __init__(
        self, patch: pytest.MonkeyPatch, root: Path, excused: Collection[str] = ()
    ) -> None:
        self._root = root
        self._excused = (".partial", ".lock", *excused)
        self._contents: dict[int, tuple[int, int]] = {}
        self._names: dict[int, dict[str, Entry]] = {}
        self.mistakes: list[str] = []
        self.num_synced = 0
        for name in ("replace", "rename", "unlink", "remove"):
            patch.setattr(os, name, self._checked(name, getattr(os, name)))
        patch.setattr(os, "fsync", self._watched_sync(os.fsync))
        if hasattr(os, "sync"):
            patch.setattr(os, "sync", self._keep_everything)

    def lost(self, folder: Path) -> list[str]:
        """Return what is in a folder, at any depth, that a power cut would lose now."""
        found = []
        for path in sorted(folder.rglob("*")):
            if path.name.endswith(self._excused):
                continue
            about = path.stat()
            kept = self._names.get(path.parent.stat().st_ino, {})
            if kept.get(path.name) != (about.st_ino, about.st_mode):
                found.append(f"the name {path.relative_to(folder)}")
            if path.is_file() and self._contents.get(about.st_ino) != _state(about):
                found.append(f"the contents of {path.relative_to(folder)}")
        return found

    def returning(self, folder: Path) -> list[str]:
        """Return the files of a folder, at any depth, that a power cut would bring back."""
        found = []
        for each in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
            kept = self._names.get(each.stat().st_ino, {})
            found += [
                str(each / name)
                for name, (_, mode) in kept.items()
                if stat.S_ISREG(mode) and not (each / name).exists()
            ]
        return found

    def _watched_sync(self, sync: Any) -> Any:
        def watched(number: int) -> None:
            sync(number)
            self.num_synced += 1
            self._keep(Path(os.readlink(f"/proc/self/fd/{number}")))

        return watched

    def _keep_everything(self) -> None:
        for path in (self._root, *self._root.rglob("*")):
            self._keep(path)

    def _keep(self, path: Path) -> None:
        about = path.stat()
        if path.is_dir():
            self._names[about.st_ino] = {
                each.name: (each.lstat().st_ino, each.lstat().st_mode) for each in path.iterdir()
            }
        else:
            self._contents[about.st_ino] = _state(about)

    def _checked(self, name: str, call: Any) -> Any:
        def checked(path: Any, *others: Any, **options: Any) -> Any:
            # Whole trees are removed by numbers of folders; nothing is to be kept of them.
            if options.get("dir_fd") is None and os.path.exists(path):
                self._check(name, Path(path), *map(Path, others))
            return call(path, *others, **options)

        return checked

    def _check(self, name: str, path: Path, *others: Path) -> None:
        """Take note if a power cut could lose both what was there and what takes its place."""
        if str((*others, path)[0]).endswith(self._excused):
            return
        if others and self._contents.get(path.stat().st_ino) != _state(path.stat()):
            self.mistakes.append(f"{name} of {path}, which has not been synced")
        if not others and (lost := [each for each in self.lost(path.parent) if "/" not in each]):
            self.mistakes.append(f"{name} of {path} before {lost} is safe")


def _state(about: os.stat_result) -> tuple[int, int]:
    return about.st_mtime_ns, about.st_size
