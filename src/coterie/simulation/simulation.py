"""The simulator: thousands of peers on one machine, round by round."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import nn

from coterie.attacks.poisoning import check_poison
from coterie.data.peer_datasets import PeerDatasets
from coterie.errors import only_peers
from coterie.learning.trainer_choice import Tell
from coterie.runtime.check_targets import check_targets
from coterie.runtime.model_store import ModelStore
from coterie.runtime.round_runner import AnyRuntime, RoundRunner
from coterie.runtime.settings import SimulationSettings
from coterie.simulation.server_rounds import ServerRuntime
from coterie.simulation.simulated_peers import PeerRuntime
from coterie.strategies.server.server_strategy import ServerStrategy
from coterie.strategies.strategy import Strategy


class Simulation(RoundRunner):
    """All peers of a run in one process, by their own strategies or by a server's."""

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
        """Make everything ready for round 0."""
        first = make_strategy()
        _tell_lowered(first.lower_defaults(datasets.num_peers), datasets.num_peers, tell)
        check_simulation(datasets, first, settings)

        def make_runtime(state: ModelStore) -> AnyRuntime:
            if isinstance(first, ServerStrategy):
                return ServerRuntime(state, first)
            strategies = _for_every_peer(make_strategy, datasets.num_peers)
            return PeerRuntime(state, state.poisoning.impostors(strategies))

        super().__init__(datasets, build, first, settings, make_runtime, threads=threads, tell=tell)


def check_simulation(
    datasets: PeerDatasets, strategy: Strategy | ServerStrategy, settings: SimulationSettings
) -> None:
    """Refuse what cannot work with these peers and targets."""
    strategy.check(datasets.num_peers)
    settings.network.check(datasets.num_peers)
    check_poison(settings.poison, datasets, strategy, settings.seed)
    check_targets(datasets, strategy, settings)


def _for_every_peer(
    make_strategy: Callable[[], Strategy | ServerStrategy], num_peers: int
) -> list[Strategy]:
    made = [make_strategy() for _ in range(num_peers)]
    for strategy in made:
        strategy.lower_defaults(num_peers)
    return [strategy for strategy in made if isinstance(strategy, Strategy)]


def _tell_lowered(lowered: Mapping[str, int], num_peers: int, tell: Tell) -> None:
    """Say that defaults are larger than the network."""
    if lowered:
        options = " and ".join(f"strategy.{name} = {value}" for name, value in lowered.items())
        tell(f"{only_peers(num_peers)}: {options} instead of the default.")
