"""Finds dataset files: local copies in a data root, or downloads with a checksum."""

from __future__ import annotations

import hashlib
import logging
import os
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coterie.errors import DataError
from coterie.storage.files import reason_of

DOWNLOAD_TIMEOUT_SECONDS = 10
SMALL_BYTES = 64 * 2**20
"""A file may always unpack to this size."""
LARGEST_RATIO = 200
"""Beyond that, unpacked data may be this many times larger than on the disk."""

# All that the standard library, numpy and Pillow raise for a damaged file.
READ_ERRORS = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    TypeError,
    SyntaxError,
    MemoryError,
    OverflowError,
    RuntimeError,
    struct.error,
    zlib.error,
    tarfile.TarError,
    zipfile.BadZipFile,
)


@dataclass(frozen=True)
class RemoteFile:
    """An official file on the web, and its checksum."""

    url: str
    md5: str
    file_name: str


def default_data_root() -> Path:
    """Return the folder of datasets: $COTERIE_DATA, else ~/.cache/coterie/data."""
    chosen = os.environ.get("COTERIE_DATA", "")
    return expand_home(chosen) if chosen else expand_home("~/.cache/coterie/data")


def expand_home(path: str | Path) -> Path:
    """Return the path with `~` replaced by the home folder."""
    return Path(os.path.expanduser(path))


def is_offline() -> bool:
    """Whether COTERIE_OFFLINE forbids downloads."""
    return os.environ.get("COTERIE_OFFLINE", "").lower() not in ("", "0", "false", "no")


def first_file(candidates: Iterable[Path]) -> Path | None:
    """Return the first candidate that is a file."""
    return next((path for path in candidates if os.path.isfile(path)), None)


def first_folder(candidates: Iterable[Path]) -> Path | None:
    """Return the first candidate that is a folder."""
    return next((path for path in candidates if os.path.isdir(path)), None)


@contextmanager
def explain_read_errors(path: Path, expected: str) -> Iterator[None]:
    """Turn the errors of an unreadable or damaged file into a DataError with its path."""
    try:
        yield
    except READ_ERRORS as problem:
        raise DataError(
            f"{path} cannot be read: {reason_of(problem)}. Expected {expected}. The file may be "
            "damaged or incomplete, or you have no permission to read it. Replace it with a "
            "complete copy."
        ) from problem


def check_unpacked(path: Path, size: int) -> None:
    """Refuse a file that unpacks to far more bytes than it has on the disk."""
    about = path.stat()
    stored = getattr(about, "st_blocks", 0) * 512 or about.st_size
    if size > SMALL_BYTES and size > LARGEST_RATIO * stored:
        raise DataError(
            f"{path} has {stored:,} bytes on the disk but would unpack to {size:,}, more than "
            f"{LARGEST_RATIO} times as many. Real data do not compress so well: the file is "
            "damaged, or made to fill the memory. Replace it, or store it uncompressed."
        )


def verify_md5(path: Path, remote: RemoteFile) -> None:
    """Refuse a local copy that differs from the official file."""
    with explain_read_errors(path, f"the official {remote.file_name}"), path.open("rb") as stream:
        found = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != remote.md5:
        raise DataError(
            f"{path} is not the official {remote.file_name}: expected md5 {remote.md5}, found "
            f"{found}. It is probably truncated or damaged. Delete it to download it again. To use "
            "it unverified, extract it into the same folder."
        )


def download_or_explain(
    title: str, remote: RemoteFile, folder: Path, looked_for: Sequence[Path]
) -> Path:
    """Download a file without a local copy; the DataError of a failure says what to do."""
    target = folder / remote.file_name
    if is_offline():
        attempt = f"{remote.url} was not downloaded, because COTERIE_OFFLINE forbids downloads."
    else:
        try:
            return _download(remote, folder)
        except (OSError, ValueError) as problem:
            attempt = f"Downloading {remote.url} failed: {reason_of(problem)}."
    places = "\n".join(f"  {path}" for path in looked_for)
    raise DataError(
        f"{title} was not found. Looked for:\n{places}\n{attempt}\n"
        f"Download {remote.url} (md5 {remote.md5}) yourself and put it at {target}, or give a "
        "folder that holds the data: --data-root DIR, or the environment variable COTERIE_DATA."
    )


def _download(remote: RemoteFile, folder: Path) -> Path:
    """Download into the folder; only a file with the right checksum gets its final name."""
    import pooch

    pooch.get_logger().setLevel(logging.ERROR)
    fetch = pooch.HTTPDownloader(
        progressbar=_ProgressBar(remote.file_name) if sys.stderr.isatty() else False,
        chunk_size=1 << 16,
        timeout=DOWNLOAD_TIMEOUT_SECONDS,
    )
    # An absolute folder, because pooch takes a relative one as part of its own cache.
    pooch.retrieve(
        url=remote.url,
        known_hash=f"md5:{remote.md5}",
        fname=remote.file_name,
        path=folder.absolute(),
        downloader=fetch,
    )
    return folder / remote.file_name


class _ProgressBar:
    """A rich progress bar with the four names that pooch uses."""

    def __init__(self, file_name: str) -> None:
        from rich.console import Console
        from rich.progress import DownloadColumn, Progress

        columns = (*Progress.get_default_columns(), DownloadColumn())
        self.total: int = 0
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(file_name, total=None)

    def update(self, amount: int) -> None:
        self._progress.start()
        self._progress.update(self._task, advance=amount, total=self.total or None)

    def reset(self) -> None:
        self._progress.reset(self._task)

    def close(self) -> None:
        self._progress.stop()
