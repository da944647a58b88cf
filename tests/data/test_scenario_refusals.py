"""Scenarios that cannot be made are refused with the reason."""

import numpy as np
import pytest
from scenarios import _dataset, _scenario

from coterie.data.drift import FedDrift4, MatrixDrift
from coterie.data.labelled_dataset import Dataset
from coterie.data.scenario import PeerSettings, Scenario
from coterie.data.shifts import Concept, DatasetShift, LabelShift, RotationShift
from coterie.data.synthetic import linear_regression
from coterie.errors import ConfigError, DataError


@pytest.mark.parametrize(
    ("drift", "concept"),
    [
        (MatrixDrift(every=5, matrix=((0, 1), (2, 0))), 2),
        (MatrixDrift(every=5, matrix=((0, 1), (-1, 0))), -1),
        (FedDrift4(every=5), 2),
    ],
)
def test_drift_cannot_ask_for_concepts_that_do_not_exist(drift, concept):
    with pytest.raises(ConfigError, match=f"concept {concept}, but the shift has only 2"):
        _scenario(RotationShift(angles=(0, 90)), drift, rounds=50, count=10)


def test_only_images_can_be_rotated():
    source = linear_regression(0, 0, 200, 20)
    with pytest.raises(ConfigError, match=r"rotation needs images.*\(10,\)"):
        _scenario(RotationShift(angles=(0, 90)), sources=[source], count=2)


def test_datasets_of_one_scenario_must_fit_together():
    oblong, labels = np.zeros((9, 1, 2, 3), np.uint8), np.zeros(9, np.int64)
    wide = Dataset("wide", oblong, labels, oblong, labels, ("a",))
    with pytest.raises(ConfigError, match=r"same shape.*marks, wide"):
        _scenario(DatasetShift(), sources=[_dataset(), wide])
    square, numbers = np.zeros((9, 1, 2, 2), np.float32), np.zeros(9, np.float32)
    values = Dataset("values", square, numbers, square, numbers)
    with pytest.raises(ConfigError, match=r"same type of targets.*marks, values"):
        _scenario(DatasetShift(), sources=[_dataset(), values])


def test_labels_without_images_are_refused():
    with pytest.raises(DataError, match="label 12"):
        _scenario(LabelShift(groups=((0, 1), (12,))))


def test_too_few_images_are_refused():
    with pytest.raises(DataError, match=r"8 peers ask for 840 images of marks.*only 600"):
        _scenario(train_size=100)


def test_shares_must_fit_the_clusters():
    with pytest.raises(ConfigError, match=r"3 shares.*2 clusters"):
        _scenario(RotationShift(angles=(0, 90)), clusters=(1, 1, 1))


@pytest.mark.parametrize("shares", [(0, 0), (3, -1), (float("inf"), 1), (float("nan"), 1)])
def test_shares_that_cannot_be_shares_are_refused(shares):
    with np.errstate(all="ignore"), pytest.raises(ConfigError, match="clusters"):
        _scenario(RotationShift(angles=(0, 90)), clusters=shares)


def test_labels_cannot_be_grouped_where_there_are_none():
    source = linear_regression(0, 0, 200, 20)
    concepts = [Concept("a", labels=(0, 1)), Concept("b", labels=(2, 3))]
    with pytest.raises((ConfigError, DataError), match="linear-0"):
        Scenario([source], concepts, PeerSettings(count=2, train_size=5, validation_size=5))


@pytest.mark.parametrize("wrong", [{"count": 0}, {"train_size": 0}, {"validation_size": 0},
                                   {"test_size": 0}, {"sise": 3}], ids=str)  # fmt: skip
def test_settings_that_cannot_work_are_refused(wrong):
    with pytest.raises(ConfigError):
        PeerSettings(**({"count": 8, "train_size": 20, "validation_size": 5} | wrong))
