"""DelusionalOracle and IFCA, rule by rule."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.learning.trainer import EvaluateJob, ModelReference
from coterie.runtime.loop import run_to_end
from coterie.runtime.recorder import Recorder
from coterie.strategies.delusional_oracle import DelusionalOracle
from coterie.strategies.server.ifca import IFCA


def test_delusional_peers_sample_only_from_the_other_cluster(make_simulation):
    """The first two peers of cluster 1, which are 1 and 3, from round 2 on; no others."""
    with make_simulation(
        lambda: DelusionalOracle(fetches=2, delusional=2, cluster=1, from_round=2), rounds=4
    ) as simulation:
        simulation.advance()
        while not simulation.finished:
            now = simulation.advance()
            columns = now.exchanges.columns()
            receiver, same = columns["receiver"], columns["sender"] % 2 == columns["receiver"] % 2
            deluded = np.isin(receiver, [1, 3]) & (now.number >= 2)
            assert not same[deluded].any()
            assert same[~deluded].all()
            assert set(receiver) == set(range(6))


def test_ifca_clients_join_the_model_with_the_lowest_loss(make_simulation):
    with make_simulation(lambda: IFCA(fetches=6, models=3), [30] * 6) as simulation:
        state = simulation.state
        assert len(np.unique(state.server, axis=0)) == 3, "models that start alike never part"
        simulation.advance()
        while not simulation.finished:
            jobs = [
                EvaluateJob(ModelReference("server", model), state.samples[peer].train)
                for peer in range(6)
                for model in range(3)
            ]
            losses = [result.loss for result in state.trainer.evaluate(jobs)]
            expected = np.reshape(losses, (6, 3)).argmin(axis=1)
            simulation.advance()
            strategy = simulation._runtime.strategy
            assert [strategy.model_of(peer, None) for peer in range(6)] == expected.tolist()
            np.testing.assert_array_equal(state.current, state.server[expected])


def test_ifca_counts_every_model_it_sends(make_simulation):
    with make_simulation(lambda: IFCA(fetches=4, models=3)) as simulation:
        simulation.advance()
        kinds = simulation.advance().exchanges.columns()["kind"].tolist()
        assert kinds.count("download") == 4 * 3
        assert kinds.count("upload") == 4


def test_ifca_averages_by_sample_counts(make_simulation):
    """With one model it is FedAvg, but for the downloads."""
    from coterie.strategies.server.fedavg import FedAvg

    sizes = [8, 16, 24, 32]
    servers = []
    for make in (lambda: IFCA(fetches=2, models=1), lambda: FedAvg(fetches=2)):
        with make_simulation(make, sizes, rounds=2, initialisation="independent") as simulation:
            run_to_end(simulation, Recorder())
            servers.append(simulation.state.server[0].copy())
    np.testing.assert_allclose(servers[0], servers[1], rtol=1e-6)
    assert servers[0] == pytest.approx(servers[1])
