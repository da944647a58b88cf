"""PACS: photos, art paintings, cartoons and sketches of seven classes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coterie.data.holdout import stratified_holdout
from coterie.data.labelled_dataset import Dataset
from coterie.data.sources import explain_read_errors, first_folder
from coterie.errors import ConfigError, DataError, suggest
from coterie.randomness import generator

DOMAINS = ("photo", "art_painting", "cartoon", "sketch")
CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
HOW_TO_GET = (
    "PACS has no official download link: get it from its authors at "
    "https://domaingeneralization.github.io and put its pictures into <data root>/pacs/PACS/"
    "<domain>/<class>/*.jpg"
)

_SIZE = 227
_FOLDERS = ("pacs/PACS", "PACS", "pacs", "pacs_data/pacs_data")
_SUFFIXES = (".jpg", ".jpeg", ".png")


def locate_pacs(domain: str, root: Path) -> Path | None:
    """Return the local folder of one domain, or None."""
    return first_folder(_candidates(domain, root))


def read_pacs(root: Path, domain: str) -> Dataset:
    """Return one domain, with a fixed fifth of each class for test; images (n, 3, 227, 227)."""
    if domain not in DOMAINS:
        raise ConfigError(f"PACS has no domain '{domain}'.{suggest(domain, DOMAINS)}")
    folder = locate_pacs(domain, root)
    if folder is None:
        places = "\n".join(f"  {path}" for path in _candidates(domain, root))
        raise DataError(
            f"PACS ({domain}) was not found. Looked for the folders:\n{places}\n{HOW_TO_GET}, or "
            "give a folder that holds it: --data-root DIR, or the environment variable "
            "COTERIE_DATA."
        )
    paths, labels = _list_pictures(folder)
    # Split before decoding, so that each picture is in memory once.
    train, test = stratified_holdout(labels, generator(0, "pacs-test", domain))
    return Dataset(
        name=f"pacs-{domain}",
        inputs=_decode_pictures([paths[index] for index in train]),
        targets=labels[train],
        test_inputs=_decode_pictures([paths[index] for index in test]),
        test_targets=labels[test],
        classes=CLASSES,
    )


def _candidates(domain: str, root: Path) -> list[Path]:
    return [root / folder / domain for folder in _FOLDERS]


def _list_pictures(folder: Path) -> tuple[list[Path], npt.NDArray[np.int64]]:
    """Return the sorted pictures of all classes, and their labels (n,)."""
    paths: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(CLASSES):
        with explain_read_errors(folder / name, f"a folder with the pictures of class '{name}'"):
            files = sorted(path for path in (folder / name).iterdir() if _is_picture(path))
        if len(files) < 2:
            raise DataError(
                f"{folder / name} has {len(files)} picture(s) (.jpg or .png); at least two are "
                f"needed, one for training and one for test. {HOW_TO_GET}."
            )
        paths += files
        labels += [label] * len(files)
    return paths, np.array(labels, dtype=np.int64)


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in _SUFFIXES and not path.name.startswith(".")


def _decode_pictures(paths: Sequence[Path]) -> npt.NDArray[np.uint8]:
    """Return the pixels of pictures, (n, 3, 227, 227), decoded in threads."""
    images = np.empty((len(paths), 3, _SIZE, _SIZE), dtype=np.uint8)

    def decode(index: int) -> None:
        images[index] = _decode_picture(paths[index]).transpose(2, 0, 1)

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for _ in pool.map(decode, range(len(paths))):
            pass
    return images


def _decode_picture(path: Path) -> npt.NDArray[np.uint8]:
    from PIL import Image

    expected = f"a {_SIZE}×{_SIZE} picture"
    try:
        with (
            explain_read_errors(path, expected),
            Image.open(path, formats=("JPEG", "PNG")) as picture,
        ):
            # Pillow reads the size before the pixels, so decompression bombs are refused in time.
            if picture.size != (_SIZE, _SIZE):
                width, height = picture.size
                raise DataError(
                    f"{path} has {width}×{height} pixels; expected {expected} as in the official "
                    "PACS. Coterie does not resize pictures: replace the file."
                )
            return np.asarray(picture.convert("RGB"))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as problem:
        raise DataError(f"{path} is too large: {problem} Expected {expected}.") from problem
