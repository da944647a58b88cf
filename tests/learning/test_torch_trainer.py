"""The torch trainer against loops written by hand: losses, optimisers, randomness, isolation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from coterie.data.pools import Pool, Samples
from coterie.errors import ConfigError, TrainingError
from coterie.learning.torch_trainer import EVALUATION_BATCH, TorchTrainer
from coterie.learning.trainer import (
    EvaluateJob,
    Evaluation,
    ModelReference,
    TrainingSettings,
    TrainJob,
    Workspace,
)
from coterie.models.vector import FlatModule, initial_vector

FEATURES, CLASSES = 6, 3
BITS = 2**127 + 12345
Build = Callable[[], nn.Module]


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Linear(8, CLASSES))


def deep() -> nn.Module:
    return nn.Sequential(
        nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, CLASSES)
    )


def dropping() -> nn.Module:
    return nn.Sequential(
        nn.Linear(FEATURES, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, CLASSES)
    )


def normalised(momentum: float | None = 0.1) -> nn.Module:
    return nn.Sequential(
        # A bias before batch normalisation has no gradient but rounding errors.
        nn.Linear(FEATURES, 8, bias=False),
        nn.BatchNorm1d(8, momentum=momentum),
        nn.ReLU(),
        nn.Linear(8, CLASSES),
    )


def counting() -> nn.Module:
    """Return a module whose statistics depend on how many batches it has seen."""
    return normalised(momentum=None)


def regressing() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 4), nn.Tanh(), nn.Linear(4, 1))


class Watched(nn.Module):
    """Keeps the batches it is trained with, so that a loop by hand can use the very same ones."""

    def __init__(self, seen: list[torch.Tensor], module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.seen = seen

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen.append(inputs.clone())
        return self.module(inputs)


def a_pool(count: int, *, seed: int = 0, regression: bool = False) -> Pool:
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(count, FEATURES)).astype(np.float32)
    if regression:
        return Pool(inputs, (inputs.sum(axis=1) + rng.normal(size=count)).astype(np.float32))
    targets = inputs[:, :CLASSES].argmax(axis=1)
    targets[0] = CLASSES - 1
    return Pool(inputs, targets.astype(np.int64))


class Bench:
    """A trainer with two models of the same start, and what is needed to check on it."""

    def __init__(
        self,
        build: Build = plain,
        pools: Sequence[Pool] | Pool | None = None,
        *,
        regression: bool = False,
        **settings: object,
    ) -> None:
        pools = pools or a_pool(10, regression=regression)
        self.pools = [pools] if isinstance(pools, Pool) else list(pools)
        self.start = initial_vector(build, 7)
        self.models = np.stack([self.start, self.start])
        self.batches: list[torch.Tensor] = []
        self.build = build
        self.regression = regression
        self.settings = TrainingSettings(**settings)
        self.trainer = TorchTrainer(
            lambda: Watched(self.batches, build()),
            self.settings,
            Workspace(self.pools, {"current": self.models}),
            is_classification=not regression,
        )

    def samples(self, samples: Samples | None = None) -> Samples:
        return samples or Samples(0, 0, len(self.pools[0].targets))

    def train(
        self,
        peer: int = 0,
        *,
        bits: int = BITS,
        epochs: int = 1,
        samples: Samples | None = None,
        last_layers: int | None = None,
    ) -> float:
        job = TrainJob(
            ModelReference("current", peer), self.samples(samples), epochs, bits, last_layers
        )
        (loss,) = self.trainer.train([job])
        return loss

    def evaluate(self, peer: int = 0, samples: Samples | None = None) -> Evaluation:
        job = EvaluateJob(ModelReference("current", peer), self.samples(samples))
        (evaluation,) = self.trainer.evaluate([job])
        return evaluation

    def module(self, vector: np.ndarray | None = None) -> FlatModule:
        flat = FlatModule(self.build())
        flat.load(self.start if vector is None else vector)
        return flat

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of each sample."""
        if self.regression:
            return (outputs[:, 0] - targets) ** 2
        return F.cross_entropy(outputs, targets, reduction="none")

    def targets_of(self, batch: torch.Tensor) -> torch.Tensor:
        """Find the targets of a batch by its inputs, all of which are different."""
        pool = self.pools[0]
        rows = [np.flatnonzero((pool.inputs == one).all(axis=1)).item() for one in batch.numpy()]
        return torch.from_numpy(pool.targets[rows])

    def by_hand(
        self,
        optimizer: Callable[..., torch.optim.Optimizer],
        batches: Sequence[torch.Tensor],
        **options: float,
    ) -> tuple[np.ndarray, list[float]]:
        """Train a plain torch module with a plain torch loop; return its vector and all losses."""
        flat = self.module()
        module = self.build().train()
        module.load_state_dict(flat.module.state_dict())
        steps = optimizer(module.parameters(), **options)
        losses: list[float] = []
        for batch in batches:
            each = self.loss(module(batch), self.targets_of(batch))
            steps.zero_grad()
            each.mean().backward()
            steps.step()
            losses += each.tolist()
        flat.module.load_state_dict(module.state_dict())
        vector = np.empty_like(self.start)
        flat.store(vector)
        return vector, losses


def test_the_training_loss_is_the_mean_over_samples_not_over_batches():
    """Ten samples in batches of 4, 4 and 2; a rate so small that no weight changes."""
    bench = Bench(batch_size=4, optimizer="sgd", learning_rate=1e-30)
    loss = bench.train()
    assert bench.models[0].tobytes() == bench.start.tobytes()
    assert [len(batch) for batch in bench.batches] == [4, 4, 2]
    module = bench.module().module
    with torch.no_grad():
        each = [bench.loss(module(batch), bench.targets_of(batch)) for batch in bench.batches]
    assert loss == pytest.approx(torch.cat(each).double().mean().item(), rel=1e-6)
    of_batch_means = float(np.mean([losses.mean().item() for losses in each]))
    assert abs(loss - of_batch_means) > 1e-3


def test_the_training_loss_is_that_of_the_last_epoch():
    bench = Bench(batch_size=4, optimizer="sgd", learning_rate=0.2)
    loss = bench.train(epochs=3)
    _, losses = bench.by_hand(torch.optim.SGD, bench.batches, lr=0.2)
    assert len(losses) == 30
    assert loss == pytest.approx(np.mean(losses[-10:]), rel=1e-5)
    assert abs(loss - np.mean(losses)) > 1e-2


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
    np.testing.assert_array_equal(evaluation.correct, (outputs.argmax(1) == targets).numpy())
    assert evaluation.loss == pytest.approx(losses.double().mean().item(), rel=1e-6)
    assert evaluation.accuracy == (outputs.argmax(1) == targets).double().mean().item()


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


OPTIMIZERS = {
    "sgd": ({"optimizer": "sgd"}, torch.optim.SGD, {}),
    "sgd with momentum": (
        {"optimizer": "sgd", "momentum": 0.9},
        torch.optim.SGD,
        {"momentum": 0.9},
    ),
    "sgd with decay": (
        {"optimizer": "sgd", "weight_decay": 0.1},
        torch.optim.SGD,
        {"weight_decay": 0.1},
    ),
    "adam": ({"optimizer": "adam"}, torch.optim.Adam, {}),
    "adam with decay": (
        {"optimizer": "adam", "weight_decay": 0.1},
        torch.optim.Adam,
        {"weight_decay": 0.1},
    ),
    "adamw": ({"optimizer": "adamw"}, torch.optim.AdamW, {"weight_decay": 0.0}),
    "adamw with decay": (
        {"optimizer": "adamw", "weight_decay": 0.1},
        torch.optim.AdamW,
        {"weight_decay": 0.1},
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("build", [deep, normalised])
def test_optimisers_do_what_a_loop_by_hand_does(name, build):
    settings, optimizer, options = OPTIMIZERS[name]
    bench = Bench(build, batch_size=4, learning_rate=0.02, **settings)
    loss = bench.train(epochs=4)
    assert len(bench.batches) == 12
    expected, losses = bench.by_hand(optimizer, bench.batches, lr=0.02, **options)
    np.testing.assert_allclose(bench.models[0], expected, rtol=1e-4, atol=1e-5)
    assert loss == pytest.approx(np.mean(losses[-10:]), rel=1e-4)
    assert np.abs(bench.models[0] - bench.start).max() > 0.01


def test_the_optimisers_differ():
    """Otherwise the test above could not tell them apart."""
    trained = set()
    for settings, _, _ in OPTIMIZERS.values():
        bench = Bench(deep, batch_size=4, learning_rate=0.02, **settings)
        bench.train(epochs=4)
        trained.add(np.round(bench.models[0], 3).tobytes())
    # Without decay, AdamW is Adam.
    assert len(trained) == len(OPTIMIZERS) - 1


@pytest.mark.parametrize(
    "settings",
    [{"optimizer": "adam"}, {"optimizer": "sgd", "momentum": 0.9}, {"optimizer": "adamw"}],
)
def test_every_training_starts_with_a_fresh_optimiser(settings):
    """Two trainings of one epoch are two short loops, one of two epochs is one long loop."""
    name = "sgd with momentum" if "momentum" in settings else settings["optimizer"]
    _, optimizer, options = OPTIMIZERS[name]
    twice = Bench(deep, batch_size=10, learning_rate=0.05, **settings)
    twice.train(epochs=1, bits=1)
    twice.train(epochs=1, bits=2)
    once = Bench(deep, batch_size=10, learning_rate=0.05, **settings)
    once.train(epochs=2)
    assert np.abs(twice.models[0] - once.models[0]).max() > 1e-3
    long, _ = once.by_hand(optimizer, once.batches, lr=0.05, **options)
    np.testing.assert_allclose(once.models[0], long, rtol=1e-4, atol=1e-5)
    short = Bench(deep)
    for batch in twice.batches:
        short.start, _ = short.by_hand(optimizer, [batch], lr=0.05, **options)
    np.testing.assert_allclose(twice.models[0], short.start, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("build", [plain, dropping, normalised, counting])
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_the_same_start_and_bits_give_the_same_model_bit_for_bit(build, optimizer):
    bench = Bench(build, batch_size=4, optimizer=optimizer, momentum=0.5)
    first = bench.train(0, epochs=3)
    second = bench.train(1, epochs=3)
    assert first == second
    assert bench.models[0].tobytes() == bench.models[1].tobytes()
    assert bench.models[0].tobytes() != bench.start.tobytes()


def order(bench: Bench) -> list[list[float]]:
    """Return the first features of the batches seen, and forget them."""
    seen = [batch[:, 0].tolist() for batch in bench.batches]
    bench.batches.clear()
    return seen


def test_the_order_of_batches_depends_on_the_bits_alone():
    bench = Bench(batch_size=4)
    bench.train(epochs=2)
    expected = order(bench)
    torch.manual_seed(99)
    bench.train(1, epochs=1, bits=3)
    assert order(bench) != expected[:3]
    # From other weights, after other trainings, with another seed of torch.
    bench.train(0, epochs=2)
    assert order(bench) == expected


def test_every_epoch_sees_every_sample_once_in_a_new_order():
    bench = Bench(batch_size=4)
    bench.train(epochs=5)
    seen = order(bench)
    epochs = [[*chain.from_iterable(seen[start : start + 3])] for start in range(0, 15, 3)]
    everything = sorted(bench.pools[0].inputs[:, 0].tolist())
    assert [sorted(epoch) for epoch in epochs] == [everything] * 5
    assert len({tuple(epoch) for epoch in epochs}) == 5


def test_dropout_depends_on_the_bits_alone():
    bench = Bench(dropping, batch_size=10)
    torch.manual_seed(1)
    bench.train(0)
    torch.manual_seed(2)
    torch.rand(17)
    bench.train(1)
    assert bench.models[0].tobytes() == bench.models[1].tobytes()
    bench.models[1] = bench.start
    bench.train(1, bits=BITS + 1)
    # In one batch of all samples, only dropout can make such a difference.
    assert np.abs(bench.models[0] - bench.models[1]).max() > 1e-4


@pytest.mark.parametrize("build", [plain, dropping])
def test_torchs_own_random_state_is_left_alone(build):
    torch.manual_seed(5)
    bench = Bench(build)
    before = torch.get_rng_state()
    bench.train(epochs=2)
    assert torch.equal(torch.get_rng_state(), before)
    bench.evaluate()
    assert torch.equal(torch.get_rng_state(), before)


class Failing(nn.Module):
    """Works when it is looked at and fails when it is trained."""

    def __init__(self, error: type[Exception]) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)
        self.error = error

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.training:
            torch.rand(3)
            raise self.error("cannot go on")
        return self.linear(inputs)


@pytest.mark.parametrize("error", [RuntimeError, ValueError, IndexError])
def test_a_module_that_fails_in_training_is_reported(error):
    bench = Bench(lambda: Failing(error))
    before = torch.get_rng_state()
    with pytest.raises(TrainingError, match="cannot go on"):
        bench.train()
    assert torch.equal(torch.get_rng_state(), before)
    assert bench.models[0].tobytes() == bench.start.tobytes()


class NotesThreads(nn.Module):
    """Notes how many threads it may use whenever it computes."""

    def __init__(self, seen: list[int]) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)
        self.seen = seen

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.seen.append(torch.get_num_threads())
        return self.linear(inputs)


def test_everything_runs_on_one_thread_and_the_others_are_given_back():
    """Even the first look at the module: a pool of threads would not survive the fork of workers,
    and a child whose parent had one waits for it for ever."""
    seen: list[int] = []
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        bench = Bench(lambda: NotesThreads(seen))
        bench.train()
        bench.evaluate()
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)
    assert len(seen) == 4
    assert set(seen) == {1}


@pytest.mark.parametrize("build", [normalised, counting])
def test_the_statistics_of_one_peer_do_not_reach_another(build):
    """Training a peer after another one gives the same bits as training it alone."""
    pools = [a_pool(10), a_pool(10, seed=8)]
    pools[1].inputs[:] *= 50
    together, alone = Bench(build, pools, batch_size=4), Bench(build, pools, batch_size=4)
    mine, theirs = Samples(0, 0, 10), Samples(1, 0, 10)
    together.train(1, samples=theirs, epochs=3)
    together.evaluate(1, theirs)
    losses = together.train(0, samples=mine, epochs=2), alone.train(0, samples=mine, epochs=2)
    assert losses[0] == losses[1]
    assert together.models[0].tobytes() == alone.models[0].tobytes()
    np.testing.assert_array_equal(together.evaluate(0, mine).losses, alone.evaluate(0, mine).losses)
    assert together.models[0].tobytes() != together.models[1].tobytes()


def test_batch_normalisation_trains_its_statistics():
    bench = Bench(normalised, batch_size=10)
    bench.train()
    expected = bench.module().module.train()
    expected(bench.batches[0])
    flat = bench.module(bench.models[0])
    np.testing.assert_allclose(
        flat.module[1].running_mean.numpy(), expected[1].running_mean.numpy(), rtol=1e-5, atol=1e-7
    )
    np.testing.assert_allclose(
        flat.module[1].running_var.numpy(), expected[1].running_var.numpy(), rtol=1e-5
    )


def test_the_jobs_of_a_batch_do_not_depend_on_their_order():
    forwards, backwards = Bench(dropping, batch_size=4), Bench(dropping, batch_size=4)
    jobs = [TrainJob(ModelReference("current", n), Samples(0, 0, 10), 2, 10 + n) for n in range(2)]
    first, second = forwards.trainer.train(jobs)
    assert backwards.trainer.train(jobs[::-1]) == [second, first]
    assert forwards.models.tobytes() == backwards.models.tobytes()
    assert first != second


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize(
    "settings",
    [{"optimizer": "adam"}, {"optimizer": "adamw", "weight_decay": 0.1}, {"optimizer": "sgd"}],
)
def test_training_the_last_layers_leaves_the_others_bit_for_bit(depth, settings):
    bench = Bench(deep, batch_size=4, learning_rate=0.02, **settings)
    (head,) = bench.trainer.layout.last_layers(depth)
    bench.train(epochs=3, last_layers=depth)
    assert bench.models[0][: head.start].tobytes() == bench.start[: head.start].tobytes()
    changed = bench.models[0][head] != bench.start[head]
    assert changed.mean() > 0.9


def test_the_last_layers_are_trained_as_with_a_frozen_body_by_hand():
    bench = Bench(deep, batch_size=4, learning_rate=0.02, optimizer="sgd")
    bench.train(epochs=3, last_layers=1)
    module = bench.module().module
    steps = torch.optim.SGD(module[4].parameters(), lr=0.02)
    for batch in bench.batches:
        steps.zero_grad()
        bench.loss(module(batch), bench.targets_of(batch)).mean().backward()
        steps.step()
    head = bench.module(bench.models[0]).module[4]
    for mine, theirs in zip(head.parameters(), module[4].parameters(), strict=True):
        np.testing.assert_allclose(
            mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-4, atol=1e-6
        )


def test_after_the_last_layers_everything_can_be_trained_again():
    bench, fresh = Bench(deep, batch_size=4), Bench(deep, batch_size=4)
    bench.train(1, last_layers=1)
    bench.train(0, epochs=2)
    fresh.train(0, epochs=2)
    assert bench.models[0].tobytes() == fresh.models[0].tobytes()


def test_training_the_last_layers_leaves_the_statistics_of_the_others_alone():
    """The running means of batch normalisation belong to the layers that are not trained."""
    bench = Bench(normalised, batch_size=5)
    (head,) = bench.trainer.layout.last_layers(1)
    bench.train(epochs=2, last_layers=1)
    assert bench.models[0][: head.start].tobytes() == bench.start[: head.start].tobytes()
    assert bench.models[0][head].tobytes() != bench.start[head].tobytes()


def test_parameters_the_module_froze_itself_stay_as_they_are():
    def frozen() -> nn.Module:
        module = deep()
        module[0].requires_grad_(False)
        return module

    bench = Bench(frozen, batch_size=4, optimizer="adamw", weight_decay=0.5, learning_rate=0.1)
    bench.train(epochs=3)
    first = FEATURES * 8 + 8
    assert bench.models[0][:first].tobytes() == bench.start[:first].tobytes()
    assert (bench.models[0][first:] != bench.start[first:]).all()


def test_more_last_layers_than_there_are_cannot_be_trained():
    with pytest.raises(ConfigError, match="3 layers"):
        Bench(deep).train(last_layers=4)


@pytest.mark.parametrize("build", [plain, normalised])
def test_training_that_leaves_the_finite_numbers_gives_nan(build):
    bench = Bench(build, batch_size=4, optimizer="sgd", learning_rate=1e38)
    assert np.isnan(bench.train(epochs=3))
    assert not np.isfinite(bench.models[0]).all()


def test_a_last_step_that_breaks_the_weights_is_noticed():
    """The loss is measured before the step, so it is still finite."""
    bench = Bench(regressing, regression=True, batch_size=10, optimizer="sgd", learning_rate=1e38)
    bench.pools[0].targets[:] = 1e4
    assert np.isfinite(bench.evaluate().loss)
    assert np.isnan(bench.train(epochs=1))


def test_a_broken_model_does_not_break_the_next_one():
    bench, fresh = Bench(normalised), Bench(normalised)
    bench.models[1] = np.nan
    assert np.isnan(bench.train(1))
    assert bench.train(0) == fresh.train(0)
    assert bench.models[0].tobytes() == fresh.models[0].tobytes()
    assert np.isnan(bench.evaluate(1).loss)
    assert np.isfinite(bench.evaluate(0).loss)


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
    np.testing.assert_array_equal(chosen.correct, everything.correct[CHOSEN])


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
    """Drift fills the pools anew; the trainer must not hold copies."""
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
    assert evaluation.correct is None
    assert np.isnan(evaluation.accuracy)


@pytest.mark.parametrize("batch_size", [1, 3, 4, 10])
def test_regression_is_trained_like_by_hand(batch_size):
    bench = Bench(
        regressing, regression=True, batch_size=batch_size, optimizer="sgd", learning_rate=0.01
    )
    loss = bench.train(epochs=2)
    expected, losses = bench.by_hand(torch.optim.SGD, bench.batches, lr=0.01)
    np.testing.assert_allclose(bench.models[0], expected, rtol=1e-4, atol=1e-6)
    assert loss == pytest.approx(np.mean(losses[-10:]), rel=1e-4)


@pytest.mark.parametrize(
    "build",
    [
        lambda: nn.Sequential(nn.Linear(FEATURES + 1, CLASSES)),
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, CLASSES)),
    ],
)
def test_a_module_that_does_not_take_the_data_is_refused(build):
    with pytest.raises(ConfigError, match=r"cannot take a sample of shape \(6,\)"):
        Bench(build)


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda: nn.Sequential(nn.Linear(FEATURES, CLASSES - 1)), r"\(1, 2\)"),
        (lambda: nn.Sequential(nn.Linear(FEATURES, 1), nn.Flatten(0)), r"\(1,\)"),
        (lambda: nn.Sequential(nn.Linear(FEATURES, 4), nn.Unflatten(1, (2, 2))), r"\(1, 2, 2\)"),
    ],
)
def test_a_module_with_too_few_outputs_is_refused(build, shape):
    with pytest.raises(
        ConfigError, match=rf"returns shape {shape}, but \(1, at least 3\) is needed"
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
    with pytest.raises(ConfigError, match=r"but \(1, 1\) is needed"):
        Bench(lambda: nn.Sequential(nn.Linear(FEATURES, outputs)), regression=True)


class ReturnsPair(nn.Module):
    """Returns what the trainer cannot use."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.linear(inputs), inputs


def test_a_module_that_does_not_return_a_tensor_is_refused():
    with pytest.raises(ConfigError, match="tuple"):
        Bench(ReturnsPair)


def test_evaluations_average_in_double_precision():
    """A million losses of 0.1 in float32 have a mean of 0.1, whatever they would sum up to."""
    losses = np.full(1_000_001, 0.1, dtype=np.float32)
    losses[0] = 1e5
    exact = (float(np.float32(1e5)) + 1e6 * float(np.float32(0.1))) / 1_000_001
    assert Evaluation(losses, None).loss == pytest.approx(exact, rel=1e-12)
