"""Small data and simulations that many tests share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from markers import check_names, mark
from signals_of_a_terminal import heed_signals
from small_runs import classify, small_module
from torch import nn

from coterie.data.peer_arrays import PeerArrays, PeerData
from coterie.runtime.settings import SimulationSettings
from coterie.simulation.simulation import Simulation
from coterie.strategies import STRATEGIES
from coterie.strategies.strategy import Strategy

# What trains by itself depends on whether there is a GPU; the tests are of a computer without.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
# Here, so that all processes which tests start inherit it.
heed_signals()
# Only a power cut shows whether data reached the disk, and waiting for it takes minutes in all. The
# tests of power cuts watch the calls; commands in processes of their own do wait.
os.fsync = lambda file: None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by where they are and what they use."""
    check_names()
    mark(items)


@pytest.fixture(autouse=True)
def _forget_own_strategies() -> Iterator[None]:
    """Forget strategies that a test makes known: no other test may depend on them."""
    known = dict(STRATEGIES)
    yield
    if known != STRATEGIES:
        STRATEGIES.clear()
        STRATEGIES.update(known)


@pytest.fixture
def make_datasets() -> Callable[..., PeerArrays]:
    """Return a maker of datasets: one number of training samples per peer, two clusters in turn."""

    def make(sizes: list[int], *, seed: int = 0) -> PeerArrays:
        rng = np.random.default_rng(seed)
        clusters = [peer % 2 for peer in range(len(sizes))]
        peers = [
            PeerData(classify(rng, c, n), classify(rng, c, 12), classify(rng, c, 40))
            for c, n in zip(clusters, sizes, strict=True)
        ]
        return PeerArrays(peers, clusters)

    return make


@pytest.fixture
def make_simulation(make_datasets) -> Callable[..., Simulation]:
    """Return a maker of small simulations that train in-process."""

    def make(
        strategy: Callable[[], Strategy],
        sizes: list[int] | None = None,
        *,
        module: Callable[[], nn.Module] = small_module,
        threads: int = 1,
        **settings: object,
    ) -> Simulation:
        return Simulation(
            make_datasets(sizes or [16] * 6),
            module,
            strategy,
            SimulationSettings(**{"rounds": 3, **settings}),
            threads=threads,
        )

    return make
