"""The simulator of many peers on one computer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import nn

from coterie.attacks.poisoning import check_poison
from coterie.data.peer_datasets import PeerDatasets
from coterie.errors import ConfigError, only_peers
from coterie.learning.trainer_choice import Tell
from coterie.processes.garbage_collection import postpone_full_collections
from coterie.runtime.check_task import check_task
from coterie.runtime.model_store import ModelStore
from coterie.runtime.round import Round
from coterie.runtime.round_runner import AnyRuntime, RoundRunner
from coterie.runtime.settings import SimulationSettings
from coterie.simulation.guesses import TestGuess, guess_tests
from coterie.simulation.server_rounds import ServerRuntime
from coterie.simulation.simulated_peers import PeerRuntime
from coterie.strategies.server.server_strategy import ServerStrategy
from coterie.strategies.strategy import Strategy

_NO_CLUSTERS = {"central": ", or --set strategy.scope=all for one model on all data"}
"""What else helps, by strategy."""


class Simulation(RoundRunner):
    """All peers of a run in one process, each with its strategy, or with a server."""

    def __init__(
        self,
        datasets: PeerDatasets,
        build: Callable[[], nn.Module],
        make_strategy: Callable[[], Strategy | ServerStrategy],
        settings: SimulationSettings,
        *,
        threads: int = 1,
        tell: Tell = print,
    ) -> None:
        """Prepare round 0."""
        first = make_strategy()
        tell_lowered(first.lower_defaults(datasets.num_peers), datasets.num_peers, tell)
        check_simulation(datasets, first, settings)

        def make_runtime(state: ModelStore) -> AnyRuntime:
            if isinstance(first, ServerStrategy):
                return ServerRuntime(state, first)
            strategies = strategies_for(make_strategy, datasets)
            return PeerRuntime(state, state.poisoning.wrap_strategies(strategies))

        super().__init__(datasets, build, first, settings, make_runtime, threads=threads, tell=tell)

    def advance(self) -> Round:
        """Run the next round and return its results; round 0 is the initial training."""
        with postpone_full_collections():
            return super().advance()

    def guess_tests(self) -> list[TestGuess] | None:
        """Return the best constant answer for each peer's test data; None if there is none."""
        return guess_tests(self.state)


def check_simulation(
    datasets: PeerDatasets, strategy: Strategy | ServerStrategy, settings: SimulationSettings
) -> None:
    """Refuse a strategy or settings that do not fit the peers and targets."""
    if strategy.needs_clusters and not datasets.has_true_clusters:
        raise ConfigError(
            f"Strategy '{strategy.name}' uses the true clusters, but no clusters are known for "
            f"these peers. Use another strategy{_NO_CLUSTERS.get(strategy.name, '')}."
        )
    strategy.check(datasets.num_peers)
    settings.network.check(datasets.num_peers)
    check_poison(settings.poison, datasets, strategy, settings.seed)
    check_task(datasets, strategy)


def strategies_for(
    make_strategy: Callable[[], Strategy | ServerStrategy], datasets: PeerDatasets
) -> list[Strategy]:
    """Return a strategy for each peer of `datasets`."""
    made = [make_strategy() for _ in range(datasets.num_peers)]
    for strategy in made:
        strategy.lower_defaults(datasets.num_peers_in_network)
    return [strategy for strategy in made if isinstance(strategy, Strategy)]


def tell_lowered(lowered: Mapping[str, int], num_peers: int, tell: Tell) -> None:
    """Show which defaults were lowered for a small network."""
    if lowered:
        options = " and ".join(f"strategy.{name} = {value}" for name, value in lowered.items())
        tell(f"{only_peers(num_peers)}: {options} instead of the default.")
