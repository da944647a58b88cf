"""Turns the columns of a table into numbers: features, labels and times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coterie.data.own_files.owned_samples import Rows
from coterie.errors import DataError

MOST_CATEGORIES = 100
"""The largest number of different texts in a feature."""
MOST_INTEGER_CLASSES = 20
"""A label of whole numbers with more different values is a value to predict, not a class."""
MOST_CLASSES = 1000
"""The largest number of classes."""
LONGEST_SHOWN = 30
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Features:
    """Encoded features."""

    inputs: npt.NDArray[np.float32]
    """(n, d); NaN where a number is missing."""
    scaled: Rows
    """The columns with numbers, which each peer standardises; the others are 0 or 1."""
    names: tuple[str, ...]
    """The names of the columns."""


@dataclass(frozen=True)
class Labels:
    """Encoded labels."""

    targets: npt.NDArray[Any]
    """(n,): int64 classes, or float32 values."""
    classes: tuple[str, ...]
    """The names of the classes; empty for regression."""


def is_text(column: pa.ChunkedArray) -> bool:
    """Whether a column has texts."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_number(column: pa.ChunkedArray) -> bool:
    """Whether a column has numbers, or true and false."""
    kind = column.type
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def is_float(column: pa.ChunkedArray) -> bool:
    """Whether a column has numbers that may be NaN, which means missing."""
    return bool(pa.types.is_floating(column.type))


def encode_features(where: str, table: pa.Table, names: Sequence[str]) -> Features:
    """Return features as numbers: a column per number, and one per category of a text.

    A column with missing values gets another column, which is 1 where the value is missing. The
    categories, and which columns have missing values, are those of all rows of all peers.
    """
    parts: list[Values] = []
    labels: list[str] = []
    scaled: list[int] = []
    for name in names:
        column = table[name]
        missing = np.asarray(column.is_null(nan_is_null=is_float(column)).to_numpy())
        if missing.all():
            continue
        if is_text(column):
            categories, values = _one_hot(where, name, column)
            labels += [f"{name} = {category}" for category in categories]
        elif is_number(column):
            values = numbers(where, name, column)[:, None]
            scaled.append(len(labels))
            labels.append(name)
        else:
            raise DataError(
                f"{where}: the column '{name}' has the type {column.type}, which cannot be a "
                f"feature. Leave it out with --ignore {name}, or name it with --time."
            )
        parts.append(values)
        if missing.any():
            parts.append(missing[:, None].astype(np.float64))
            labels.append(f"{name} is missing")
    if not parts:
        raise DataError(f"{where} has no features: no other column has values to predict from.")
    inputs = np.concatenate(parts, axis=1)
    return Features(inputs.astype(np.float32), np.array(scaled, np.int64), tuple(labels))


def encode_labels(where: str, name: str, column: pa.ChunkedArray) -> Labels:
    """Return classes for texts, true/false and few whole numbers; otherwise values."""
    different = pc.count_distinct(column).as_py()
    if different < 2:
        raise DataError(
            f"{where}: the label '{name}' has only one value, {_shown(column[0].as_py())}, so "
            "there is nothing to learn. Choose another column with --label."
        )
    is_integer = pa.types.is_integer(column.type) and different <= MOST_INTEGER_CLASSES
    if is_text(column) or pa.types.is_boolean(column.type) or is_integer:
        if different > MOST_CLASSES:
            raise DataError(
                f"{where}: the label '{name}' has {different:,} different texts, but at most "
                f"{MOST_CLASSES:,} classes are possible. Choose another column with --label."
            )
        found, targets = np.unique(np.array(column.to_pylist()), return_inverse=True)
        names = tuple(str(value) for value in found.tolist())
        return Labels(targets.reshape(-1).astype(np.int64), names)
    if not is_number(column):
        raise DataError(
            f"{where}: the label '{name}' has the type {column.type}. Expected texts, true/false "
            "or numbers. Choose another column with --label."
        )
    return Labels(numbers(where, name, column).astype(np.float32), ())


def encode_times(where: str, names: Sequence[str], table: pa.Table) -> Rows:
    """Return the position of each row in time: equal times have equal positions."""
    columns = [_time_values(where, name, table[name]) for name in names]
    _, positions = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return positions.reshape(-1).astype(np.int64)


def numbers(where: str, name: str, column: pa.ChunkedArray) -> Values:
    """Return a column of numbers; missing ones are NaN."""
    values: Values = column.cast(pa.float64(), safe=False).to_numpy().astype(np.float64)
    if np.isinf(values).any():
        raise DataError(
            f"{where}: the column '{name}' has an infinite value in row "
            f"{int(np.isinf(values).argmax()) + 1}. Repair it, or leave the cell empty."
        )
    return values


def _one_hot(where: str, name: str, column: pa.ChunkedArray) -> tuple[list[str], Values]:
    """Return the categories, and 1 in the column of each row's category."""
    categories = sorted(value for value in pc.unique(column).to_pylist() if value is not None)
    if len(categories) > MOST_CATEGORIES:
        raise DataError(
            f"{where}: the column '{name}' has {len(categories):,} different texts, such as "
            f"{_shown(categories[0])}, but a feature of text can have at most {MOST_CATEGORIES}. "
            f"Leave it out with --ignore {name}."
        )
    places = pc.index_in(column, pa.array(categories, column.type)).to_numpy(zero_copy_only=False)
    values = np.zeros((len(column), len(categories)))
    known = np.flatnonzero(~np.isnan(places.astype(np.float64)))
    values[known, places[known].astype(np.int64)] = 1
    return categories, values


def _time_values(where: str, name: str, column: pa.ChunkedArray) -> Values | Rows:
    """Return numbers in the order of time; raise a DataError for what is not a time."""
    if is_text(column):
        first = next((text for text in column.to_pylist() if text is not None), None)
        try:
            column = column.cast(pa.string()).cast(pa.timestamp("us", "UTC"))
        except pa.ArrowInvalid:
            try:
                column = column.cast(pa.string()).cast(pa.timestamp("us"))
            except pa.ArrowInvalid:
                raise DataError(
                    f"{where}: the column '{name}' cannot be read as time: it has values such as "
                    f"{_shown(first)}. Expected numbers, or dates such as 2024-05-31 or "
                    "2024-05-31 14:00."
                ) from None
    if pa.types.is_temporal(column.type) and not pa.types.is_duration(column.type):
        if pa.types.is_date(column.type):
            column = column.cast(pa.timestamp("ms"))
        return np.asarray(column.cast(pa.int64()).to_numpy())
    if is_number(column):
        return numbers(where, name, column)
    raise DataError(
        f"{where}: the column '{name}' has the type {column.type}, which cannot be read as time. "
        "Expected numbers, or dates such as 2024-05-31."
    )


def _shown(value: object) -> str:
    text = str(value)
    return f"'{text[:LONGEST_SHOWN]}{'…' if len(text) > LONGEST_SHOWN else ''}'"
