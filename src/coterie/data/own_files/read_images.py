"""Reads a folder of images: FOLDER/PEER/CLASS/IMAGE."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from coterie.data.images import normalise
from coterie.data.own_files.owned_samples import OwnedSamples, number_owners
from coterie.data.sources import explain_read_errors
from coterie.errors import DataError

ENDINGS = (".png", ".jpg", ".jpeg")
GREY_MODES = ("1", "L", "LA", "I", "I;16", "F")


def image_files(folder: Path) -> list[Path]:
    """Return the images of all peers, in the order of their paths."""
    with explain_read_errors(folder, "a folder PEER/CLASS/IMAGE.png"):
        found = list(_images(folder))
    if not found:
        raise DataError(
            f"{folder} has no images. Expected {folder.name}/PEER/CLASS/IMAGE.png or .jpg: a "
            "folder for each peer, and in it a folder for each class."
        )
    return sorted(found, key=lambda path: path.relative_to(folder).parts)


def has_images(folder: Path) -> bool:
    """Whether a folder has images of peers."""
    return next(_images(folder), None) is not None


def _images(folder: Path) -> Iterator[Path]:
    return (path for path in folder.glob("*/*/*") if path.suffix.lower() in ENDINGS)


@lru_cache(maxsize=1)
def read_images(folder: Path, digest: str, size: int) -> OwnedSamples:
    """Return all images, resized to size × size; grey if all are, otherwise RGB.

    The last folder is kept, because several runs use it; the digest tells whether it has changed.
    """
    files = image_files(folder)
    images = [_read(path, size) for path in files]
    is_grey = all(image.ndim == 2 for image in images)
    pixels = np.stack([image[None] if is_grey else _coloured(image) for image in images])
    classes, targets = np.unique([path.parent.name for path in files], return_inverse=True)
    if len(classes) < 2:
        raise DataError(
            f"{folder} has only one class, '{classes[0]}'. Expected PEER/CLASS/IMAGE.png with at "
            "least two names of classes."
        )
    owners, names = number_owners([path.parent.parent.name for path in files])
    return OwnedSamples(
        where=str(folder),
        inputs=normalise(pixels),
        targets=targets.reshape(-1).astype(np.int64),
        classes=tuple(str(name) for name in classes),
        owners=owners,
        peer_names=names,
    )


def _read(path: Path, size: int) -> npt.NDArray[np.uint8]:
    """Return an image as (size, size) if it is grey, else as (size, size, 3)."""
    with explain_read_errors(path, "a PNG or JPEG image"), Image.open(path) as image:
        mode = "L" if image.mode in GREY_MODES else "RGB"
        resized = image.convert(mode).resize((size, size), Image.Resampling.BILINEAR)
        return np.asarray(resized, dtype=np.uint8)


def _coloured(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return an image as (3, H, W)."""
    stacked = np.repeat(image[:, :, None], 3, axis=2) if image.ndim == 2 else image
    return stacked.transpose(2, 0, 1)
