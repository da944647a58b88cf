"""Reads a .npz file with the peer of each sample."""

from __future__ import annotations

from pathlib import Path

from coterie.data.images import normalise
from coterie.data.labelled_dataset import check_samples
from coterie.data.npz import as_inputs, as_targets, load_arrays, name_classes
from coterie.data.own_files.owned_samples import OwnedSamples, number_owners
from coterie.errors import DataError

INPUTS, LABELS, PEERS = ("inputs", "images", "x"), ("labels", "targets", "y"), ("peers",)
_CLASSES = "classes"


def read_arrays(path: Path) -> OwnedSamples:
    """Return the samples of a file with `inputs`, `labels` and `peers`, one of each per sample.

    Images of uint8 are scaled to [-1, 1]; other inputs stay as they are.
    """
    arrays = load_arrays(
        path, (*INPUTS, *LABELS, *PEERS, _CLASSES), required=(INPUTS, LABELS, PEERS)
    )
    inputs, labels, peers = (
        next(arrays[name] for name in names if name in arrays) for names in (INPUTS, LABELS, PEERS)
    )
    inputs = as_inputs(inputs, f"{path}, inputs")
    targets = as_targets(labels, f"{path}, labels")
    check_samples(str(path), inputs, targets)
    if peers.shape != targets.shape or peers.dtype.kind not in "iuUS":
        raise DataError(
            f"{path}: 'peers' has shape {peers.shape} and type {peers.dtype}, but "
            f"({len(targets)},) whole numbers or names are needed: the peer of each sample."
        )
    owners, names = number_owners(peers)
    kept = {_CLASSES: arrays[_CLASSES]} if _CLASSES in arrays else {}
    classes = name_classes(kept, targets, targets, path)
    if classes and targets.max() >= len(classes):
        raise DataError(
            f"{path}: a label is {targets.max()}, but 'classes' has only {len(classes)} names."
        )
    return OwnedSamples(str(path), normalise(inputs), targets, classes, owners, names)
