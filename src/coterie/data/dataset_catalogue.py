"""The catalogue of datasets: their names, where their files are, and how to load them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from coterie.data.cifar import CIFAR10, CIFAR100, Cifar, locate_cifar, read_cifar
from coterie.data.digits import read_digits
from coterie.data.idx import FASHION_MNIST, MNIST, IdxSource, locate_idx, read_idx_dataset
from coterie.data.labelled_dataset import Dataset
from coterie.data.npz import read_npz
from coterie.data.pacs import HOW_TO_GET, locate_pacs, read_pacs
from coterie.data.sources import default_data_root, expand_home, first_file
from coterie.errors import ConfigError, DataError, suggest

_BUNDLED = "bundled with scikit-learn"


@dataclass(frozen=True)
class DatasetEntry:
    """One dataset: `read` loads it from a data root, `locate` returns where its files are."""

    title: str
    read: Callable[[Path], Dataset]
    locate: Callable[[Path], str | None]
    how_to_get: str


@dataclass(frozen=True)
class DatasetStatus:
    """Whether a dataset is on this computer; `where` is empty if it is not."""

    name: str
    title: str
    available: bool
    where: str
    how_to_get: str


def _text(place: Path | None) -> str | None:
    return None if place is None else str(place)


def _cifar_entry(cifar: Cifar, title: str) -> DatasetEntry:
    return DatasetEntry(
        title=title,
        read=partial(read_cifar, cifar),
        locate=lambda root: _text(locate_cifar(cifar, root)),
        how_to_get=f"downloaded on first use from {cifar.binary.archive.url}",
    )


def _idx_entry(source: IdxSource, title: str) -> DatasetEntry:
    base = source.train_images.url.rpartition("/")[0]
    return DatasetEntry(
        title=title,
        read=partial(read_idx_dataset, source),
        locate=lambda root: _text(locate_idx(source, root)),
        how_to_get=f"downloaded on first use from {base}/",
    )


def _pacs_entry(domain: str, title: str) -> DatasetEntry:
    return DatasetEntry(
        title=title,
        read=partial(read_pacs, domain=domain),
        locate=lambda root: _text(locate_pacs(domain, root)),
        how_to_get=HOW_TO_GET,
    )


DATASETS: dict[str, DatasetEntry] = {
    "digits": DatasetEntry(
        title="Handwritten digits, 8×8 grey, 10 classes",
        read=lambda root: read_digits(),
        locate=lambda root: _BUNDLED,
        how_to_get=_BUNDLED,
    ),
    "cifar10": _cifar_entry(CIFAR10, "CIFAR-10, 32×32 colour, 10 classes"),
    "cifar100": _cifar_entry(CIFAR100, "CIFAR-100, 32×32 colour, 100 classes"),
    "mnist": _idx_entry(MNIST, "MNIST digits, 28×28 grey, 10 classes"),
    "fashion-mnist": _idx_entry(FASHION_MNIST, "Fashion-MNIST clothes, 28×28 grey, 10 classes"),
    "pacs-photo": _pacs_entry("photo", "PACS photos, 227×227 colour, 7 classes"),
    "pacs-art_painting": _pacs_entry(
        "art_painting", "PACS art paintings, 227×227 colour, 7 classes"
    ),
    "pacs-cartoon": _pacs_entry("cartoon", "PACS cartoons, 227×227 colour, 7 classes"),
    "pacs-sketch": _pacs_entry("sketch", "PACS sketches, 227×227 colour, 7 classes"),
}


def load_dataset(name: str, root: Path | None = None) -> Dataset:
    """Return a dataset of the catalogue or an .npz file; the last four stay in memory."""
    if not _is_npz(name):
        _entry(name)
    return _cached(name, (root or default_data_root()).absolute(), Path.cwd())


def describe(name: str, root: Path | None = None) -> DatasetStatus:
    """Return whether a dataset is on this computer, and where, without reading it."""
    root = (root or default_data_root()).absolute()
    if _is_npz(name):
        place = _text(first_file(_npz_candidates(name, root)))
        title, how_to_get = "Your own arrays", "a file that you write with numpy.savez"
    else:
        entry = _entry(name)
        place = entry.locate(root)
        title, how_to_get = entry.title, entry.how_to_get
    return DatasetStatus(name, title, place is not None, place or "", how_to_get)


# The working folder is part of the key because .npz names may be relative to it.
@lru_cache(maxsize=4)
def _cached(name: str, root: Path, working_folder: Path) -> Dataset:
    if not _is_npz(name):
        return DATASETS[name].read(root)
    candidates = _npz_candidates(name, root)
    path = first_file(candidates)
    if path is None:
        places = "\n".join(f"  {candidate.absolute()}" for candidate in candidates)
        raise DataError(
            f"{name} was not found. Looked for:\n{places}\nCheck the name, or give the folder that "
            "holds it: --data-root DIR, or the environment variable COTERIE_DATA."
        )
    return read_npz(path)


def _is_npz(name: str) -> bool:
    return name.endswith(".npz")


def _npz_candidates(name: str, root: Path) -> tuple[Path, ...]:
    path = expand_home(name)
    return (path,) if path.is_absolute() else (path, root / path)


def _entry(name: str) -> DatasetEntry:
    if name not in DATASETS:
        raise ConfigError(
            f"There is no dataset called '{name}'.{suggest(name, DATASETS)} "
            "For your own data, give the path of a file that ends in .npz."
        )
    return DATASETS[name]
