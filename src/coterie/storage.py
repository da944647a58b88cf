"""Writing files so that a crash, a full disk or kill -9 never leaves half a file behind."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from coterie.errors import StorageError

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
PARTIAL = ".partial"
"""The ending of files that are still being written; whatever bears it may be deleted."""


def write_atomically(
    folder: Path,
    write: Callable[[BinaryIO], str],
    *,
    private: bool = False,
    lasting: bool = True,
) -> Path:
    """Let `write` fill a new file and name it; it appears in the folder whole or not at all.

    A private file can be read by its owner only, from the moment on when it exists. One that need
    not last is not forced onto the disk: a power cut may lose it.
    """
    partial = folder / f"{os.getpid()}{PARTIAL}"
    with explained(f"write to {folder}"):
        try:
            with open(partial, "wb", opener=_open_private if private else None) as file:
                name = write(file)
                file.flush()
                if lasting:
                    os.fsync(file.fileno())
            partial.replace(folder / name)
        finally:
            partial.unlink(missing_ok=True)
    return folder / name


def _open_private(path: str, flags: int) -> int:
    """Open a new file of mode 0600; one that is there may have been opened by others before."""
    Path(path).unlink(missing_ok=True)
    return os.open(path, flags | os.O_EXCL, 0o600)


def write_text(path: Path, text: str, *, private: bool = False, lasting: bool = True) -> None:
    """Write a small text file atomically."""

    def fill(file: BinaryIO) -> str:
        file.write(text.encode())
        return path.name

    write_atomically(path.parent, fill, private=private, lasting=lasting)


def make_folder(path: Path) -> None:
    """Create a folder, and its parents, unless it is there."""
    with explained(f"create the folder {path}"):
        path.mkdir(parents=True, exist_ok=True)


def open_folder(path: Path) -> None:
    """Create a folder, or clear an old one of what a killed process left half written."""
    make_folder(path)
    with explained(f"tidy up {path}"):
        for leftover in path.glob(f"*{PARTIAL}"):
            leftover.unlink()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder; the lock dies with its holder, even by kill -9."""
    if fcntl is None:  # Windows has other locks, and no forked workers either
        yield
        return
    with explained(f"lock {folder}"):
        file = (folder / LOCK).open("w")
    with file:
        try:
            # Not flock, which forked workers would hold on to for a moment after a kill.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StorageError(
                f"Another process is running what is in {folder}. Wait until it has finished, or "
                "stop it first."
            ) from None
        yield


def is_locked(folder: Path) -> bool:
    """Whether another process is at work in a folder."""
    if fcntl is None or not (folder / LOCK).exists():
        return False
    try:
        with locked(folder):
            return False
    except StorageError:
        return True


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn operating system errors into errors for people."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"Cannot {what}: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"{error.strerror}. Make room on the disk, or choose another folder (--out or "
            "--folder); what was saved before is intact."
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{error.strerror}. Choose a folder you may write to (--out or --folder)."
    if error.errno in (errno.ENOTDIR, errno.ENAMETOOLONG, errno.ENOENT, errno.EEXIST):
        return f"{error.strerror}. Check the path, or choose another folder (--out or --folder)."
    return f"{error.strerror or error}."
