"""Finds a user's file, and checks that it is still the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from coterie.data.sources import default_data_root, explain_read_errors
from coterie.errors import DataError

LARGEST_READ = 1 << 20
"""Bytes that are read at once."""


def find_path(path: Path, root: Path | None) -> Path:
    """Return where a file or folder is: at its path, or below the data root."""
    folder = root or default_data_root()
    candidates = [path] if path.is_absolute() else [folder / path]
    candidates.append(folder / path.name)
    for candidate in candidates:
        if candidate.exists():
            return candidate
    places = " or ".join(str(candidate) for candidate in dict.fromkeys(candidates))
    raise DataError(
        f"There is no {places}. Put the file there, or name the folder that holds it: "
        "--data-root DIR."
    )


def digest_of(files: Iterable[Path], base: Path | None = None) -> str:
    """Return the SHA-256 of files; with a base folder, of their names too."""
    digest = hashlib.sha256()
    for path in files:
        if base is not None:
            digest.update(path.relative_to(base).as_posix().encode() + b"\0")
        with explain_read_errors(path, "a file that can be read"), path.open("rb") as stream:
            while part := stream.read(LARGEST_READ):
                digest.update(part)
    return digest.hexdigest()


def check_digest(path: Path, found: str, expected: str | None) -> None:
    """Refuse files that are not those that a run was created with."""
    if expected is not None and found != expected:
        raise DataError(
            f"{path} has changed since the run was created: its SHA-256 is {found}, and "
            f"{expected} was expected. Restore the file, or start a new run with this one."
        )
