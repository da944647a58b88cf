"""Measuring models by their weights and by their change."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.errors import StrategyError
from coterie.runtime.published_models import PublishedModels
from coterie.runtime.scoring import ScoreJob, cosine, distance, score_models
from coterie.strategies.dac import DAC
from coterie.strategies.local import Local
from coterie.strategies.pens import PENS


def test_cosine_and_distance_by_hand():
    one, other = np.array([3, 0], np.float32), np.array([3, 4], np.float32)
    assert cosine(one, other) == pytest.approx(0.6)
    assert cosine(one, -other) == pytest.approx(-0.6)
    assert distance(one, other) == 4.0
    assert np.isnan(cosine(one, np.zeros(2, np.float32)))


def test_changes_are_measured_from_the_right_start(make_simulation):
    """Δ_last is the change over the last local training, Δ_init that since the initial weights."""
    dac = {"fetches": 2, "metric": "cosine-gradients", "alpha": 0.5}
    with make_simulation(lambda: DAC(**dac), initialisation="independent") as simulation:
        state = simulation.state
        initial = state.current.copy()
        simulation.advance()
        first = state.published.copy()
        assert score_models(
            state, PublishedModels(state, []), [ScoreJob(1, 0, "cosine-last-update")]
        ) == pytest.approx([cosine(first[1] - initial[1], first[0] - initial[0])])
        merged = []
        train = state.trainer.train
        state.trainer.train = lambda jobs: (merged.append(state.current.copy()), train(jobs))[1]
        simulation.advance()
        now = state.published
        jobs = [ScoreJob(1, 0, "cosine-last-update"), ScoreJob(1, 0, "cosine-total-update")]
        assert score_models(state, PublishedModels(state, []), jobs) == pytest.approx(
            [
                cosine(now[1] - merged[0][1], now[0] - merged[0][0]),
                cosine(now[1] - initial[1], now[0] - initial[0]),
            ]
        )


@pytest.mark.parametrize(
    ("initialisation", "alpha", "vectors"),
    [("common", 1.0, 2), ("common", 0.0, 1), ("independent", 0.0, 2), ("independent", 0.5, 3)],
)
def test_changes_that_must_travel_are_counted(make_simulation, initialisation, alpha, vectors):
    """A receiver cannot work out a sender's change from its model alone, unless all start alike."""
    dac = {"fetches": 2, "metric": "cosine-gradients", "alpha": alpha, "two_hop": False}
    with make_simulation(lambda: DAC(**dac), initialisation=initialisation) as simulation:
        simulation.advance()
        now = simulation.advance()
        size = simulation.state.layout.num_bytes
        assert set(now.exchanges.columns()["bytes"]) == {vectors * size}


def test_tables_that_travel_are_counted(make_simulation):
    with make_simulation(lambda: DAC(fetches=2)) as simulation:
        simulation.advance()
        simulation.advance()
        now = simulation.advance()
        size = simulation.state.layout.num_bytes
        assert set(now.exchanges.columns()["bytes"]) == {size + 2 * (32 + 8)}


def test_an_unannounced_change_cannot_be_measured(make_simulation):
    with make_simulation(Local) as simulation:
        simulation.advance()
        with pytest.raises(StrategyError, match=r"which its required_metrics\(\) must return"):
            score_models(
                simulation.state,
                PublishedModels(simulation.state, []),
                [ScoreJob(1, 0, "cosine-total-update")],
            )


class _Forgetful(dict):
    """Remembers what was measured only until the next job."""

    def __contains__(self, pair):
        return False


def _asked_for(simulation):
    """Note every evaluation of a published model that the trainer is asked for."""
    asked = []
    evaluate = simulation.state.trainer.evaluate

    def noting(jobs):
        asked.extend(
            (job.model.row, job.samples.pool, job.samples.start)
            for job in jobs
            if job.model.matrix == "published"
        )
        return evaluate(jobs)

    simulation.state.trainer.evaluate = noting
    return asked


@pytest.mark.parametrize("schedule", ["synchronous", "sequential"])
def test_a_model_is_evaluated_once_while_it_is_the_same(make_simulation, schedule):
    """However often PENS samples in a round; a new model is evaluated again."""
    pens = {"fetches": 1, "samples": 4, "samplings": 5, "later_fetches": 2}
    with (
        make_simulation(lambda: PENS(**pens), schedule=schedule) as careful,
        make_simulation(lambda: PENS(**pens), schedule=schedule) as forgetful,
    ):
        forgetful._runtime._evaluated = _Forgetful()
        often = _asked_for(forgetful)
        once = _asked_for(careful)
        for _ in range(3):
            once.clear()
            often.clear()
            careful.advance()
            forgetful.advance()
            if schedule == "synchronous":
                assert len(set(once)) == len(once)
        assert 0 < len(once) < len(often)
        np.testing.assert_array_equal(careful.state.current, forgetful.state.current)
