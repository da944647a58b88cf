"""What a round costs a peer is told apart: work, and waiting."""

from __future__ import annotations

import time

import numpy as np

from coterie.learning.trainer import Trainer
from coterie.peer.cost import CostAccounting


class SlowTrainer(Trainer):
    """Takes its time: half a tenth of a second of computing, or of nothing."""

    name = "slow"
    layout = None
    is_closed = False

    def train(self, jobs):
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
        return [0.0 for _ in jobs]

    def evaluate(self, jobs):
        time.sleep(0.05)
        return list(jobs)

    def close(self):
        self.is_closed = True


def test_work_is_counted_and_each_round_for_itself():
    costs = CostAccounting()
    trainer = costs.wrap_trainer(SlowTrainer())
    assert trainer.train([None, None]) == [0.0, 0.0]
    first = costs.take_columns(3.0)
    assert trainer.evaluate([1]) == [1]
    second = costs.take_columns(3.5)
    assert first["wait_seconds"] == 3.0
    assert second["wait_seconds"] == 0.5
    assert first["work_cpu_seconds"] >= 0.05
    assert second["work_cpu_seconds"] < first["work_cpu_seconds"]
    for row in (first, second):
        assert row["wall_seconds"] >= row["work_seconds"] >= 0.05
    np.testing.assert_array_equal(first["peer"], [0])


def test_a_trainer_is_counted_once_and_closed_with_its_counter():
    costs, inner = CostAccounting(), SlowTrainer()
    trainer = costs.wrap_trainer(inner)
    assert costs.wrap_trainer(trainer) is trainer
    assert trainer.name == "slow"
    trainer.close()
    assert inner.is_closed
