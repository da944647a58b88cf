"""The memory of best models, by loss and by averaged accuracy, and early stopping."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

from coterie.data.peer_arrays import PeerArrays, PeerData
from coterie.runtime.early_stopping import WINDOW, EarlyStopping
from coterie.runtime.settings import SimulationSettings
from coterie.simulation.simulation import Simulation
from coterie.strategies.local import Local
from coterie.tasks.score import ACCURACY

UNUSED = np.full(1, np.nan)


def progress(num_peers: int = 1, **settings: object) -> EarlyStopping:
    return EarlyStopping(SimulationSettings(**settings), num_peers, ACCURACY)


def by_loss(progress: EarlyStopping, round_number: int, *losses: float) -> list[int]:
    all_peers = np.arange(len(losses))
    unused = np.full(len(losses), np.nan)
    return progress.consider(all_peers, round_number, np.array(losses), unused).tolist()


def by_accuracy(progress: EarlyStopping, round_number: int, accuracy: float) -> bool:
    """Return whether the only peer has a new best."""
    return progress.consider(np.array([0]), round_number, UNUSED, np.array([accuracy])).size == 1


def test_the_lowest_loss_is_the_best():
    mine = progress(3)
    assert by_loss(mine, 0, 3.0, 1.0, 2.0) == [0, 1, 2]
    assert by_loss(mine, 1, 2.0, 1.5, 1.9) == [0, 2]
    assert by_loss(mine, 2, 2.5, 0.5, 1.8) == [1, 2]
    np.testing.assert_array_equal(mine.best_value, [2.0, 0.5, 1.8])
    np.testing.assert_array_equal(mine.best_round, [1, 2, 2])


def test_only_the_peers_asked_about_change():
    mine = progress(4)
    by_loss(mine, 0, 1.0, 1.0, 1.0, 1.0)
    improved = mine.consider(np.array([3, 1]), 5, np.array([0.5, 2.0]), np.full(2, np.nan))
    assert improved.tolist() == [3]
    np.testing.assert_array_equal(mine.best_value, [1.0, 1.0, 1.0, 0.5])
    np.testing.assert_array_equal(mine.best_round, [0, 0, 0, 5])


def test_the_accuracy_does_not_matter_when_the_loss_decides():
    mine = progress(1, best_by="loss")
    mine.consider(np.array([0]), 0, np.array([1.0]), np.array([0.1]))
    improved = mine.consider(np.array([0]), 1, np.array([1.1]), np.array([0.9]))
    assert improved.size == 0


def test_the_best_by_accuracy_is_a_moving_average_over_five_validations():
    mine = progress(1, best_by="score")
    accuracies = [0.5, 0.75, 0.25, 1.0, 0.5, 0.0, 1.0, 1.0]
    # By hand: the means of the last five, or of all there are.
    averages = [0.5, 0.625, 0.5, 0.625, 0.6, 0.5, 0.55, 0.7]
    is_new = [True, True, False, False, False, False, False, True]
    best = [0.5, 0.625, 0.625, 0.625, 0.625, 0.625, 0.625, 0.7]
    for number, accuracy in enumerate(accuracies):
        assert np.mean(accuracies[max(0, number - 4) : number + 1]) == averages[number]
        assert by_accuracy(mine, number, accuracy) is is_new[number]
        assert mine.best_value[0] == pytest.approx(-best[number], abs=1e-15)
    assert mine.best_round[0] == 7
    assert WINDOW == 5


def test_the_best_by_highest_accuracy_is_the_highest_single_one():
    mine = progress(1, best_by="best-score")
    accuracies = [0.5, 0.75, 0.25, 1.0, 0.5, 1.0]
    assert [by_accuracy(mine, number, each) for number, each in enumerate(accuracies)] == [
        True, True, False, True, False, False
    ]  # fmt: skip
    assert mine.best_value[0] == -1.0
    assert mine.best_round[0] == 3


def test_with_the_highest_accuracy_patience_counts_rounds_since_the_lowest_loss():
    mine = progress(2, best_by="best-score", patience=3)
    losses = np.array([[1.0, 1.0], [0.9, 1.1], [0.8, 1.2], [0.7, 1.3], [0.6, 1.4]])
    accuracies = np.array([[0.9, 0.1], [0.5, 0.2], [0.4, 0.3], [0.3, 0.4], [0.2, 0.5]])
    stopping = []
    for number in range(5):
        mine.consider(np.arange(2), number, losses[number], accuracies[number])
        stopping.append(mine.stop_early(number).tolist())
    assert stopping == [[], [], [], [1], []], "the second peer's loss has only grown"
    assert mine.best_round.tolist() == [0, 4], "the first peer's accuracy has only fallen"


def test_new_data_forget_the_lowest_loss():
    mine = progress(1, best_by="best-score", patience=2)
    mine.consider(np.array([0]), 0, np.array([0.1]), np.array([0.5]))
    mine.reset(5)
    for number in (5, 6):
        mine.consider(np.array([0]), number, np.array([7.0 - number]), np.array([0.5]))
    assert mine.stop_early(7).tolist() == []
    assert mine.stop_early(8).tolist() == [0]


def test_checkpoints_without_a_lowest_loss_can_be_gone_on_from():
    mine = progress(1, patience=3)
    by_loss(mine, 2, 0.5)
    saved = {k: v for k, v in mine.save().items() if not k.startswith("lowest_loss")}
    restored = progress(1, patience=3)
    restored.restore(saved)
    assert restored.stop_early(4).tolist() == []
    assert restored.stop_early(5).tolist() == [0]


def test_the_averages_of_peers_do_not_mix():
    mine = progress(2, best_by="score")
    first, second = np.array([0]), np.array([1])
    for number in range(4):
        mine.consider(first, number, UNUSED, np.array([1.0]))
        mine.consider(second, number, UNUSED, np.array([0.25]))
    np.testing.assert_array_equal(mine.best_value, [-1.0, -0.25])


@pytest.mark.parametrize("best_by", ["loss", "score", "best-score"])
def test_of_equals_the_older_stays_the_best(best_by):
    mine = progress(1, best_by=best_by)
    value = np.array([0.5])
    assert mine.consider(np.array([0]), 2, value, value).size == 1
    for number in range(3, 10):
        assert mine.consider(np.array([0]), number, value, value).size == 0
    assert mine.best_round[0] == 2


def test_a_loss_that_is_not_a_number_is_never_the_best():
    mine = progress(1)
    assert by_loss(mine, 0, np.nan) == []
    assert by_loss(mine, 1, 2.0) == [0]
    assert by_loss(mine, 2, np.nan) == []
    assert by_loss(mine, 3, 1.0) == [0]
    assert mine.best_value[0] == 1.0
    assert mine.best_round[0] == 3


def test_of_errors_the_lowest_is_the_best():
    rng = np.random.default_rng(0)
    part = (rng.normal(size=(8, 2)).astype(np.float32), rng.normal(size=8).astype(np.float32))
    datasets = PeerArrays([PeerData(part, part, part)] * 2)
    found = []
    for best_by in ("loss", "best-score"):
        settings = SimulationSettings(best_by=best_by, rounds=9)
        with Simulation(datasets, lambda: nn.Linear(2, 1), Local, settings) as simulation:
            while not simulation.finished:
                simulation.advance()
            found.append(simulation.best_models())
    np.testing.assert_array_equal(*found)


def test_patience_counts_rounds_since_the_best():
    mine = progress(2, patience=3)
    by_loss(mine, 0, 1.0, 1.0)
    by_loss(mine, 2, 2.0, 0.5)
    assert mine.stop_early(2).tolist() == []
    assert mine.stop_early(3).tolist() == [0]
    assert mine.stop_early(4).tolist() == []
    assert mine.stop_early(5).tolist() == [1]
    assert mine.stopped.tolist() == [True, True]


def test_only_newly_stopped_peers_are_reported():
    mine = progress(3, patience=1)
    by_loss(mine, 0, 1.0, 1.0, 1.0)
    by_loss(mine, 1, 0.5, 2.0, 2.0)
    assert mine.stop_early(1).tolist() == [1, 2]
    assert mine.stop_early(1).tolist() == []
    assert mine.stop_early(2).tolist() == [0]
    assert mine.stop_early(3).tolist() == []


def test_without_patience_nobody_ever_stops():
    mine = progress(2)
    by_loss(mine, 0, 1.0, 1.0)
    assert mine.stop_early(10_000).tolist() == []
    assert not mine.stopped.any()


def test_new_data_wake_everybody_and_forget_the_bests():
    mine = progress(2, patience=2)
    by_loss(mine, 0, 0.1, 0.1)
    assert mine.stop_early(4).tolist() == [0, 1]
    mine.reset(5)
    assert not mine.stopped.any()
    assert by_loss(mine, 5, 7.0, 9.0) == [0, 1]
    np.testing.assert_array_equal(mine.best_value, [7.0, 9.0])


def test_patience_counts_from_the_last_round_on_the_old_data():
    mine = progress(1, patience=3)
    by_loss(mine, 0, 0.1)
    mine.stop_early(10)
    mine.reset(20)
    assert [mine.stop_early(number).tolist() for number in (20, 21, 22, 23)] == [
        [],
        [],
        [0],
        [],
    ]


def test_new_data_forget_the_accuracies_on_the_old():
    mine = progress(1, best_by="score")
    for number in range(5):
        by_accuracy(mine, number, 1.0)
    mine.reset(5)
    by_accuracy(mine, 5, 0.25)
    assert mine.best_value[0] == -0.25


@pytest.mark.parametrize("best_by", ["loss", "score", "best-score"])
def test_restored_progress_goes_on_like_the_one_that_was_saved(best_by):
    rng = np.random.default_rng(0)
    values = rng.random((12, 4))
    steady = progress(4, best_by=best_by, patience=4)
    all_peers = np.arange(4)

    def step(mine: EarlyStopping, number: int) -> tuple[list[int], list[int]]:
        improved = mine.consider(all_peers, number, values[number], values[number])
        return improved.tolist(), mine.stop_early(number).tolist()

    for number in range(6):
        step(steady, number)
    saved = {name: array.copy() for name, array in steady.save().items()}
    later = [step(steady, number) for number in range(6, 12)]
    restored = progress(4, best_by=best_by, patience=4)
    restored.restore(saved)
    assert [step(restored, number) for number in range(6, 12)] == later
    assert any(stopped for _, stopped in later)
    for name, array in steady.save().items():
        np.testing.assert_array_equal(restored.save()[name], array)


def test_restoring_does_not_tie_progress_to_the_saved_arrays():
    mine = progress(2)
    saved = {name: array.copy() for name, array in mine.save().items()}
    mine.restore(saved)
    by_loss(mine, 1, 1.0, 2.0)
    assert np.isinf(saved["best_value"]).all()
