"""Linear regression with a known truth, and the digits that come with scikit-learn."""

import numpy as np
import pytest

from coterie.data.digits import read_digits
from coterie.data.holdout import random_holdout, stratified_holdout
from coterie.data.synthetic import linear_parameters, linear_regression
from coterie.errors import ConfigError


def test_truth_and_noise_are_recovered():
    dataset = linear_regression(cluster=1, seed=5, num_train=20_000, num_test=10)
    assert dataset.inputs.dtype == dataset.targets.dtype == np.float32
    assert dataset.shape == (10,)
    assert not dataset.is_classification
    estimate, *_ = np.linalg.lstsq(dataset.inputs, dataset.targets, rcond=None)
    truth = linear_parameters(1, 5)
    assert np.abs(truth).max() <= 10
    np.testing.assert_allclose(estimate, truth, atol=0.03)
    residuals = dataset.targets - dataset.inputs @ truth
    assert abs(residuals.std() - 3.0) < 0.1
    assert abs(residuals.mean()) < 0.1
    assert abs(dataset.inputs.std() - 20 / np.sqrt(12)) < 0.05


def test_draws_are_keyed_by_seed_and_cluster():
    first = linear_regression(0, 7, 8, 4)
    longer = linear_regression(0, 7, 8, 6)
    np.testing.assert_array_equal(first.inputs, longer.inputs)
    np.testing.assert_array_equal(first.targets, longer.targets)
    for other in (linear_regression(1, 7, 8, 4), linear_regression(0, 8, 8, 4)):
        assert (other.inputs != first.inputs).any()
    assert (linear_parameters(0, 7) != linear_parameters(1, 7)).all()
    assert (first.inputs[:4] != first.test_inputs).any()


def test_without_noise_targets_are_exact():
    dataset = linear_regression(2, 0, 5, 5, noise=0.0, dimension=3)
    truth = linear_parameters(2, 0, 3)
    np.testing.assert_allclose(dataset.targets, dataset.inputs @ truth, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "change", [{"num_train": 0}, {"num_test": 0}, {"noise": -1.0}, {"dimension": 0}]
)
def test_impossible_settings(change):
    settings = {"cluster": 0, "seed": 0, "num_train": 4, "num_test": 4} | change
    with pytest.raises(ConfigError, match="impossible"):
        linear_regression(**settings)


def test_digits_are_whole_and_stratified():
    dataset = read_digits()
    assert dataset.inputs.shape == (1438, 1, 8, 8)
    assert dataset.test_inputs.shape == (359, 1, 8, 8)
    assert dataset.inputs.dtype == np.uint8
    assert (dataset.inputs.min(), dataset.inputs.max()) == (0, 255)
    assert set(np.bincount(dataset.test_targets)) <= {35, 36, 37}
    np.testing.assert_array_equal(dataset.test_inputs, read_digits().test_inputs)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10, 101])
def test_holdouts_split_everything_once(count):
    labels = np.arange(count) % 3
    for train, test in (
        random_holdout(count, np.random.default_rng(0)),
        stratified_holdout(labels, np.random.default_rng(0)),
    ):
        assert sorted([*train, *test]) == list(range(count))
        assert list(train) == sorted(train)
        assert list(test) == sorted(test)
        assert len(train) >= min(count, 1)
    assert len(random_holdout(count, np.random.default_rng(0))[1]) == {0: 0, 1: 0, 101: 20}.get(
        count, max(1, count // 5)
    )
