"""Coterie as a library: your own module and your own data, in one call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from torch import nn

from coterie.api_arguments import (
    PeerArgument,
    SettingsArgument,
    StrategyArgument,
    checked_build,
    checked_peers,
    checked_settings,
    checked_threads,
    strategy_maker,
)
from coterie.data.peer_arrays import OwnData
from coterie.errors import ConfigError
from coterie.experiments.run_summary import RunSummary, summarise
from coterie.models.layout import Layout
from coterie.models.vector import FlatModule
from coterie.runtime.loop import run_to_end
from coterie.runtime.recorder import Recorder
from coterie.runtime.round import Round
from coterie.simulation.result_warnings import concerns
from coterie.simulation.simulation import Simulation
from coterie.strategies import DEFAULT_STRATEGY


@dataclass(frozen=True, repr=False)
class Result:
    """What a simulation leaves behind: every peer's best model, and the recorded tables."""

    models: npt.NDArray[np.float32]
    """Best models as flat vectors, (K, P)."""
    layout: Layout
    metrics: pa.Table
    """Per round and peer: losses and accuracies before and after merging, tests, traffic."""
    exchanges: pa.Table
    """Every model sent: round, receiver, sender, kind, bytes, delivered, merge weight."""
    summary: RunSummary
    """Means over clusters and over all peers."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why results may be worth nothing, such as models not clearly better than guessing."""
        return self.summary.warnings

    @property
    def test_accuracy(self) -> npt.NDArray[np.float64]:
        """Each peer's final test accuracy, (K,); NaN for regression and poisoned peers."""
        return np.asarray(self.metrics["test_accuracy"].to_numpy()[-len(self.models) :])

    @property
    def test_loss(self) -> npt.NDArray[np.float64]:
        """Each peer's final test loss, (K,); NaN for poisoned peers."""
        return np.asarray(self.metrics["test_loss"].to_numpy()[-len(self.models) :])

    def load_into(self, module: nn.Module, peer: int) -> nn.Module:
        """Give a module the weights of a peer's best model, and return it."""
        if not isinstance(module, nn.Module):
            raise ConfigError(
                "load_into needs a module, such as build() makes, and a peer's number."
            )
        if not 0 <= peer < len(self.models):
            raise ConfigError(
                f"There is no peer {peer}: the {len(self.models)} peers are numbered from 0."
            )
        FlatModule(module).load(self.models[peer])
        return module

    def __repr__(self) -> str:
        rounds, mean = self.metrics["round"][-1].as_py(), self.summary.mean
        reached = f"accuracy {mean:.1%}" if self.summary.is_accuracy else f"loss {mean:.4g}"
        return (
            f"<Result of {self.summary.label}: peers {len(self.models)}, rounds {rounds}, mean "
            f"test {reached}; see test_accuracy, test_loss, summary, metrics, exchanges, models>"
        )


def simulate(
    build: Callable[[], nn.Module],
    peers: Iterable[PeerArgument],
    strategy: StrategyArgument = DEFAULT_STRATEGY,
    settings: SettingsArgument = None,
    *,
    clusters: Sequence[int] | None = None,
    threads: int | None = None,
    on_round: Callable[[Round], None] | None = None,
) -> Result:
    """Simulate peers that train on their own data and choose the peers they merge with.

    Parameters
    ----------
    build
        Returns a new module, with the same layers at each call.
    peers
        The data of each peer.
    strategy
        A name, a dict of a name and options, a strategy, or a function that returns a new strategy
        for each peer.
    settings
        Rounds, training and everything else; a `SimulationSettings` or a dict.
    clusters
        The true cluster of each peer, (K,), if known. Only yardsticks such as Oracle and the
        records use them.
    threads
        Number of threads; None uses all processors. Results do not depend on it.
    on_round
        Called after each round with its `Round`.

    Examples
    --------
    >>> import coterie, numpy as np
    >>> from torch import nn
    >>> rng = np.random.default_rng(0)
    >>> def samples():
    ...     inputs = rng.normal(size=(20, 2)).astype("float32")
    ...     return inputs, (inputs[:, 0] > 0).astype(int)
    >>> peers = [coterie.PeerData(samples(), samples(), samples()) for _ in range(4)]
    >>> def build():
    ...     return nn.Sequential(nn.Linear(2, 2))
    >>> dac = {"name": "dac", "fetches": 2}
    >>> result = coterie.simulate(build, peers, dac, {"rounds": 2}, threads=1)
    >>> result.test_accuracy.shape
    (4,)
    """
    world = OwnData(checked_peers(peers), clusters)
    make = strategy_maker(strategy)
    recorder = Recorder()
    with Simulation(
        world,
        checked_build(build),
        make,
        checked_settings(settings),
        threads=checked_threads(threads, os.cpu_count() or 1),
    ) as simulation:
        run_to_end(simulation, recorder, on_round=on_round)
        metrics = recorder.table("metrics")
        return Result(
            models=simulation.best_models(),
            layout=simulation.state.layout,
            metrics=metrics,
            exchanges=recorder.table("exchanges"),
            summary=replace(
                summarise(
                    metrics,
                    make().name,
                    simulation.settings.seed,
                    world.cluster_names,
                    is_accuracy=world.is_classification,
                ),
                warnings=concerns(simulation, metrics),
            ),
        )
