"""A training depends on its model, data and bits alone, and leaves everything else as it was."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch
from small_runs import CLASSES, FEATURES
from small_runs import small_module as plain
from torch import nn
from torch_bench import BITS, Bench, a_pool, counting, dropping, normalised, order

from coterie.data.pools import Samples
from coterie.errors import TrainingError
from coterie.learning.trainer import ModelReference, TrainJob


@pytest.mark.parametrize("build", [plain, dropping, normalised, counting])
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_the_same_start_and_bits_give_the_same_model_bit_for_bit(build, optimizer):
    bench = Bench(build, batch_size=4, optimizer=optimizer, momentum=0.5)
    first = bench.train(0, epochs=3)
    second = bench.train(1, epochs=3)
    assert first == second
    assert bench.models[0].tobytes() == bench.models[1].tobytes()
    assert bench.models[0].tobytes() != bench.start.tobytes()


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


def test_the_jobs_of_a_batch_do_not_depend_on_their_order():
    forwards, backwards = Bench(dropping, batch_size=4), Bench(dropping, batch_size=4)
    jobs = [TrainJob(ModelReference("current", n), Samples(0, 0, 10), 2, 10 + n) for n in range(2)]
    first, second = forwards.trainer.train(jobs)
    assert backwards.trainer.train(jobs[::-1]) == [second, first]
    assert forwards.models.tobytes() == backwards.models.tobytes()
    assert first != second


def test_a_broken_model_does_not_break_the_next_one():
    bench, fresh = Bench(normalised), Bench(normalised)
    bench.models[1] = np.nan
    assert np.isnan(bench.train(1))
    assert bench.train(0) == fresh.train(0)
    assert bench.models[0].tobytes() == fresh.models[0].tobytes()
    assert np.isnan(bench.evaluate(1).loss)
    assert np.isfinite(bench.evaluate(0).loss)
