"""What is worked out of the runs of a study, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coterie.errors import StorageError
from coterie.studies.study_results import StudyResult, csv_text, harmed_share, read_csv
from coterie.studies.study_tables import NUMBERS, TEST_RESULT, advantage_sheet, sheet


def result(strategy: str, seed: int, test: float, **other: object) -> StudyResult:
    unknown = dict.fromkeys(
        ("test_other", "harmed", "lost", "own_cluster_10", "own_cluster_20"), math.nan
    )
    unknown |= dict.fromkeys(("never_fetched", "over_time", "drop", "recovery_rounds"), math.nan)
    about = {"setting": "one", "group": "main", "rounds": 9, "peers": 4, "is_accuracy": True}
    costs = {"models_per_peer": 10.0, "cpu_seconds": 0.5}
    return StudyResult(
        **{**about, **unknown, **costs, "strategy": strategy, "seed": seed, "test": test, **other}
    )


def test_who_is_harmed():
    alone = np.array([0.50, 0.50, 0.50, 0.50, np.nan])
    ours = np.array([0.49, 0.47, 0.60, np.nan, 0.10])
    # One of the three that are known lost more than two points.
    assert harmed_share(ours, alone, is_accuracy=True) == pytest.approx(1 / 3)
    assert harmed_share(alone, alone, is_accuracy=True) == 0
    errors = np.array([10.0, 10.0, 10.0, 10.0])
    assert harmed_share(errors * [1.01, 1.03, 0.9, 2], errors, is_accuracy=False) == 0.5
    assert math.isnan(harmed_share(ours, np.full(5, np.nan), is_accuracy=True))


def test_csv_comes_back(tmp_path):
    found = [result("kin", 1, 0.625), result("random", 2, 0.5, is_accuracy=False, harmed=0.25)]
    path = tmp_path / "results.csv"
    path.write_text(csv_text(found))
    assert [repr(each) for each in read_csv(path)] == [repr(each) for each in found]
    path.write_text(csv_text(found).replace("0.625", "much"))
    with pytest.raises(StorageError, match="is damaged"):
        read_csv(path)


def test_tables_show_means_and_the_best():
    found = [
        *(result("oracle", seed, test) for seed, test in ((1, 0.50), (2, 0.54), (3, 0.58))),
        *(result("kin", seed, test) for seed, test in ((1, 0.60), (2, 0.66), (3, 0.66))),
        result("kin", 1, 9.0, setting="two", is_accuracy=False),
        result("oracle", 1, 8.0, setting="two", is_accuracy=False),
    ]
    table = sheet(found, "main", TEST_RESULT)
    assert table.header == ("strategy", "one", "two (MSE)")
    # Student's t with two degrees of freedom: 4.303 · 4 / √3 and 4.303 · √12 / √3.
    assert [row.cells for row in table.rows] == [
        ("oracle", "54.00 ± 9.94", "8.00*†"),
        ("kin", "64.00 ± 8.61*", "9.00†"),
    ]
    (row,) = advantage_sheet(found, "main").rows
    # Differences 10, 12, 8: 4.303 · 2 / √3, and p = 0.013 alone.
    assert row.cells == ("oracle", "+10.00 ± 4.97*", "-1.00")


def test_of_times_the_least_is_shown():
    found = [result("kin", seed, 0.5, cpu_seconds=time) for seed, time in ((1, 3.0), (2, 2.0))]
    (row,) = sheet(found, "main", NUMBERS[-1]).rows
    assert row.cells == ("kin", "2.00")


def test_numbers_that_nobody_has_make_no_table():
    found = [result("kin", 1, 0.5)]
    filled = {number.title for number in NUMBERS if sheet(found, "main", number).rows}
    assert filled == {TEST_RESULT.title, NUMBERS[-2].title, NUMBERS[-1].title}
