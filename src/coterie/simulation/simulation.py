"""The simulator: thousands of peers on one machine, round by round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn

from coterie.attacks.poisoning import check_poison
from coterie.data.peer_datasets import World
from coterie.errors import ConfigError, only_peers
from coterie.learning.choice import Tell, make_trainer
from coterie.models.layout import Layout
from coterie.randomness import Key
from coterie.runtime.driver import Runtime
from coterie.runtime.estimates import estimates_due
from coterie.runtime.model_store import State
from coterie.runtime.round import Round
from coterie.runtime.settings import SimulationSettings
from coterie.runtime.size_limits import MAX_THREADS, check_epochs
from coterie.simulation.server_rounds import ServerRuntime
from coterie.simulation.simulated_peers import PeerRuntime
from coterie.strategies.server.server_strategy import ServerStrategy
from coterie.strategies.strategy import GroundTruth, Strategy


class Simulation:
    """One run: a world, a model, a strategy. `advance` runs the next round; use as a context."""

    def __init__(
        self,
        world: World,
        build: Callable[[], nn.Module],
        make_strategy: Callable[[], Strategy | ServerStrategy],
        settings: SimulationSettings,
        *,
        threads: int = 1,
        tell: Tell = print,
        keys: Sequence[Key] | None = None,
        make_runtime: Callable[[State, Strategy], Runtime] | None = None,
    ) -> None:
        """Make everything ready for round 0.

        A real peer is a world of one: it gives the `keys` of its draws, and its own runtime.
        """
        first = make_strategy()
        if make_runtime is None:
            _tell_lowered(first.lower_defaults(world.num_peers), world.num_peers, tell)
            check_world(world, first, settings)
        self.world = world
        self.settings = settings
        self.next_round = 0
        self._tell = tell
        self._build = build
        self.state = State(
            world,
            build,
            Layout.of(build()),
            settings,
            first.num_models(len(world.cluster_names)) if isinstance(first, ServerStrategy) else 0,
            distinct_server_models=isinstance(first, ServerStrategy) and first.distinct_models,
            keys=keys,
        )
        self.state.enter(0)
        most = max(len(samples.train) for samples in self.state.samples)
        check_epochs(settings.training.epochs, most, "training.epochs")
        self._runtime: ServerRuntime | Runtime
        if isinstance(first, ServerStrategy):
            self._runtime = ServerRuntime(self.state, first)
        elif make_runtime is not None:
            self._runtime = make_runtime(self.state, first)
        else:
            strategies = _for_every_peer(make_strategy, world.num_peers)
            self._runtime = PeerRuntime(self.state, self.state.poisoning.impostors(strategies))
        self._bind_trainer(build, threads)

    def _bind_trainer(self, build: Callable[[], nn.Module], threads: int) -> None:
        if not 1 <= threads <= MAX_THREADS:
            raise ConfigError(f"threads is {threads}, but 1 to {MAX_THREADS} are possible.")
        self.state.trainer = make_trainer(
            build,
            self.settings.training,
            self.state.workspace,
            threads=min(threads, self.world.num_peers),
            is_classification=self.world.is_classification,
            tell=self._tell,
        )

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *_: object) -> None:
        self.state.trainer.close()

    @property
    def finished(self) -> bool:
        """Whether all rounds are done, or everybody has stopped and nothing will change."""
        if self.next_round > self.settings.rounds:
            return True
        last_step = self.world.step_of(self.settings.rounds)
        everybody_stopped = self.state.progress.everybody_stopped
        return everybody_stopped and self.world.step_of(self.next_round) == last_step

    def advance(self) -> Round:
        """Run the next round and return what happened; round 0 is the initial training."""
        now = self._begin(self.next_round)
        if now.number == 0:
            self._runtime.start(now)
        else:
            self._runtime.run(now)
        self._runtime.serve_best(self.state.progress.stop_impatient(now.number))
        self.next_round += 1
        if self._is_test_round(now.number):
            self.state.test(now)
        if estimates_due(now.number, self.settings, is_last=self.finished):
            self._runtime.note_beliefs(now)
        self.state.poisoning.leave_out(now)
        return now

    def _begin(self, number: int) -> Round:
        step = self.world.step_of(number)
        now = Round(
            number=number,
            step=step,
            online=self.state.network.begin(number) & self.state.poisoning.present(number),
            stopped=self.state.progress.stopped.copy(),
            truth=GroundTruth(self.world.clusters(step)),
        )
        is_new = number > 0 and step != self.world.step_of(number - 1)
        if is_new or self.state.poisoning.relabels(number):
            self.state.enter(number)
        if is_new:
            self.state.shift(now)
        self.state.begin(now)
        return now

    def _is_test_round(self, number: int) -> bool:
        return (
            self.finished
            or number % self.settings.test_every == 0
            or self.world.step_of(number + 1) != self.world.step_of(number)
        )

    def best_models(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Return a copy of every peer's best model, (K, P)."""
        return self.state.best.copy()

    def validate_untrained(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return validation losses and accuracies of the initial models, (2, K).

        They take the place of the working models: this is for a run that has come to its end.
        """
        return self.state.validate_untrained(self._build)

    def save(self) -> dict[str, Any]:
        """Return everything the rest of the run depends on, as plain data."""
        return {
            "next_round": self.next_round,
            "layout": self.state.layout.fingerprint,
            "trainer": self.state.trainer.name,
            "state": self.state.save(),
            "runtime": self._runtime.save(),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue where `save` was called."""
        if saved["layout"] != self.state.layout.fingerprint:
            raise ConfigError("The checkpoint was written with another model.")
        before, now = saved["trainer"], self.state.trainer.name
        if before != now:
            self._tell(
                f"This run was begun with the trainer '{before}' and goes on with '{now}': the "
                "results will not be the same to the last digit as if it had not been interrupted."
            )
        self.next_round = saved["next_round"]
        self.state.enter(max(self.next_round - 1, 0))
        self.state.restore(saved["state"])
        self._runtime.restore(saved["runtime"])


def check_world(
    world: World, strategy: Strategy | ServerStrategy, settings: SimulationSettings
) -> None:
    """Refuse what cannot work with these peers and targets."""
    strategy.check(world.num_peers)
    settings.network.check(world.num_peers)
    check_poison(settings, world, strategy)
    check_targets(world, strategy, settings)


def check_targets(
    world: World, strategy: Strategy | ServerStrategy, settings: SimulationSettings
) -> None:
    """Refuse to go by accuracy where there are no classes."""
    if world.is_classification:
        return
    if settings.best_by != "loss":
        raise ConfigError(
            f"best_by = {settings.best_by} needs classes, but these data have values to predict; "
            "use best_by = loss."
        )
    if isinstance(strategy, Strategy) and "accuracy" in strategy.required_metrics():
        other = (
            "set strategy.metric to inverse-loss."
            if "metric" in strategy.options()
            else "use another strategy."
        )
        raise ConfigError(
            f"Strategy '{strategy.name}' goes by accuracy, but these data have values to predict, "
            f"not classes; {other}"
        )


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
