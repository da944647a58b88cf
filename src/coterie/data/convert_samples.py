"""Converts what users have to arrays: numpy, torch, pandas, torch datasets, Hugging Face datasets.

Inputs become float32 or int64, targets int64 or float32. Nothing of another library is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.data.pools import Array, ModelInputs, list_inputs, map_inputs
from coterie.errors import DataError

LABEL_COLUMNS = ("labels", "label", "targets", "target", "y")
"""The names of targets in datasets with named columns; the first that exists is used."""


@dataclass(frozen=True)
class ConvertedPart:
    """The inputs and targets of a part of a peer's data, as arrays."""

    inputs: ModelInputs
    targets: Array
    had_unequal_lengths: bool = False
    """Whether sequences of unequal lengths were padded with zeros."""


def convert_part(where: str, part: Any) -> ConvertedPart:
    """Return a part of a peer's data as arrays; `where` names it in errors."""
    if _is_table(part):
        inputs, targets = _columns(where, part)
    elif isinstance(part, tuple | list) and len(part) == 2:
        inputs, targets = part
    elif hasattr(part, "__getitem__") and hasattr(part, "__len__") and not hasattr(part, "shape"):
        inputs, targets = _collected(where, part)
    else:
        shape = getattr(part, "shape", None)
        given = f"array of shape {tuple(shape)}" if shape is not None else type(part).__name__
        raise DataError(
            f"{where} is one {given}. Give a pair (inputs, targets), or a dataset of such pairs."
        )
    each_input = list(inputs.values()) if isinstance(inputs, Mapping) else list_inputs(inputs)
    unequal = any(_has_unequal_lengths(each) for each in each_input)
    return ConvertedPart(convert_inputs(where, inputs), _targets(where, targets), unequal)


def convert_inputs(where: str, inputs: Any) -> ModelInputs:
    """Return inputs as arrays; `where` names them in errors."""
    if isinstance(inputs, Mapping):
        inputs = {str(name): values for name, values in inputs.items()}
    elif hasattr(inputs, "columns") and hasattr(inputs, "to_numpy"):
        inputs = _frame(where, inputs)
    converted = map_inputs(lambda each: _numbers(where, each), inputs)
    counts = {len(each) for each in list_inputs(converted)}
    if len(counts) > 1:
        raise DataError(f"{where}: the inputs have {sorted(counts)} samples. Give equally many.")
    return converted


def _is_table(part: Any) -> bool:
    """Whether something has named columns, as datasets of Hugging Face have."""
    return hasattr(part, "column_names") and hasattr(part, "features")


def _columns(where: str, part: Any) -> tuple[Any, Any]:
    """Return the inputs by name, and the targets, of a dataset with named columns."""
    names = list(part.column_names)
    label = next((name for name in LABEL_COLUMNS if name in names), None)
    if label is None:
        raise DataError(
            f"{where}: no column is named {' or '.join(LABEL_COLUMNS)}; the columns are "
            f"{', '.join(names)}. Rename the column with the targets to label."
        )
    columns = {name: part[name][:] for name in names if name != label}
    texts = [name for name, values in columns.items() if _is_text(values)]
    inputs = {name: values for name, values in columns.items() if name not in texts}
    if not inputs:
        raise DataError(
            f"{where}: the columns {', '.join(texts)} are text. Turn text into numbers first, such "
            "as input_ids by a tokenizer."
        )
    return (next(iter(inputs.values())) if len(inputs) == 1 else inputs), part[label][:]


def _is_text(values: Any) -> bool:
    return len(values) > 0 and isinstance(values[0], str)


def _collected(where: str, part: Any) -> tuple[Any, Any]:
    """Return the samples of a torch dataset, whose items are pairs, or dicts with a label."""
    if len(part) == 0:
        raise DataError(f"{where}: there are no samples.")
    items = [part[number] for number in range(len(part))]
    first = items[0]
    if isinstance(first, Mapping):
        label = next((name for name in LABEL_COLUMNS if name in first), None)
        if label is None:
            raise DataError(
                f"{where}: its items have {', '.join(map(str, first))}, but none of "
                f"{', '.join(LABEL_COLUMNS)} for the target."
            )
        inputs = {name: [item[name] for item in items] for name in first if name != label}
        only = next(iter(inputs.values())) if len(inputs) == 1 else inputs
        return only, [item[label] for item in items]
    if not isinstance(first, tuple | list) or len(first) != 2:
        raise DataError(
            f"{where}: each item must be a pair (input, target), or a dict with a label, but the "
            f"first is a {type(first).__name__}."
        )
    samples, targets = [item[0] for item in items], [item[1] for item in items]
    if isinstance(samples[0], Mapping):
        return {name: [sample[name] for sample in samples] for name in samples[0]}, targets
    if isinstance(samples[0], tuple):
        return tuple(list(each) for each in zip(*samples, strict=True)), targets
    return samples, targets


def _frame(where: str, frame: Any) -> Array:
    """Return the columns of a data frame as numbers, (n, columns)."""
    text = [str(name) for name in frame.columns if frame[name].dtype.kind not in "biuf"]
    if text:
        raise DataError(
            f"{where}: the columns {', '.join(text[:5])} are not numbers. Encode them, for example "
            "with pandas.get_dummies, or save the table and type: coterie run FILE.csv --peers-by …"
        )
    return np.asarray(frame.to_numpy(dtype=np.float64))


def _numbers(where: str, values: Any) -> Array:
    """Return inputs as float32, or as int64 if they are whole numbers but no bytes."""
    array = _as_array(where, values)
    if array.ndim == 0:
        raise DataError(f"{where}: the inputs are a single number, not an array of samples.")
    if array.dtype.kind in "iu" and array.dtype != np.uint8:
        return array.astype(np.int64, copy=False)
    # A value that is too large becomes infinite; a later check reports its sample.
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)


def _as_array(where: str, values: Any) -> Array:
    """Return an array of numbers; sequences of unequal lengths are padded with zeros."""
    values = values.detach().cpu() if hasattr(values, "detach") else values
    try:
        if isinstance(values, Sequence) and len(values) and hasattr(values[0], "__len__"):
            return _padded([np.asarray(each) for each in values])
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise _not_numbers(where, str(error)) from None
    if array.dtype == object and array.ndim == 1 and len(array):
        try:
            return _padded([np.asarray(each) for each in array])
        except (TypeError, ValueError) as error:
            raise _not_numbers(where, str(error)) from None
    if array.dtype.kind not in "biuf":
        raise _not_numbers(where, f"their type is {array.dtype}")
    return array


def _has_unequal_lengths(values: Any) -> bool:
    """Whether samples are sequences of unequal lengths."""
    is_object = getattr(values, "dtype", None) == np.dtype(object)
    if not is_object and not isinstance(values, list | tuple):
        return False
    return len({len(each) for each in values if hasattr(each, "__len__")}) > 1


def _padded(rows: Sequence[Array]) -> Array:
    """Return sequences (length, …) as one array (n, longest, …), with zeros at the end."""
    if any(row.dtype.kind not in "biuf" for row in rows):
        raise ValueError(f"their type is {rows[0].dtype}")
    if len({row.shape for row in rows}) == 1:
        return np.stack(rows)
    if len({row.shape[1:] for row in rows}) > 1:
        raise ValueError("samples may differ in their first dimension only")
    longest = max(len(row) for row in rows)
    joined = np.zeros((len(rows), longest, *rows[0].shape[1:]), np.result_type(*rows))
    for number, row in enumerate(rows):
        joined[number, : len(row)] = row
    return joined


def _targets(where: str, targets: Any) -> Array:
    """Return targets as int64 or float32; booleans become 0 and 1; (n, 1) becomes (n,)."""
    array = np.asarray(targets.detach().cpu() if hasattr(targets, "detach") else targets)
    if array.dtype == object:
        array = _as_array(where, targets)
    if array.ndim == 0 or array.dtype.kind not in "biuf":
        raise DataError(
            f"{where}: targets have shape {array.shape} and type {array.dtype}, but whole numbers "
            "(classes) or floats (values to predict) are needed. To number classes: "
            "np.unique(labels, return_inverse=True)[1]."
        )
    array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    with np.errstate(over="ignore"):
        return array.astype(np.float32 if array.dtype.kind == "f" else np.int64)


def pad_to(inputs: ModelInputs, lengths: Iterable[int]) -> ModelInputs:
    """Return inputs with zeros at the end of sequences, to these lengths (0: as they are)."""
    wanted = iter(lengths)

    def pad(each: Array) -> Array:
        missing = next(wanted) - each.shape[1] if each.ndim > 1 else 0
        if missing <= 0:
            return each
        return np.pad(each, [(0, 0), (0, missing), *[(0, 0)] * (each.ndim - 2)])

    return map_inputs(pad, inputs)


def _not_numbers(where: str, reason: str) -> DataError:
    return DataError(
        f"{where}: inputs and targets must be arrays of numbers. Converting them failed: {reason}. "
        "Turn text into numbers first."
    )


def as_targets_of(loss: object, targets: Array) -> npt.NDArray[Any]:
    """Return targets in the type that a loss needs: int64 for classes, float32 for other losses."""
    if isinstance(loss, str) and loss != "cross-entropy":
        return targets.astype(np.float32)
    return targets
