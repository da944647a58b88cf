"""Loads a user's files as datasets of peers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from coterie.data.own_files.divide_rows import divide_at_random, divide_by_time, keep_division
from coterie.data.own_files.find_files import check_digest, digest_of, find_path
from coterie.data.own_files.owned_peers import OwnedPeers
from coterie.data.own_files.owned_samples import OwnedSamples
from coterie.data.own_files.read_arrays import read_arrays
from coterie.data.own_files.read_images import image_files, read_images
from coterie.data.own_files.read_play import read_play
from coterie.data.own_files.read_table import read_table
from coterie.data.own_files.settings import (
    AnyFile,
    ArrayFile,
    ImageFolder,
    PlayText,
    TableFile,
)
from coterie.tasks import TaskSettings

MOST_WINDOWS = 10
LEAST_IN_WINDOW = 10
"""On the command line, peers with fewer rows in some window of time are left out."""
ROWS_PER_WINDOW = 2 * LEAST_IN_WINDOW
"""How many rows a window should have in the middle peer."""
_IRRELEVANT = {
    "path": Path(),
    "sha256": None,
    "windows": 2,
    "min_rows": 5,
    "most_training": None,
}


def load_own_files(
    settings: AnyFile,
    root: Path | None,
    *,
    rounds: int,
    seed: int,
    task: TaskSettings | None = None,
) -> OwnedPeers:
    """Return the peers of a file or folder; refuse files that have changed since a run began."""
    samples = read_own_files(settings, root)
    return divide_own_samples(samples, settings, rounds=rounds, seed=seed, task=task)


def read_own_files(settings: AnyFile, root: Path | None) -> OwnedSamples:
    """Return all samples of a file or folder; refuse files that have changed since a run began."""
    path = find_path(settings.path, root)
    digest = digest_of_own(settings, path)
    check_digest(path, digest, settings.sha256)
    return _read(settings, path, digest)


def divide_own_samples(
    samples: OwnedSamples,
    settings: AnyFile,
    *,
    rounds: int,
    seed: int,
    task: TaskSettings | None = None,
) -> OwnedPeers:
    """Return the peers of samples, each with its rows for training, validation and test."""
    if isinstance(settings, PlayText):
        division = keep_division(samples)
    elif isinstance(settings, TableFile) and settings.time:
        division = divide_by_time(samples, settings.windows, settings.min_rows)
    else:
        division = divide_at_random(samples, settings.min_rows, seed, settings.most_training)
    return OwnedPeers(samples, division, rounds=rounds, task=task)


def digest_of_own(settings: AnyFile, path: Path) -> str:
    """Return the SHA-256 of the file, or of all images and their names."""
    if isinstance(settings, ImageFolder):
        return digest_of(image_files(path), path)
    return digest_of([path])


def suggest_windows(settings: TableFile, path: Path) -> int:
    """Return the number of windows of time in which most peers have enough rows, at most 10."""
    samples = _read(settings, path, digest_of_own(settings, path))
    rows = np.median(np.bincount(samples.owners))
    return int(np.clip(rows // ROWS_PER_WINDOW, 2, MOST_WINDOWS))


def _read(settings: AnyFile, path: Path, digest: str) -> OwnedSamples:
    match settings:
        case TableFile():
            # Only what the columns mean: the rows are the same for any number of windows.
            return read_table(path, digest, settings.model_copy(update=_IRRELEVANT))
        case ArrayFile():
            return read_arrays(path)
        case PlayText():
            return read_play(
                path, digest, settings.model_copy(update={"path": Path(), "sha256": None})
            )
        case ImageFolder():
            return read_images(path, digest, settings.image_size)
