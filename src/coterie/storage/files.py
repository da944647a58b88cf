"""Writing files so that neither a crash nor a full disk nor a power cut leaves half a file behind.

A file is forced onto the disk before it gets its name, and its folder afterwards: only then does
the name outlive a power cut. Making a folder and deleting a file change the folder around them,
which is then forced onto the disk too.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
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

LARGEST_SMALL = 16 * 2**20
"""How many bytes settings, lists of runs and summaries may have."""
_CANNOT_SYNC = (errno.EINVAL, errno.EBADF, errno.ENOTSUP)
"""What file systems answer that cannot sync a folder, such as some network drives."""


def write_atomically(
    folder: Path,
    write: Callable[[BinaryIO], str],
    *,
    private: bool = False,
    durable: bool = True,
) -> Path:
    """Let `write` fill a new file and name it; it appears in the folder whole or not at all.

    A private file can be read by its owner only, from the moment on when it exists. One that need
    not last is not forced onto the disk: a power cut may lose it.
    """
    path = _write(folder, write, private=private, durable=durable)
    if durable:
        _sync_folders([folder])
    return path


def write_together(files: Iterable[tuple[Path, Callable[[BinaryIO], str]]]) -> None:
    """Write files into folders as `write_atomically` does; their names are forced down together.

    That costs little more than for a single one.
    """
    folders = []
    for folder, write in files:
        _write(folder, write)
        folders.append(folder)
    _sync_folders(folders)


def _write(
    folder: Path, write: Callable[[BinaryIO], str], *, private: bool = False, durable: bool = True
) -> Path:
    """Write a file whole or not at all; its name is not forced onto the disk."""
    partial = folder / f"{os.getpid()}{PARTIAL}"
    with explain_errors(f"write to {folder}"):
        try:
            with open(partial, "wb", opener=_open_private if private else None) as file:
                name = write(file)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            partial.replace(folder / name)
        finally:
            partial.unlink(missing_ok=True)
    return folder / name


def _open_private(path: str, flags: int) -> int:
    """Open a new file of mode 0600; one that is there may have been opened by others before."""
    Path(path).unlink(missing_ok=True)
    return os.open(path, flags | os.O_EXCL, 0o600)


def write_text(path: Path, text: str, *, private: bool = False, durable: bool = True) -> None:
    """Write a small text file atomically."""

    def fill(file: BinaryIO) -> str:
        # Names of files need not be text; what is not is written as \\udc….
        file.write(text.encode(errors="backslashreplace"))
        return path.name

    write_atomically(path.parent, fill, private=private, durable=durable)


def read_small(path: Path, largest: int = LARGEST_SMALL) -> bytes:
    """Return the contents of a file that is small unless it is damaged."""
    with explain_errors(f"read {path}"), path.open("rb") as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise StorageError(
            f"{path} is damaged: it has more than {largest // 2**20} MiB, far more than any file "
            "of this name."
        )
    return content


def make_folder(path: Path) -> None:
    """Create a folder, and its parents, unless it is there."""
    with explain_errors(f"create the folder {path}"):
        missing = [each for each in (path, *path.parents) if not each.exists()]
        path.mkdir(parents=True, exist_ok=True)
    _sync_folders(each.parent for each in missing)


def prepare_folder(path: Path) -> None:
    """Create a folder, or clear an old one of what a killed process left half written."""
    make_folder(path)
    with explain_errors(f"tidy up {path}"):
        for leftover in path.glob(f"*{PARTIAL}"):
            leftover.unlink()


def remove_files(paths: Iterable[Path], *, durable: bool = True) -> None:
    """Delete files; one that is gone is left out.

    A power cut does not bring them back, unless that need not last.
    """
    folders = []
    for path in paths:
        with explain_errors(f"delete {path}"):
            path.unlink(missing_ok=True)
        folders.append(path.parent)
    if durable:
        _sync_folders(folders)


def sync_everything() -> None:
    """Force everything onto the disk; faster than one by one for thousands of small files."""
    if hasattr(os, "sync"):  # not on Windows
        os.sync()


def _sync_folders(folders: Iterable[Path]) -> None:
    """Force the names in folders onto the disk."""
    for folder in dict.fromkeys(folders):
        with explain_errors(f"write to {folder}"):
            _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    """Force the names in a folder onto the disk, where the system can do that."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows, which cannot open a folder
        return
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # it may be written to but not read
        return
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(opened)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder; the lock dies with its holder, even by kill -9."""
    if fcntl is None:  # Windows has other locks, and no forked workers either
        yield
        return
    with explain_errors(f"lock {folder}"):
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
        with lock_folder(folder):
            return False
    except StorageError:
        return True


@contextmanager
def explain_errors(what: str) -> Iterator[None]:
    """Turn operating system errors into errors for people."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"Cannot {what}: {_reason(error)}") from error


def reason_of(error: BaseException) -> str:
    """Return what an error says, for people: without numbers and names of Python's."""
    text = error.strerror if isinstance(error, OSError) else str(error)
    text = (text or "").removeprefix("Error while deserializing header: ")  # of safetensors
    return (text or str(error)).rstrip(".") or type(error).__name__


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
