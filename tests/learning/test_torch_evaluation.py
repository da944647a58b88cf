"""Which samples the torch trainer uses, what it measures on them, and modules that do not fit."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch
from small_runs import CLASSES, FEATURES
from small_runs import small_module as plain
from torch import nn
from torch_bench import Bench, a_pool, dropping, normalised, order, regressing

from coterie.data.pools import Pool, Samples
from coterie.errors import ConfigError
from coterie.learning.torch_trainer import EVALUATION_BATCH
from coterie.learning.trainer import Evaluation


@pytest.mark.parametrize(
    "count", [1, 5, EVALUATION_BATCH, EVALUATION_BATCH + 1, 3 * EVALUATION_BATCH - 7]
)
def test_evaluation_measures_every_sample(count):
    bench = Bench(plain, a_pool(count, seed=3))
    evaluation = bench.evaluate()
    with torch.no_grad():
        outputs = bench.module().module(torch.from_numpy(bench.pools[0].inputs))
        targets = torch.from_numpy(bench.pools[0].targets)
        losses = bench.loss(outputs, targets)
    np.testing.assert_allclose(evaluation.losses, losses.numpy(), rtol=1e-5)
    assert evaluation.loss == pytest.approx(losses.double().mean().item(), rel=1e-6)
    assert evaluation.score == (outputs.argmax(1) == targets).double().mean().item()


def test_evaluation_changes_nothing():
    bench = Bench(normalised)
    before = bench.evaluate()
    assert bench.models.tobytes() == np.stack([bench.start] * 2).tobytes()
    np.testing.assert_array_equal(bench.evaluate().losses, before.losses)


def test_in_evaluation_samples_do_not_influence_each_other():
    """Batch normalisation uses its statistics and dropout lets everything through."""
    bench = Bench(normalised)
    bench.train(epochs=3)
    together = bench.evaluate().losses
    one_by_one = [bench.evaluate(samples=Samples(0, n, n + 1)).losses.item() for n in range(10)]
    np.testing.assert_allclose(together, one_by_one, rtol=1e-5)
    dropped = Bench(dropping)
    np.testing.assert_array_equal(dropped.evaluate().losses, dropped.evaluate().losses)


CHOSEN = np.array([9, 2, 5, 3, 7])


def test_chosen_rows_are_trained_as_if_there_were_no_others():
    whole = a_pool(10)
    part = Pool(whole.inputs[CHOSEN], whole.targets[CHOSEN])
    choosing, small = Bench(pools=whole, batch_size=2), Bench(pools=[part, whole], batch_size=2)
    losses = choosing.train(samples=Samples(0, 0, 10, CHOSEN), epochs=2), small.train(epochs=2)
    assert losses[0] == losses[1]
    assert choosing.models[0].tobytes() == small.models[0].tobytes()


def test_chosen_rows_are_evaluated_in_their_order():
    bench = Bench()
    everything = bench.evaluate()
    chosen = bench.evaluate(samples=Samples(0, 0, 10, CHOSEN))
    np.testing.assert_allclose(chosen.losses, everything.losses[CHOSEN], rtol=1e-6)
    parts = [bench.evaluate(samples=Samples(0, row, row + 1)).score for row in CHOSEN]
    assert chosen.score == np.mean(parts)


def test_many_chosen_rows_are_evaluated_in_several_batches():
    count = 2 * EVALUATION_BATCH + 9
    bench = Bench(pools=a_pool(count))
    rows = np.random.default_rng(0).permutation(count)
    chosen = bench.evaluate(samples=Samples(0, 0, count, rows))
    np.testing.assert_allclose(chosen.losses, bench.evaluate().losses[rows], rtol=1e-5)


def test_a_range_is_trained_and_evaluated_without_its_neighbours():
    bench = Bench(batch_size=2)
    everything = bench.evaluate().losses
    np.testing.assert_allclose(
        bench.evaluate(samples=Samples(0, 3, 7)).losses, everything[3:7], rtol=1e-6
    )
    bench.train(samples=Samples(0, 3, 7))
    seen = sorted(chain.from_iterable(order(bench)))
    assert seen == sorted(bench.pools[0].inputs[3:7, 0].tolist())


def test_each_job_uses_its_own_pool():
    bench = Bench(pools=[a_pool(10), a_pool(6, seed=5)])
    other = Bench(pools=a_pool(6, seed=5))
    np.testing.assert_array_equal(
        bench.evaluate(samples=Samples(1, 0, 6)).losses, other.evaluate().losses
    )


def test_data_that_change_in_their_pool_are_seen():
    """Drift fills the pools again; the trainer must not hold copies."""
    bench = Bench()
    before = bench.evaluate().losses.copy()
    bench.pools[0].inputs[:] *= -1
    assert (bench.evaluate().losses != before).all()


def test_regression_uses_the_squared_error_of_each_sample():
    bench = Bench(regressing, regression=True)
    evaluation = bench.evaluate()
    with torch.no_grad():
        outputs = bench.module().module(torch.from_numpy(bench.pools[0].inputs))
    expected = (outputs.numpy()[:, 0] - bench.pools[0].targets) ** 2
    assert evaluation.losses.shape == (10,)
    np.testing.assert_allclose(evaluation.losses, expected, rtol=1e-5)
    assert evaluation.loss == pytest.approx(expected.mean(dtype=np.float64), rel=1e-6)
    assert evaluation.score == evaluation.loss


@pytest.mark.parametrize(
    "build",
    [
        lambda: nn.Sequential(nn.Linear(FEATURES + 1, CLASSES)),
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, CLASSES)),
    ],
)
def test_a_module_that_does_not_take_the_data_is_refused(build):
    with pytest.raises(ConfigError, match=r"fails on a sample of shape \(6,\)"):
        Bench(build)


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda: nn.Sequential(nn.Linear(FEATURES, CLASSES - 1)), r"\(2, 2\)"),
        (lambda: nn.Sequential(nn.Linear(FEATURES, 1), nn.Flatten(0)), r"\(2,\)"),
        (lambda: nn.Sequential(nn.Linear(FEATURES, 4), nn.Unflatten(1, (2, 2))), r"\(2, 2, 2\)"),
    ],
)
def test_a_module_with_too_few_outputs_is_refused(build, shape):
    with pytest.raises(
        ConfigError, match=rf"returns shape {shape}, but \(2, at least 3\) is needed"
    ):
        Bench(build)


def test_the_highest_label_of_all_pools_counts():
    higher = a_pool(4)
    higher.targets[2] = 5
    with pytest.raises(ConfigError, match="at least 6"):
        Bench(pools=[a_pool(10), higher])


def test_a_module_with_more_outputs_than_classes_is_fine():
    bench = Bench(lambda: nn.Sequential(nn.Linear(FEATURES, CLASSES + 4)))
    assert np.isfinite(bench.train())


@pytest.mark.parametrize("outputs", [2, 3])
def test_regression_needs_exactly_one_output(outputs):
    with pytest.raises(ConfigError, match="one output per sample is needed"):
        Bench(lambda: nn.Sequential(nn.Linear(FEATURES, outputs)), regression=True)


class ReturnsPair(nn.Module):
    """Returns what the trainer cannot use."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.linear(inputs), inputs


class ReturnsList(ReturnsPair):
    def forward(self, inputs: torch.Tensor) -> list[torch.Tensor]:
        return [self.linear(inputs)]


def test_of_a_tuple_the_first_element_is_the_output():
    bench = Bench(ReturnsPair)
    assert np.isfinite(bench.train())
    assert bench.evaluate().losses.shape == (10,)


def test_a_module_that_does_not_return_a_tensor_is_refused():
    with pytest.raises(ConfigError, match="returns a list, but it must return a tensor"):
        Bench(ReturnsList)


def test_evaluations_average_in_double_precision():
    """A million losses of 0.1 in float32 have a mean of 0.1, whatever they would sum up to."""
    losses = np.full(1_000_001, 0.1, dtype=np.float32)
    losses[0] = 1e5
    exact = (float(np.float32(1e5)) + 1e6 * float(np.float32(0.1))) / 1_000_001
    assert Evaluation(losses, None).loss == pytest.approx(exact, rel=1e-12)
