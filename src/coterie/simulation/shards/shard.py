"""One shard of a run: some of its peers, which advance with those of all other shards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.data.part_of_peers import PartOfPeers
from coterie.data.peer_datasets import PeerDatasets
from coterie.learning.trainer_choice import Tell
from coterie.models.shared_builder import Build
from coterie.runtime.best_models import Peers
from coterie.runtime.model_store import ModelStore
from coterie.runtime.round import Round
from coterie.runtime.round_runner import AnyRuntime, RoundRunner
from coterie.runtime.saved_parts import NUMBERS, cut_part
from coterie.runtime.settings import SimulationSettings
from coterie.simulation.guesses import TestGuess, guess_tests
from coterie.simulation.server_rounds import ServerRuntime
from coterie.simulation.shards.shard_plan import ShardPlan
from coterie.simulation.shards.shard_runtime import Kind, Sent, Served, ShardRuntime, Wanted
from coterie.simulation.simulation import strategies_for
from coterie.strategies.server.server_strategy import ServerStrategy
from coterie.strategies.strategy import Strategy


@dataclass(frozen=True)
class Begun:
    """How a round begins in a shard."""

    active: Peers
    """The numbers of the peers that take part."""
    is_watch_due: bool
    """Whether watched peers need the models of all others first."""


class Shard(RoundRunner):
    """The peers of one shard; its methods are the steps of a round."""

    def __init__(
        self,
        datasets: PeerDatasets,
        build: Build,
        make_strategy: Callable[[], Strategy | ServerStrategy],
        settings: SimulationSettings,
        plan: ShardPlan,
        place: int,
        *,
        threads: int = 1,
        tell: Tell = print,
    ) -> None:
        part = PartOfPeers(datasets, plan.numbers(place))
        first = make_strategy()
        first.lower_defaults(datasets.num_peers)

        def make_runtime(state: ModelStore) -> AnyRuntime:
            if isinstance(first, ServerStrategy):
                return ServerRuntime(state, first)
            strategies = strategies_for(make_strategy, part)
            return ShardRuntime(state, state.poisoning.wrap_strategies(strategies), plan, place)

        super().__init__(part, build, first, settings, make_runtime, threads=threads, tell=tell)
        self._now: Round | None = None

    @property
    def _shard(self) -> ShardRuntime:
        if not isinstance(self._runtime, ShardRuntime):
            raise TypeError("A strategy with a server runs in one shard, by `advance`.")
        return self._runtime

    @property
    def _round(self) -> Round:
        if self._now is None:
            raise RuntimeError("No round has begun.")
        return self._now

    def begin_round(self) -> Begun:
        """Begin the next round; round 0 is the initial training."""
        now = self._now = self._begin(self.next_round)
        self._shard.begin_round()
        if now.number == 0:
            self._shard.start(now)
            return Begun(np.zeros(0, np.int64), is_watch_due=False)
        active = now.active_peers + self.state.numbers.start
        return Begun(active, self._shard.is_watch_due(now))

    def begin_turn(self, numbers: Peers | None = None) -> Kind | None:
        """Let all active peers, or some, make their first requests; return the kind to answer."""
        return self._shard.begin_turn(self._round, self._rows(numbers))

    def collect(self, kind: Kind) -> dict[int, Wanted]:
        """Return what is needed of other shards to answer requests of a kind, by shard."""
        return self._shard.collect(self._round, kind)

    def serve(self, wanted: Wanted) -> Served:
        """Return what another shard needs."""
        return self._shard.serve(wanted)

    def record_watched(self, *served: Served) -> None:
        """Record what watched peers measure, with the models of all others."""
        self._take(served)
        self._shard.record_watched(self._round)

    def answer(
        self, kind: Kind, batch: int, *served: Served
    ) -> tuple[Kind | None, dict[int, Sent]]:
        """Answer requests of a kind, which are the batch of this place in the round.

        Return the next kind, and what was sent to other shards.
        """
        self._take(served)
        return self._shard.answer(self._round, kind, batch), self._shard.take_sent()

    def accept(self, sent: Sent) -> None:
        """Take what peers of another shard sent."""
        self._shard.accept(sent)

    def end_turn(self, numbers: Peers | None = None) -> None:
        """Publish the models of all active peers, or of some."""
        self._shard.end_turn(self._round, self._rows(numbers))

    def deliver_reports(self) -> None:
        """Deliver the reports of a turn."""
        self._shard.deliver_reports()

    def end_round(self) -> bool:
        """End the exchanges; return whether all peers of the shard have stopped early."""
        if self._round.number > 0:
            self._shard.end_round(self._round)
        self._stop_early(self._round)
        return self.has_stopped()

    def complete(self, *, is_last: bool) -> Round:
        """Add the tests that are due, and return the results of this shard's peers."""
        now = self._round
        self._complete(now, is_last=is_last)
        self._now = None
        # The whole run has the truth, and needs no place of the log any more.
        now.truth = None
        now.exchanges.close()
        return now

    def has_stopped(self) -> bool:
        """Return whether all peers of the shard have stopped early."""
        return self.state.progress.all_stopped

    def get(self, name: str) -> Any:
        """Return an attribute, for callers in other processes."""
        return getattr(self, name)

    def guess_tests(self) -> list[TestGuess] | None:
        """Return the best constant answer for each peer's test data; None if there is none."""
        return guess_tests(self.state)

    def save(self) -> dict[str, Any]:
        """Return the state of this shard's peers."""
        numbers = self.state.numbers
        return {**super().save(), NUMBERS: [numbers.start, numbers.stop]}

    def restore_part(self, whole: dict[str, Any]) -> None:
        """Continue from the state of a whole run."""
        self.restore(cut_part(whole, self.state.numbers))

    def _take(self, served: tuple[Served, ...]) -> None:
        for each in served:
            self._shard.take(each)

    def _rows(self, numbers: Peers | None) -> npt.NDArray[np.int64]:
        if numbers is None:
            return self._round.active_peers
        return numbers - self.state.numbers.start
