"""Loads a user's files as datasets of peers."""

from __future__ import annotations

from pathlib import Path

from coterie.data.own_files.divide_rows import LEAST_IN_WINDOW, divide_at_random, divide_by_time
from coterie.data.own_files.find_files import check_digest, digest_of, find_path
from coterie.data.own_files.owned_peers import OwnedPeers
from coterie.data.own_files.owned_samples import OwnedSamples
from coterie.data.own_files.read_arrays import read_arrays
from coterie.data.own_files.read_images import image_files, read_images
from coterie.data.own_files.read_table import read_table
from coterie.data.own_files.settings import ArrayFile, ImageFolder, TableFile


def load_own_files(
    settings: TableFile | ArrayFile | ImageFolder, root: Path | None, *, rounds: int, seed: int
) -> OwnedPeers:
    """Return the peers of a file or folder; refuse files that have changed since a run began."""
    path = find_path(settings.path, root)
    digest = digest_of_own(settings, path)
    check_digest(path, digest, settings.sha256)
    samples = _read(settings, path, digest)
    if isinstance(settings, TableFile) and settings.time:
        least = min(settings.min_rows, LEAST_IN_WINDOW)
        return OwnedPeers(samples, divide_by_time(samples, settings.windows, least), rounds=rounds)
    return OwnedPeers(samples, divide_at_random(samples, settings.min_rows, seed), rounds=rounds)


def digest_of_own(settings: TableFile | ArrayFile | ImageFolder, path: Path) -> str:
    """Return the SHA-256 of the file, or of all images and their names."""
    if isinstance(settings, ImageFolder):
        return digest_of(image_files(path), path)
    return digest_of([path])


def _read(settings: TableFile | ArrayFile | ImageFolder, path: Path, digest: str) -> OwnedSamples:
    match settings:
        case TableFile():
            return read_table(path, digest, settings)
        case ArrayFile():
            return read_arrays(path)
        case ImageFolder():
            return read_images(path, digest, settings.image_size)
