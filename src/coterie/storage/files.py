"""Writes files atomically: no crash, full disk or power cut leaves a partial file.

The content of a file is synced to the disk before the file gets its name, and the folder after it:
only then does the name survive a power cut. Creating a folder and deleting a file change the parent
folder, so that is synced too.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from coterie.errors import StorageError

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
PARTIAL = ".partial"
"""The suffix of files that are still being written; leftovers with it may be deleted."""

LARGEST_SMALL = 16 * 2**20
"""The largest size in bytes of settings, lists of runs and summaries."""
Follower = Callable[[Path], None]
"""Is called with the path of a file that was written, replaced or deleted."""
_followers: list[Follower] = []
_temporary: list[None] = []
"""Is not empty while this process writes only temporary files, which are not synced."""
_CANNOT_SYNC = (errno.EINVAL, errno.EBADF, errno.ENOTSUP)
"""Errors of file systems that cannot sync a folder, such as some network drives."""


def write_atomically(
    folder: Path,
    write: Callable[[BinaryIO], str],
    *,
    private: bool = False,
    durable: bool = True,
) -> Path:
    """Write a complete file or none; `write` fills it and returns its name.

    A private file can be read only by its owner, from its creation on. A file that is not durable
    is not synced: a power cut may lose it.
    """
    path = _write(folder, write, private=private, durable=durable)
    if durable:
        _sync_folders([folder])
    return path


def write_together(files: Iterable[tuple[Path, Callable[[BinaryIO], str]]]) -> None:
    """Write files as `write_atomically` does, with one sync per folder, which is faster."""
    folders = []
    for folder, write in files:
        _write(folder, write)
        folders.append(folder)
    _sync_folders(folders)


def _write(
    folder: Path, write: Callable[[BinaryIO], str], *, private: bool = False, durable: bool = True
) -> Path:
    """Write a complete file or none; the folder is not synced."""
    partial = folder / f"{os.getpid()}{PARTIAL}"
    with explain_errors(f"write to {folder}"):
        try:
            with open(partial, "wb", opener=_open_private if private else None) as file:
                name = write(file)
                file.flush()
                if durable and not _temporary:
                    os.fsync(file.fileno())
            partial.replace(folder / name)
        finally:
            partial.unlink(missing_ok=True)
    _report_change(folder / name)
    return folder / name


def _open_private(path: str, flags: int) -> int:
    """Open a new file of mode 0600; an old one may already be open elsewhere."""
    Path(path).unlink(missing_ok=True)
    return os.open(path, flags | os.O_EXCL, 0o600)


class GrowingFile:
    """A file that is written in pieces; it gets its name when it is complete."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.with_name(f"{os.getpid()}-{path.stem}{PARTIAL}")
        with explain_errors(f"write to {path.parent}"):
            self._file = self._partial.open("wb")

    def add(self, piece: bytes) -> None:
        """Write the next piece."""
        with explain_errors(f"write to {self._path.parent}"):
            self._file.write(piece)

    def finish(self) -> None:
        """Sync the file and give it its name."""
        with explain_errors(f"write to {self._path.parent}"):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._partial.replace(self._path)
        _report_change(self._path)
        _sync_folders([self._path.parent])

    def discard(self) -> None:
        """Delete what was written, unless the file is complete."""
        with suppress(OSError):  # closing writes the rest, for which the disk may be too full
            self._file.close()
        self._partial.unlink(missing_ok=True)


def write_bytes(
    path: Path, content: bytes | memoryview, *, private: bool = False, durable: bool = True
) -> None:
    """Write a file atomically."""

    def fill(file: BinaryIO) -> str:
        file.write(content)
        return path.name

    write_atomically(path.parent, fill, private=private, durable=durable)


def write_text(path: Path, text: str, *, private: bool = False, durable: bool = True) -> None:
    """Write a small text file atomically."""
    # Texts can hold names of files that are not valid Unicode; those bytes become \\udc….
    content = text.encode(errors="backslashreplace")
    write_bytes(path, content, private=private, durable=durable)


def read_small(path: Path, largest: int = LARGEST_SMALL) -> bytes:
    """Return the content of a small file; a large one is damaged."""
    with explain_errors(f"read {path}"), path.open("rb") as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise StorageError(
            f"{path} is damaged: it has more than {largest // 2**20} MiB, but files of this name "
            "are small."
        )
    return content


def make_folder(path: Path) -> None:
    """Create a folder and its parents, if they do not exist."""
    with explain_errors(f"create the folder {path}"):
        missing = [each for each in (path, *path.parents) if not each.exists()]
        path.mkdir(parents=True, exist_ok=True)
    _sync_folders(each.parent for each in missing)


def prepare_folder(path: Path) -> None:
    """Create a folder, and delete partial files that a killed process left there."""
    make_folder(path)
    with explain_errors(f"delete partial files in {path}"):
        for leftover in path.glob(f"*{PARTIAL}"):
            leftover.unlink()


def remove_files(paths: Iterable[Path], *, durable: bool = True) -> None:
    """Delete files that exist; if durable, a power cut does not bring them back."""
    folders = []
    for path in paths:
        with explain_errors(f"delete {path}"):
            path.unlink(missing_ok=True)
        _report_change(path)
        folders.append(path.parent)
    if durable:
        _sync_folders(folders)


@contextmanager
def write_temporary_files() -> Iterator[None]:
    """Sync nothing that this process writes meanwhile: a power cut may lose it."""
    _temporary.append(None)
    try:
        yield
    finally:
        _temporary.pop()


@contextmanager
def follow_changes(follower: Follower) -> Iterator[None]:
    """Call a function after each change of a file by this process, in the order of the changes."""
    _followers.append(follower)
    try:
        yield
    finally:
        _followers.remove(follower)


def _report_change(path: Path) -> None:
    for follower in _followers:
        follower(path)


def sync_everything() -> None:
    """Sync all file systems, which is faster than file by file for thousands of small files."""
    if hasattr(os, "sync"):  # not on Windows
        os.sync()


def _sync_folders(folders: Iterable[Path]) -> None:
    """Sync folders, so that the names in them survive a power cut."""
    if _temporary:
        return
    for folder in dict.fromkeys(folders):
        with explain_errors(f"write to {folder}"):
            _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    """Sync a folder, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows cannot open a folder
        return
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # the folder can be written to but not read
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
    """Lock a folder against other processes; the lock ends with this process, even by kill -9."""
    if fcntl is None:  # Windows has no such locks, and no forked workers
        yield
        return
    with explain_errors(f"lock {folder}"):
        file = (folder / LOCK).open("w")
    with file:
        try:
            # Not flock: forked workers would keep it for a moment after a kill.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StorageError(
                f"Another process is using {folder}. Wait until it has finished, or stop it."
            ) from None
        yield


def is_locked(folder: Path) -> bool:
    """Whether another process has locked a folder."""
    if fcntl is None or not (folder / LOCK).exists():
        return False
    try:
        with lock_folder(folder):
            return False
    except StorageError:
        return True


@contextmanager
def explain_errors(what: str) -> Iterator[None]:
    """Turn an OSError into a StorageError: "Cannot {what}: …", with advice."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"Cannot {what}: {_reason(error)}") from error


def reason_of(error: BaseException) -> str:
    """Return the message of an error, without error numbers and Python names."""
    text = error.strerror if isinstance(error, OSError) else str(error)
    text = (text or "").removeprefix("Error while deserializing header: ")  # of safetensors
    return (text or str(error)).rstrip(".") or type(error).__name__


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"{error.strerror}. Free some space, or choose another folder (--out or --folder). "
            "Files that were saved before are intact."
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{error.strerror}. Choose a folder you may write to (--out or --folder)."
    if error.errno in (errno.ENOTDIR, errno.ENAMETOOLONG, errno.ENOENT, errno.EEXIST):
        return f"{error.strerror}. Check the path, or choose another folder (--out or --folder)."
    return f"{error.strerror or error}."
