"""The same bits for any number of threads; and the same results for every kind of processor."""

from __future__ import annotations

import numpy as np
import pytest
from native_bench import DIGITS_LIKE, LEVELS, NativeBench, digits_like, image_pool
from small_runs import assert_same_table, metrics_of

from coterie.data.digits import read_digits
from coterie.data.drift import RandomDrift
from coterie.data.pools import Samples
from coterie.data.scenario import PeerSettings, Scenario
from coterie.data.shifts import RotationShift
from coterie.learning.settings import TrainingSettings
from coterie.learning.trainer import EvaluateJob, ModelReference, TrainJob
from coterie.models.architectures import ARCHITECTURES
from coterie.runtime.settings import SimulationSettings
from coterie.simulation.simulation import Simulation
from coterie.strategies import make_strategy

SIZES = [1, 2, 3, 5, 8, 9, 13, 21, 34, 40, 7, 40, 1]


def run_jobs(threads: int, level: str | None = None) -> tuple[list[float], bytes, list[bytes]]:
    """Train and evaluate models of uneven sizes, more of them than threads."""
    pool = image_pool(40, DIGITS_LIKE, 4)
    bench = NativeBench(
        digits_like, pool, threads=threads, level=level, num_models=len(SIZES), batch_size=5
    )
    references = [ModelReference("current", row) for row in range(len(SIZES))]
    losses = bench.trainer.train(
        [
            TrainJob(model, Samples(0, 0, size), 1 + size % 3, 100 + size, [None, 1, 3][size % 3])
            for model, size in zip(references, SIZES, strict=True)
        ]
    )
    evaluations = bench.trainer.evaluate(
        [EvaluateJob(model, Samples(0, 0, size)) for model in references for size in SIZES]
    )
    bench.trainer.close()
    return losses, bench.models.tobytes(), [one.losses.tobytes() for one in evaluations]


@pytest.mark.parametrize("level", LEVELS)
def test_the_number_of_threads_changes_no_bit(level):
    alone = run_jobs(1, level)
    assert len(set(alone[2])) > 100
    for threads in (2, 3, 20):
        assert run_jobs(threads, level) == alone


def test_all_levels_agree():
    """But for rounding: they add in another order."""
    losses, models, evaluations = run_jobs(1, LEVELS[0])
    for level in LEVELS[1:]:
        other = run_jobs(1, level)
        np.testing.assert_allclose(other[0], losses, rtol=1e-4)
        np.testing.assert_allclose(
            np.frombuffer(other[1], np.float32), np.frombuffer(models, np.float32), atol=1e-3
        )
        for mine, theirs in zip(other[2], evaluations, strict=True):
            np.testing.assert_allclose(
                np.frombuffer(mine, np.float32), np.frombuffer(theirs, np.float32), rtol=1e-2
            )


def simulation(threads: int) -> Simulation:
    """Fourteen peers with digits, turned by two angles, that ask each other and drift."""
    digits = read_digits()
    concepts = RotationShift(angles=(0, 90)).concepts([digits], 0)
    peers = PeerSettings(count=14, train_size=24, validation_size=10)
    return Simulation(
        Scenario([digits], concepts, peers, RandomDrift(every=2), rounds=4),
        ARCHITECTURES["digits-cnn"].build,
        lambda: make_strategy("dac", {"fetches": 3}),
        SimulationSettings(rounds=4, training=TrainingSettings(trainer="native")),
        threads=threads,
        tell=pytest.fail,
    )


def test_a_whole_simulation_is_the_same_for_any_number_of_threads():
    results = []
    for threads in (1, 2, 3):
        with simulation(threads) as running:
            results.append((metrics_of(running), running.best_models().tobytes()))
    for table, models in results[1:]:
        assert_same_table(table, results[0][0])
        assert models == results[0][1]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_closed_trainer_says_so_instead_of_waiting_for_ever(threads):
    bench = NativeBench(digits_like, image_pool(4, DIGITS_LIKE, 4), threads=threads)
    job = EvaluateJob(ModelReference("current", 0), Samples(0, 0, 4))
    bench.trainer.evaluate([job])
    bench.trainer.close()
    with pytest.raises(RuntimeError, match="closed"):
        bench.trainer.evaluate([job])
