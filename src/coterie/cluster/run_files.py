"""Copies the folder of a run from a node to the computer of the command, change by change.

Changes are sent in the order in which they were made, and each is applied atomically. So the copy
is always in a state that the folder of a local run can be in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from coterie.runtime.run_tables import SCHEMAS
from coterie.storage.files import (
    PARTIAL,
    GrowingFile,
    explain_errors,
    make_folder,
    prepare_folder,
    remove_files,
)

PIECE_BYTES = 8 * 2**20
"""Large files are sent in pieces of this size."""
CHECKPOINTS = "checkpoints"
RESUMED = (CHECKPOINTS, *SCHEMAS)
"""The folders of a run that are needed to continue it; tables may also be joined files."""


@dataclass(frozen=True)
class FilePiece:
    """A piece of a new file; the last piece completes it."""

    name: str
    """The path of the file below the folder of the run."""
    content: bytes
    is_last: bool


@dataclass(frozen=True)
class FileGone:
    """A file that was deleted."""

    name: str


FileChange = FilePiece | FileGone


class ChangeSender:
    """Sends the changes of a folder on a node; to be used with `follow_changes`."""

    def __init__(
        self, folder: Path, send: Callable[[FileChange], None], present: Iterable[str]
    ) -> None:
        self._folder = folder
        self._send = send
        self._present = set(present)
        """The files of the copy."""

    def __call__(self, path: Path) -> None:
        """Send a file that was written, or that it was deleted."""
        if not path.is_relative_to(self._folder):
            return
        name = path.relative_to(self._folder).as_posix()
        if not path.exists():
            self._send_gone(name)
            return
        self._present.add(name)
        for piece in _pieces_of(path, name):
            self._send(piece)

    def send_rest(self) -> None:
        """Send which files were deleted together with their folder."""
        for name in sorted(self._present):
            if not (self._folder / name).exists():
                self._send_gone(name)

    def _send_gone(self, name: str) -> None:
        if name in self._present:
            self._present.discard(name)
            self._send(FileGone(name))


class FolderCopy:
    """The folder of a run beside the command; changes on a node are applied to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.num_checkpoints = 0
        """How many checkpoints have arrived."""
        self._growing: GrowingFile | None = None
        for each in (folder, *(folder / name for name in RESUMED)):
            if each.exists():
                prepare_folder(each)

    def apply(self, changes: Iterable[FileChange]) -> None:
        """Change the copy as the folder on the node was changed."""
        for are_gone, group in groupby(changes, lambda change: isinstance(change, FileGone)):
            if are_gone:
                self._remove([self.folder / change.name for change in group])
                continue
            for change in group:
                if isinstance(change, FilePiece):
                    self._write(change)

    def _remove(self, paths: list[Path]) -> None:
        """Delete files; those deleted together need one sync per folder."""
        remove_files(paths)
        for folder in dict.fromkeys(path.parent for path in paths):
            if folder != self.folder:
                with suppress(OSError):  # there are other files in it
                    folder.rmdir()

    def _write(self, piece: FilePiece) -> None:
        if self._growing is None:
            path = self.folder / piece.name
            make_folder(path.parent)
            self._growing = GrowingFile(path)
        self._growing.add(piece.content)
        if piece.is_last:
            self._growing.finish()
            self._growing = None
            self.num_checkpoints += piece.name.startswith(f"{CHECKPOINTS}/")

    def discard_partial(self) -> None:
        """Delete a file that has not arrived completely."""
        if self._growing is not None:
            self._growing.discard()
            self._growing = None

    def list_files(self) -> list[str]:
        """Return the files that are needed to continue the run, by their paths below its folder."""
        found = [path for name in RESUMED for path in (self.folder / name).glob("*")]
        found += [self.folder / f"{name}.parquet" for name in SCHEMAS]
        return sorted(
            path.relative_to(self.folder).as_posix()
            for path in found
            if path.is_file() and path.suffix != PARTIAL
        )


def _pieces_of(path: Path, name: str) -> Iterator[FilePiece]:
    with explain_errors(f"read {path}"), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while True:
            content = file.read(PIECE_BYTES)
            size -= len(content)
            yield FilePiece(name, content, is_last=size <= 0)
            if size <= 0:
                return
