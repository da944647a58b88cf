"""Columns become numbers: features, labels and times."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from coterie.data.own_files.encode_columns import encode_features, encode_labels, encode_times
from coterie.errors import DataError


def column(values: list[object]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values)])


def test_numbers_stay_and_texts_become_a_column_per_category():
    table = pa.table(
        {"rain": [1.5, None, 3], "soil": ["sand", None, "clay"], "old": [True, False, True]}
    )
    features = encode_features("t", table, ["rain", "soil", "old"])
    assert features.names == (
        "rain",
        "rain is missing",
        "soil = clay",
        "soil = sand",
        "soil is missing",
        "old",
    )
    nan = float("nan")
    expected = [[1.5, 0, 0, 1, 0, 1], [nan, 1, 0, 0, 1, 0], [3, 0, 1, 0, 0, 1]]
    np.testing.assert_array_equal(features.inputs, np.array(expected, np.float32))
    assert features.scaled.tolist() == [0, 5]


def test_nan_of_a_parquet_file_is_missing_too():
    table = pa.table({"rain": [1.0, float("nan")]})
    assert encode_features("t", table, ["rain"]).names == ("rain", "rain is missing")


def test_a_column_without_values_is_left_out():
    table = pa.table({"rain": [1.0, 2.0], "none": pa.nulls(2)})
    assert encode_features("t", table, ["rain", "none"]).names == ("rain",)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([str(number) for number in range(101)], "has 101 different texts"),
        ([1.0, float("inf")], "infinite value in row 2"),
        ([dt.date(2024, 1, 1), None], "cannot be a feature"),
    ],
)
def test_features_that_cannot_be_used_are_named(values, message):
    with pytest.raises(DataError, match=message):
        encode_features("t", pa.table({"x": values}), ["x"])


@pytest.mark.parametrize(
    ("values", "targets", "classes"),
    [
        (["b", "a", "b"], [1, 0, 1], ("a", "b")),
        ([True, False, True], [1, 0, 1], ("False", "True")),
        ([10, 2, 10], [1, 0, 1], ("2", "10")),
        ([1.0, 2.0, 1.0], [1.0, 2.0, 1.0], ()),
        (list(range(21)), list(range(21)), ()),
    ],
)
def test_the_label_decides_the_task(values, targets, classes):
    labels = encode_labels("t", "y", column(values))
    assert labels.classes == classes
    assert labels.targets.tolist() == targets
    assert labels.targets.dtype == (np.int64 if classes else np.float32)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", "a"], "only one value, 'a'"),
        ([0.5, 0.5], "only one value"),
        ([str(number) for number in range(1001)], "1,001 different texts"),
        ([dt.date(2024, 1, 1), dt.date(2024, 1, 2)], "Expected texts"),
    ],
)
def test_labels_that_cannot_be_learned_are_refused(values, message):
    with pytest.raises(DataError, match=message):
        encode_labels("t", "y", column(values))


@pytest.mark.parametrize(
    "values",
    [
        [3, 1, 2],
        [0.3, 0.1, 0.2],
        ["2024-03-01", "2023-12-31", "2024-02-29"],
        ["2024-01-01 09:00", "2024-01-01 07:59:59", "2024-01-01T08:00"],
        ["2024-01-01T09:00Z", "2024-01-01T07:00Z", "2024-01-01T08:00+00:00"],
        [dt.date(2024, 3, 1), dt.date(2023, 1, 1), dt.date(2024, 1, 1)],
        [dt.datetime(2024, 1, 1, hour) for hour in (3, 1, 2)],
    ],
)
def test_times_are_numbers_or_dates(values):
    assert encode_times("t", ["when"], pa.table({"when": values})).tolist() == [2, 0, 1]


def test_several_columns_are_one_time():
    table = pa.table({"year": [2024, 2023, 2024, 2024], "month": [1, 12, 2, 1]})
    assert encode_times("t", ["year", "month"], table).tolist() == [1, 0, 2, 1]


@pytest.mark.parametrize("values", [["monday", "tuesday"], [[1], [2]]])
def test_what_is_not_a_time_is_refused(values):
    with pytest.raises(DataError, match="be read as time"):
        encode_times("t", ["when"], pa.table({"when": values}))
