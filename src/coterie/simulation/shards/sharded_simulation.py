"""A run divided into shards, which gives the same bits as the same run in one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from coterie.data.peer_datasets import PeerDatasets
from coterie.learning.trainer import Matrix
from coterie.randomness import generator
from coterie.runtime.checkpoints import Checkpoints
from coterie.runtime.round import Round
from coterie.runtime.round_runner import is_finished
from coterie.runtime.settings import SimulationSettings
from coterie.simulation.guesses import TestGuess
from coterie.simulation.shards.join_rounds import join_rounds
from coterie.simulation.shards.shard import Begun
from coterie.simulation.shards.shard_group import ShardGroup
from coterie.simulation.shards.shard_plan import ShardPlan
from coterie.simulation.shards.shard_runtime import Kind
from coterie.strategies.strategy import GroundTruth


class ShardedSimulation:
    """Advances all shards together; use as a context."""

    def __init__(
        self,
        datasets: PeerDatasets,
        settings: SimulationSettings,
        shards: ShardGroup,
        *,
        has_server: bool = False,
    ) -> None:
        """Prepare round 0; with a server there is only one shard."""
        self.datasets = datasets
        self.settings = settings
        self.next_round = 0
        self._shards = shards
        self._plan = ShardPlan(datasets.num_peers, shards.size)
        self._has_server = has_server
        self._all_stopped = False
        self._num_batches = 0
        """Batches of requests in this round so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._shards.close()

    @property
    def finished(self) -> bool:
        """Whether all rounds are done, or all peers have stopped and no drift follows."""
        return is_finished(
            self.next_round, self.settings, self.datasets, all_stopped=self._all_stopped
        )

    def advance(self) -> Round:
        """Run the next round and return its results; round 0 is the initial training."""
        if self._has_server:
            return self._advance_server()
        begun: list[Begun] = self._shards.call("begin_round")
        self._num_batches = 0
        if begun[0].is_watch_due:
            self._shards.record_watched()
        if self.next_round > 0 and self.settings.schedule == "synchronous":
            self._take_turn()
        elif self.next_round > 0:
            self._take_turns(np.concatenate([each.active for each in begun]))
        self._all_stopped = all(self._shards.call("end_round"))
        self.next_round += 1
        parts: list[Round] = self._shards.call("complete", is_last=self.finished)
        return join_rounds(parts, self._truth(parts[0].step), self.settings.watch.peers)

    def _advance_server(self) -> Round:
        (now,) = self._shards.call("advance")
        self.next_round += 1
        (self._all_stopped,) = self._shards.call("has_stopped")
        result: Round = now
        return result

    def _truth(self, step: int) -> GroundTruth | None:
        known = self.datasets.has_true_clusters
        return GroundTruth(self.datasets.clusters(step)) if known else None

    def _take_turn(self) -> None:
        """Run a synchronous round: all peers act together."""
        every = range(self._shards.size)
        self._answer_all(self._shards.call("begin_turn"), every)
        self._shards.call("end_turn")

    def _take_turns(self, active: npt.NDArray[np.int64]) -> None:
        """Run a sequential round: peers act one after another, in a random order."""
        order = generator(self.settings.seed, "order", self.next_round).permutation(active)
        for number in order.tolist():
            place, turn = self._plan.shard_of(number), np.array([number])
            self._answer_all([self._shards.call_one(place, "begin_turn", turn)], [place])
            self._shards.call_one(place, "end_turn", turn)
            self._shards.call("deliver_reports")

    def _answer_all(self, kinds: list[Kind | None], places: Sequence[int]) -> None:
        """Answer all requests of some shards, in the order of one process."""
        while waiting := [kind for kind in kinds if kind is not None]:
            kinds = self._shards.answer(min(waiting), self._num_batches, places)
            self._num_batches += 1

    @property
    def poisoned(self) -> npt.NDArray[np.bool_]:
        """Which peers are poisoned in some round, (K,); results do not include them."""
        return np.concatenate(self._shards.call("get", "poisoned"))

    @property
    def frozen_digest(self) -> str:
        """The SHA-256 of what is frozen in the models; empty if nothing is."""
        digest: str = self._shards.call_one(0, "get", "frozen_digest")
        return digest

    def best_models(self) -> Matrix:
        """Return a copy of every peer's best model, (K, P)."""
        return np.concatenate(self._shards.call("best_models"))

    def validate_best(self) -> npt.NDArray[np.float64]:
        """Return validation losses and scores of the best models, (2, K)."""
        return np.concatenate(self._shards.call("validate_best"), axis=1)

    def validate_untrained(self) -> npt.NDArray[np.float64]:
        """Return validation losses and scores of the initial models, (2, K).

        They replace the working models, so this is for finished runs.
        """
        return np.concatenate(self._shards.call("validate_untrained"), axis=1)

    def guess_tests(self) -> list[TestGuess] | None:
        """Return the best constant answer for each peer's test data; None if there is none."""
        found: list[list[TestGuess] | None] = self._shards.call("guess_tests")
        known = [guess for part in found if part is not None for guess in part]
        return known if len(known) == self.datasets.num_peers else None

    def save_to(self, checkpoints: Checkpoints, beside: Mapping[str, Any] | None = None) -> None:
        """Write a checkpoint: a file for each shard, one after another."""
        places = range(self._shards.size)
        saved = ({**self._shards.call_one(n, "save"), **(beside or {})} for n in places)
        if self._shards.size == 1:
            checkpoints.write(self.next_round, next(saved))
        else:
            checkpoints.write_parts(self.next_round, saved)

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue from the state of a whole run."""
        self._shards.call("restore_part", saved)
        self.next_round = saved["next_round"]
        self._all_stopped = all(self._shards.call("has_stopped"))
