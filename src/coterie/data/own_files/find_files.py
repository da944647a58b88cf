"""Finds a user's file, and checks that it is still the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from coterie.data.sources import default_data_root, explain_read_errors
from coterie.errors import DataError

KNOWN_FILES = {
    "wisdm.csv": "It has the transformed data of WISDM v1.1 (Fordham University, "
    "https://www.cis.fordham.edu/wisdm/dataset.php): user, activity and 43 features.",
    "beijing-air.csv.gz": "It has the twelve files of Beijing Multi-Site Air Quality "
    "(https://archive.ics.uci.edu/dataset/501) in one table, with the column station.",
    "heart.csv": "It has the four processed files of Heart Disease "
    "(https://archive.ics.uci.edu/dataset/45) in one table, with the columns hospital and disease.",
    "school.csv": "It has the exam scores of the Inner London Education Authority: school, score "
    "and 28 features.",
    "shakespeare.txt": "Download "
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt.",
    "spoken-digits.npz": "It has inputs, labels and peers: log-mel spectrograms of the Free Spoken "
    "Digit Dataset (https://github.com/Jakobovski/free-spoken-digit-dataset).",
}
"""Where the data of presets come from, by the names of their files."""
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
    known = KNOWN_FILES.get(path.name)
    raise DataError(
        f"There is no {places}. Put the file there, or name the folder that holds it: "
        f"--data-root DIR.{f' {known}' if known else ''}"
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
            f"{path} has changed, or is another version: its SHA-256 is {found}, but these "
            f"settings are for {expected}. Restore that file, or start a new run on this one."
        )
