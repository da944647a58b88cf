"""Reads a user's own dataset: numpy arrays in one .npz file."""

from __future__ import annotations

import difflib
import tokenize
import zipfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.data.holdout import random_holdout, stratified_holdout
from coterie.data.images import normalise
from coterie.data.labelled_dataset import Dataset, Inputs, Targets, check_samples
from coterie.data.peer_arrays import PeerData
from coterie.data.sources import check_unpacked, explain_read_errors
from coterie.errors import DataError
from coterie.randomness import generator

Arrays = dict[str, npt.NDArray[Any]]

_TRAIN_INPUTS = ("train_images", "x_train", "train_inputs")
_TRAIN_TARGETS = ("train_labels", "y_train", "train_targets")
_VALIDATION_INPUTS = ("validation_images", "x_validation", "validation_inputs")
_VALIDATION_TARGETS = ("validation_labels", "y_validation", "validation_targets")
_TEST_INPUTS = ("test_images", "x_test", "test_inputs")
_TEST_TARGETS = ("test_labels", "y_test", "test_targets")
_CLASSES = ("classes",)
_CHANNELS = (1, 3)
_MOST_CLASSES = 100_000
_ARRAY_MAGIC = b"\x93NUMPY"


def read_npz(path: Path) -> Dataset:
    """Return the dataset in a file; without test arrays, a fifth is held out for test."""
    arrays = _load(path)
    inputs = as_inputs(_required(arrays, _TRAIN_INPUTS, path), f"{path}, training inputs")
    targets = as_targets(_required(arrays, _TRAIN_TARGETS, path), f"{path}, training targets")
    if len(inputs) != len(targets):
        raise DataError(f"{path}: {len(inputs)} training inputs but {len(targets)} targets.")
    # Before the hold-out, so that errors number samples as in the file.
    check_samples(f"{path}, training data", inputs, targets)
    if any(key in arrays for key in (*_TEST_INPUTS, *_TEST_TARGETS)):
        test_inputs = as_inputs(_required(arrays, _TEST_INPUTS, path), f"{path}, test inputs")
        test_targets = as_targets(_required(arrays, _TEST_TARGETS, path), f"{path}, test targets")
    else:
        train, test = _holdout(targets, "npz-test", path.name)
        test_inputs, test_targets = inputs[test], targets[test]
        inputs, targets = inputs[train], targets[train]
    if targets.dtype != test_targets.dtype or inputs.dtype != test_inputs.dtype:
        raise DataError(
            f"{path}: training data has {inputs.dtype} inputs and {targets.dtype} targets, but "
            f"test data has {test_inputs.dtype} inputs and {test_targets.dtype} targets. Store "
            "both parts with the same types."
        )
    classes = name_classes(arrays, targets, test_targets, path)
    return Dataset(path.stem, inputs, targets, test_inputs, test_targets, classes)


def read_peer(path: Path) -> PeerData:
    """Return one peer's data; without validation arrays, a fifth of the training data is used."""
    dataset = read_npz(path)
    arrays = _load(path)
    inputs, targets = dataset.inputs, dataset.targets
    if any(key in arrays for key in (*_VALIDATION_INPUTS, *_VALIDATION_TARGETS)):
        where = f"{path}, validation"
        held_out = (
            as_inputs(_required(arrays, _VALIDATION_INPUTS, path), f"{where} inputs"),
            as_targets(_required(arrays, _VALIDATION_TARGETS, path), f"{where} targets"),
        )
    else:
        train, validation = _holdout(targets, "npz-validation", path.name)
        held_out = inputs[validation], targets[validation]
        inputs, targets = inputs[train], targets[train]
    return PeerData(
        train=(normalise(inputs), targets),
        validation=(normalise(held_out[0]), held_out[1]),
        test=(normalise(dataset.test_inputs), dataset.test_targets),
    )


def _load(path: Path) -> Arrays:
    """Return the arrays of a dataset; others are not read."""
    accepted = {
        *(*_TRAIN_INPUTS, *_TRAIN_TARGETS, *_VALIDATION_INPUTS, *_VALIDATION_TARGETS),
        *(*_TEST_INPUTS, *_TEST_TARGETS, *_CLASSES),
    }
    return load_arrays(path, accepted, (_TRAIN_INPUTS, _TRAIN_TARGETS))


def load_arrays(
    path: Path, accepted: Collection[str], required: Sequence[tuple[str, ...]]
) -> Arrays:
    """Return the accepted arrays of a file; others are not read.

    Of each group of names in `required` the file must have one.
    """
    try:
        expected = "a .npz archive of plain (not object) numpy arrays"
        # Opened here, because numpy leaves a damaged archive open.
        with explain_read_errors(path, expected), path.open("rb") as stream:
            # Checked here, because numpy treats a file that is not an archive as a pickle.
            if not zipfile.is_zipfile(stream):
                stream.seek(0)
                is_array = stream.read(len(_ARRAY_MAGIC)) == _ARRAY_MAGIC
                raise ValueError(f"it is {'a single array, not' if is_array else 'not'} an archive")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as archive:
                wanted = [name for name in archive.files if name in accepted]
                sizes = {each.filename: each.file_size for each in archive.zip.infolist()}
                check_unpacked(path, sum(sizes.get(f"{name}.npy", 0) for name in wanted))
                arrays = {name: archive[name] for name in wanted}
                _check_required(arrays, required, archive.files, path)
    except tokenize.TokenError as problem:
        raise DataError(f"{path} is damaged: an array's header is malformed.") from problem
    for name, array in arrays.items():
        # For a member that is not an array, numpy returns its bytes.
        if not isinstance(array, np.ndarray):
            raise DataError(
                f"{path}: '{name}' is not a numpy array. Write the file with numpy.savez."
            )
    return arrays


def _check_required(
    arrays: Arrays, required: Sequence[tuple[str, ...]], found: Collection[str], path: Path
) -> None:
    for accepted in required:
        if not any(name in arrays for name in accepted):
            raise DataError(
                f"{path} has no array named {' or '.join(accepted)}; one of them is required."
                f"{_similar(accepted, found)}"
            )


def _similar(accepted: tuple[str, ...], found: Collection[str]) -> str:
    """Return the name that the user may have meant, and all names in the file."""
    others = {*_TRAIN_INPUTS, *_TRAIN_TARGETS, *_TEST_INPUTS, *_TEST_TARGETS, *_CLASSES}
    free = [name for name in found if name not in others]
    close = [name for name in free if difflib.get_close_matches(name, accepted, n=1)]
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"{hint} It has: {', '.join(sorted(found))}." if found else " It is empty."


def _required(arrays: Arrays, accepted: tuple[str, ...], path: Path) -> npt.NDArray[Any]:
    for name in accepted:
        if name in arrays:
            return arrays[name]
    raise DataError(
        f"{path} has no array named {' or '.join(accepted)}. It has: {', '.join(sorted(arrays))}. "
        "Give both inputs and targets of a part, or neither."
    )


def as_inputs(array: npt.NDArray[Any], where: str) -> Inputs:
    """Return images as (n, C, H, W); other float samples keep their shape."""
    is_uint8 = array.dtype == np.uint8
    if not is_uint8 and array.dtype.kind != "f":
        raise DataError(
            f"{where} are {array.dtype}; expected uint8 images or floats. Convert other numbers "
            "with array.astype('float32')."
        )
    if array.ndim == 3:
        array = array[:, np.newaxis]
    elif array.ndim == 4 and array.shape[1] not in _CHANNELS and array.shape[3] in _CHANNELS:
        array = array.transpose(0, 3, 1, 2)
    elif array.ndim < 2 or (is_uint8 and (array.ndim != 4 or array.shape[1] not in _CHANNELS)):
        raise DataError(
            f"{where} have shape {array.shape}; expected images as (n, H, W), (n, H, W, C) or "
            "(n, C, H, W) with 1 or 3 channels, or float samples as (n, d, ...)."
        )
    return np.ascontiguousarray(array) if is_uint8 else _float32(array)


def as_targets(array: npt.NDArray[Any], where: str) -> Targets:
    """Return labels or values (n,)."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{where} have shape {array.shape}; expected one number per sample, (n,).")
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        return _float32(array)
    raise DataError(
        f"{where} are {array.dtype}; expected whole numbers (classes) or floats (values). To "
        "number classes: np.unique(labels, return_inverse=True)[1]."
    )


def _float32(array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    # A value that is too large becomes infinite; `check_samples` then reports its sample.
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, dtype=np.float32)


def _holdout(
    targets: Targets, purpose: str, name: str
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    random = generator(0, purpose, name)
    if targets.dtype == np.int64:
        return stratified_holdout(targets.astype(np.int64), random)
    return random_holdout(len(targets), random)


def name_classes(
    arrays: Arrays, targets: Targets, test_targets: Targets, path: Path
) -> tuple[str, ...]:
    listed = arrays.get("classes")
    if targets.dtype != np.int64:
        if listed is not None:
            raise DataError(
                f"{path} has an array 'classes', but its targets are floats, not class numbers. "
                "Remove the array, or store the targets as whole numbers."
            )
        return ()
    if listed is None:
        highest = max(int(targets.max(initial=0)), int(test_targets.max(initial=0)))
        if highest >= _MOST_CLASSES:
            raise DataError(
                f"{path}: the highest label is {highest}, which is too many classes. Number the "
                "classes from 0, or store the targets as floats for regression."
            )
        return tuple(str(number) for number in range(highest + 1))
    if listed.ndim != 1 or listed.size == 0 or listed.dtype.kind not in "US":
        raise DataError(f"{path}: 'classes' must be a one-dimensional array of names.")
    try:
        return tuple(_as_text(name) for name in listed.tolist())
    except (SystemError, ValueError):
        raise DataError(f"{path} is damaged: names in 'classes' are not text.") from None


def _as_text(name: str | bytes) -> str:
    return name.decode("latin-1") if isinstance(name, bytes) else name
