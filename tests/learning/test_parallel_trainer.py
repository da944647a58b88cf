"""Workers give the same bits as one process, and none is left when a process dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np
import psutil
import pytest
import torch
from torch import nn

from coterie.data.pools import Pool, Samples
from coterie.errors import TrainingError
from coterie.learning.parallel_trainer import ParallelTrainer
from coterie.learning.settings import TrainingSettings
from coterie.learning.torch_trainer import TorchTrainer
from coterie.learning.trainer import EvaluateJob, ModelReference, TrainJob, Workspace
from coterie.models.vector import initial_vector
from coterie.processes.shared_memory import shared_array
from coterie.strategies.random import Random
from coterie.tasks import Task

FEATURES, CLASSES, MODELS, SAMPLES = 6, 3, 9, 14


def a_module() -> nn.Module:
    return nn.Sequential(
        nn.Linear(FEATURES, 16),
        nn.BatchNorm1d(16),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(16, CLASSES),
    )


class Failing(nn.Module):
    """Works when it is looked at and fails when it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.training:
            raise RuntimeError("cannot go on")
        return self.linear(inputs)


def a_workspace(build: Callable[[], nn.Module] = a_module) -> Workspace:
    """Return models and data in shared memory, the same every time."""
    rng = np.random.default_rng(0)
    pool = Pool(
        shared_array((MODELS * SAMPLES, FEATURES), np.float32),
        shared_array((MODELS * SAMPLES,), np.int64),
    )
    pool.inputs[:] = rng.normal(size=pool.inputs.shape)
    pool.targets[:] = rng.integers(0, CLASSES, len(pool.targets))
    start = [initial_vector(build, number) for number in range(MODELS)]
    models = shared_array((MODELS, len(start[0])), np.float32)
    models[:] = start
    return Workspace([pool], {"current": models})


def serial(workspace: Workspace, build: Callable[[], nn.Module] = a_module) -> TorchTrainer:
    settings = TrainingSettings(batch_size=4, learning_rate=0.01)
    return TorchTrainer(build, settings, workspace, Task())


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


@contextmanager
def parallel(
    workspace: Workspace, build: Callable[[], nn.Module] = a_module, workers: int = 2
) -> Iterator[tuple[ParallelTrainer, set[int]]]:
    """Yield a trainer and its workers, and see to it that they end."""
    before = children()
    trainer = ParallelTrainer(serial(workspace, build), workers)
    try:
        yield trainer, children() - before
    finally:
        trainer.close()


def samples(number: int) -> Samples:
    return Samples(0, number * SAMPLES, (number + 1) * SAMPLES)


def training(**changes: object) -> list[TrainJob]:
    settings = {"epochs": 2, **changes}
    return [
        TrainJob(ModelReference("current", n), samples(n), bits=100 + n, **settings)
        for n in range(MODELS)
    ]


def evaluating() -> list[EvaluateJob]:
    """Return jobs that evaluate every model on ranges and on chosen rows."""
    chosen = Samples(0, 0, 40, np.array([30, 2, 5]))
    return [
        EvaluateJob(ModelReference("current", n), part)
        for n in range(MODELS)
        for part in (samples((n + 1) % MODELS), chosen)
    ]


def is_gone(pid: int) -> bool:
    """Return whether a process has ended; its result may not have been read yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_workers_see_matrices_that_were_allocated_after_they_were_forked():
    workspace = a_workspace()
    jobs = [EvaluateJob(ModelReference("late", n), samples(n)) for n in range(MODELS)]
    with parallel(workspace) as (trainer, _):
        for num_rows in (MODELS, 100 * MODELS):  # the second takes the place of the first
            late = workspace.allocate("late", (num_rows, workspace.matrices["current"].shape[1]))
            late[:MODELS] = workspace.matrices["current"] * np.float32(num_rows)
            expected = serial(workspace).evaluate(jobs)
            for mine, other in zip(trainer.evaluate(jobs), expected, strict=True):
                np.testing.assert_array_equal(mine.losses, other.losses)
        trained = [
            TrainJob(ModelReference("late", n), samples(n), 1, bits=n) for n in range(MODELS)
        ]
        before = late[:MODELS].copy()
        trainer.train(trained)
        assert (late[:MODELS] != before).any(axis=1).all(), "a worker trains what its parent sees"


@pytest.mark.parametrize("last_layers", [None, 1])
def test_the_same_bits_as_in_one_process(last_layers):
    ours, theirs = a_workspace(), a_workspace()
    alone = serial(theirs)
    with parallel(ours) as (trainer, _):
        start = ours.matrices["current"].copy()
        for _ in range(2):
            jobs = training(last_layers=last_layers)
            assert trainer.train(jobs) == alone.train(jobs)
            assert ours.matrices["current"].tobytes() == theirs.matrices["current"].tobytes()
        assert (ours.matrices["current"] != start).any(axis=1).all()
        results = zip(trainer.evaluate(evaluating()), alone.evaluate(evaluating()), strict=True)
        for mine, expected in results:
            assert mine.losses.tobytes() == expected.losses.tobytes()
            assert mine.score == expected.score
            assert mine.losses.dtype == expected.losses.dtype


@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_workers_gives_the_same_bits(workers):
    ours, theirs = a_workspace(), a_workspace()
    with parallel(ours, workers=workers) as (trainer, started):
        assert len(started) == workers
        assert trainer.train(training()) == serial(theirs).train(training())
    assert ours.matrices["current"].tobytes() == theirs.matrices["current"].tobytes()


def test_many_jobs_come_back_in_order():
    workspace = a_workspace()
    jobs = evaluating() * 10
    expected = [each.loss for each in serial(workspace).evaluate(jobs)]
    with parallel(workspace) as (trainer, _):
        assert [each.loss for each in trainer.evaluate(jobs)] == expected


def test_no_jobs_are_no_work():
    with parallel(a_workspace()) as (trainer, _):
        assert trainer.train([]) == []
        assert trainer.evaluate([]) == []


def test_the_layout_is_that_of_the_trainer():
    workspace = a_workspace()
    with parallel(workspace) as (trainer, _):
        assert trainer.layout == serial(workspace).layout


def test_workers_see_models_and_data_that_change_after_they_started():
    ours, theirs = a_workspace(), a_workspace()
    with parallel(ours) as (trainer, _):
        for workspace in (ours, theirs):
            workspace.matrices["current"][:] *= 2
            workspace.pools[0].inputs[:] *= -1
        alone = serial(theirs).evaluate(evaluating())
        assert [each.loss for each in trainer.evaluate(evaluating())] == [e.loss for e in alone]


def test_the_random_state_of_torch_is_left_alone():
    with parallel(a_workspace()) as (trainer, _):
        before = torch.get_rng_state()
        trainer.train(training())
        assert torch.equal(torch.get_rng_state(), before)


def test_the_error_of_a_module_comes_through():
    with parallel(a_workspace(Failing), Failing) as (trainer, _):
        with pytest.raises(TrainingError, match="cannot go on"):
            trainer.train(training())
        assert len(trainer.evaluate(evaluating())) == 2 * MODELS


def test_close_leaves_no_processes():
    before = children()
    with parallel(a_workspace()) as (trainer, started):
        trainer.train(training())
        assert len(started) == 2
        trainer.close()
        assert children() == before
        assert all(is_gone(pid) for pid in started)


@pytest.mark.parametrize("victims", [1, 2])
def test_a_killed_worker_is_reported(victims):
    before = children()
    with parallel(a_workspace()) as (trainer, started):
        trainer.train(training())
        killed = sorted(started)[:victims]
        for pid in killed:
            with suppress(ProcessLookupError):  # the pool ends all when the first is gone
                os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: all(is_gone(pid) for pid in killed))
        for work, jobs in ((trainer.train, training()), (trainer.evaluate, evaluating())):
            with pytest.raises(TrainingError, match="A worker process died"):
                work(jobs)
        trainer.close()
        assert wait_until(lambda: children() == before)


def test_a_worker_killed_at_work_is_reported():
    """Its jobs would take far longer than this test may."""
    with parallel(a_workspace()) as (trainer, started):
        previous = signal.signal(signal.SIGALRM, lambda *_: os.kill(min(started), signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            with pytest.raises(TrainingError, match="resume the run"):
                trainer.train(training(epochs=10_000))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)


def test_workers_leave_ctrl_c_to_their_parent():
    with parallel(a_workspace()) as (trainer, started):
        for pid in started:
            os.kill(pid, signal.SIGINT)
        assert len(trainer.train(training())) == MODELS
        assert all(not is_gone(pid) for pid in started)


def test_workers_outlive_the_thread_that_started_them():
    """A notebook may set a run up in one thread and drive it in another."""
    workspace, made = a_workspace(), []
    thread = threading.Thread(target=lambda: made.append(ParallelTrainer(serial(workspace), 2)))
    thread.start()
    thread.join()
    (trainer,) = made
    try:
        time.sleep(0.2)
        assert len(trainer.train(training())) == MODELS
    finally:
        trainer.close()


ORPHANS = """
import sys, time
sys.path[:0] = [sys.argv[1]]
import test_parallel_trainer as here

with here.parallel(here.a_workspace()) as (trainer, workers):
    trainer.train(here.training())
    print(*workers, flush=True)
    time.sleep(600)
"""


def test_workers_end_with_a_killed_parent():
    folder = os.path.dirname(__file__)
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(ORPHANS), folder], stdout=subprocess.PIPE, text=True
    ) as parent:
        try:
            workers = [int(pid) for pid in parent.stdout.readline().split()]
            assert len(workers) == 2
            assert not any(is_gone(pid) for pid in workers)
        finally:
            parent.kill()
    assert parent.returncode == -signal.SIGKILL
    assert wait_until(lambda: all(is_gone(pid) for pid in workers))


def test_a_simulation_gives_the_same_results_with_workers(make_simulation):
    results = []
    for threads in (1, 2):
        before = children()
        by_torch = TrainingSettings(trainer="torch")
        make = partial(make_simulation, lambda: Random(fetches=2), training=by_torch)
        with make(threads=threads) as simulation:
            assert len(children() - before) == (0 if threads == 1 else 2)
            rounds = [simulation.advance() for _ in range(3)]
            measures = [now.measures[name].tobytes() for now in rounds for name in now.measures]
            results.append((simulation.best_models().tobytes(), measures))
        assert children() == before
    assert results[0] == results[1]
