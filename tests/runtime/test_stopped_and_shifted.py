"""What stopped peers still do for others, and what peers keep after a shift."""

from __future__ import annotations

import numpy as np
from small_runs import drifting_simulation

from coterie.learning.settings import TrainingSettings
from coterie.learning.trainer import EvaluateJob, ModelReference
from coterie.strategies.dac import DAC
from coterie.strategies.greedy import Greedy

ALL_PEERS = np.arange(6)


def test_who_has_stopped_still_measures_others_models(make_simulation):
    """An accuracy reported by a stopped peer is that of my model on its training data."""
    settings = {"patience": 1, "rounds": 30, "training": TrainingSettings(learning_rate=0.2)}
    with make_simulation(lambda: Greedy(fetches=1, samples=5), **settings) as simulation:
        state = simulation.state
        while not state.progress.stopped.any():
            simulation.advance()
        stopped = np.flatnonzero(state.progress.stopped)
        active = np.flatnonzero(~state.progress.stopped)
        assert len(active), "the test needs a peer that continues"
        pairs = [(peer, judge) for peer in active for judge in stopped]
        jobs = [
            EvaluateJob(ModelReference("published", int(peer)), state.samples[judge].train)
            for peer, judge in pairs
        ]
        expected = [result.score for result in state.trainer.evaluate(jobs)]
        simulation.advance()
        tables = [strategy.table.similarities(ALL_PEERS) for strategy in _strategies(simulation)]
    assert [tables[peer][judge] for peer, judge in pairs] == expected


def test_a_shift_leaves_tables_as_they_are():
    """What was measured on the old data stays until it is measured again."""
    with drifting_simulation(lambda: DAC(fetches=1, tau=0.0, two_hop=False)) as simulation:
        for _ in range(4):
            simulation.advance()
        all_peers = np.arange(4)
        before = [each.table.similarities(all_peers) for each in _strategies(simulation)]
        now = simulation.advance()
        assert now.step == 1
        after = [each.table.similarities(all_peers) for each in _strategies(simulation)]
        columns = now.exchanges.columns()
    kept = 0
    for peer, (old, new) in enumerate(zip(before, after, strict=True)):
        met = columns["sender"][columns["receiver"] == peer]
        others = np.setdiff1d(all_peers, met)
        np.testing.assert_array_equal(new[others], old[others])
        kept += np.count_nonzero(~np.isnan(new[others]))
    assert kept > 0


def _strategies(simulation):
    return simulation._runtime.strategies
