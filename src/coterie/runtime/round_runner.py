"""Runs the rounds of one run, with any runtime that answers the strategies' requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from coterie.data.peer_datasets import PeerDatasets
from coterie.errors import ConfigError
from coterie.learning.trainer import Matrix, Trainer, Workspace
from coterie.learning.trainer_choice import Tell, make_trainer
from coterie.models.shared_builder import Build, SharedBuilder
from coterie.randomness import Key
from coterie.runtime.best_models import Peers
from coterie.runtime.checkpoints import Checkpoints
from coterie.runtime.estimate_records import is_estimate_round
from coterie.runtime.model_store import ModelStore
from coterie.runtime.round import Round
from coterie.runtime.settings import SimulationSettings
from coterie.runtime.size_limits import MAX_THREADS, check_epochs
from coterie.strategies.server.server_strategy import ServerStrategy
from coterie.strategies.strategy import GroundTruth, Strategy


class AnyRuntime(Protocol):
    """Answers the requests of strategies: simulated peers, a simulated server, or one real peer."""

    def start(self, now: Round) -> None:
        """Run round 0, the initial training."""

    def run(self, now: Round) -> None:
        """Run a later round."""

    def serve_best(self, peers: Peers) -> None:
        """Publish the best models of peers that have just stopped."""

    def record_estimates(self, now: Round) -> None:
        """Record the peers' estimates of each other."""

    def save(self) -> dict[str, Any]:
        """Return what must survive between rounds, as plain data."""

    def restore(self, saved: dict[str, Any]) -> None:
        """Take back what `save` returned."""


class AnyRun(Protocol):
    """A run in one process, or divided among several."""

    next_round: int

    @property
    def finished(self) -> bool:
        """Whether nothing is left to run."""

    def advance(self) -> Round:
        """Run the next round and return its results."""

    def save_to(self, checkpoints: Checkpoints, beside: Mapping[str, Any] | None = None) -> None:
        """Write a checkpoint, with what the caller wants to keep beside the state."""

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue from the state in a checkpoint."""


def is_finished(
    next_round: int, settings: SimulationSettings, datasets: PeerDatasets, *, all_stopped: bool
) -> bool:
    """Return whether all rounds are done, or all peers have stopped and no drift follows."""
    if next_round > settings.rounds:
        return True
    return all_stopped and datasets.step_of(next_round) == datasets.step_of(settings.rounds)


class RoundRunner:
    """One run: datasets, a model, a strategy. `advance` runs the next round; use as a context."""

    def __init__(
        self,
        datasets: PeerDatasets,
        build: Build | SharedBuilder,
        strategy: Strategy | ServerStrategy,
        settings: SimulationSettings,
        make_runtime: Callable[[ModelStore], AnyRuntime],
        *,
        threads: int = 1,
        tell: Tell = print,
        keys: Sequence[Key] | None = None,
    ) -> None:
        """Prepare round 0; `keys` of the peers' random draws are by default their numbers."""
        self.datasets = datasets
        self.settings = settings
        self.next_round = 0
        self._tell = tell
        self._build = SharedBuilder.of(build, settings.seed)
        self.state = ModelStore(
            datasets,
            self._build,
            settings,
            lambda workspace: self._make_trainer(workspace, threads),
            strategy.num_models(len(datasets.cluster_names))
            if isinstance(strategy, ServerStrategy)
            else 0,
            distinct_server_models=isinstance(strategy, ServerStrategy)
            and strategy.distinct_models,
            keys=keys,
        )
        try:
            most = max(len(samples.train) for samples in self.state.samples)
            check_epochs(settings.training.epochs, most, "training.epochs")
            self._runtime = make_runtime(self.state)
        except BaseException:
            self.state.trainer.close()
            raise

    def _make_trainer(self, workspace: Workspace, threads: int) -> Trainer:
        if not 1 <= threads <= MAX_THREADS:
            raise ConfigError(f"threads is {threads}, but it must be from 1 to {MAX_THREADS}.")
        return make_trainer(
            self._build,
            self.settings.training,
            workspace,
            self.datasets.task,
            threads=min(threads, self.datasets.num_peers),
            tell=self._tell,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.state.trainer.close()

    @property
    def finished(self) -> bool:
        """Whether all rounds are done, or all peers have stopped and no drift follows."""
        all_stopped = self.state.progress.all_stopped
        return is_finished(self.next_round, self.settings, self.datasets, all_stopped=all_stopped)

    def advance(self) -> Round:
        """Run the next round and return its results; round 0 is the initial training."""
        now = self._begin(self.next_round)
        if now.number == 0:
            self._runtime.start(now)
        else:
            self._runtime.run(now)
        self._stop_early(now)
        self._complete(now, is_last=self.finished)
        return now

    def _stop_early(self, now: Round) -> None:
        """Stop the peers without a better model for long, which ends the round."""
        self._runtime.serve_best(self.state.progress.stop_early(now.number))
        self.next_round += 1

    def _complete(self, now: Round, *, is_last: bool) -> None:
        """Add what is measured after a round, if it is due."""
        if is_last or self._is_test_round(now.number):
            self.state.test(now)
        if is_estimate_round(now.number, self.settings, is_last=is_last):
            self._runtime.record_estimates(now)
        now.leave_out(self.state.poisoning.peers)

    def _begin(self, number: int) -> Round:
        step = self.datasets.step_of(number)
        truth = (
            GroundTruth(self.datasets.clusters(step)) if self.datasets.has_true_clusters else None
        )
        reachable = self.state.network.start_round(number)
        reachable &= self.state.poisoning.present_peers(number)
        now = Round(
            number=number,
            step=step,
            online=reachable[self.state.numbers.start : self.state.numbers.stop],
            reachable=reachable,
            stopped=self.state.progress.stopped.copy(),
            truth=truth,
        )
        is_new = number > 0 and step != self.datasets.step_of(number - 1)
        if is_new or self.state.poisoning.starts_flipping(number):
            self.state.load_data(number)
        if is_new:
            self.state.reset_after_shift(now)
        self.state.record_published(now)
        return now

    def _is_test_round(self, number: int) -> bool:
        return number % self.settings.test_every == 0 or self.datasets.step_of(
            number + 1
        ) != self.datasets.step_of(number)

    @property
    def poisoned(self) -> npt.NDArray[np.bool_]:
        """Which peers are poisoned in some round, (K,); results do not include them."""
        return self.state.poisoning.peers

    @property
    def frozen_digest(self) -> str:
        """The SHA-256 of what is frozen in the models; empty if nothing is."""
        return self._build.frozen.digest

    def best_models(self) -> Matrix:
        """Return a copy of every peer's best model, (K, P)."""
        return self.state.best.copy()

    def validate_best(self) -> npt.NDArray[np.float64]:
        """Return validation losses and scores of the best models, (2, K)."""
        return self.state.validate_best()

    def validate_untrained(self) -> npt.NDArray[np.float64]:
        """Return validation losses and scores of the initial models, (2, K).

        They replace the working models, so this is for finished runs.
        """
        return self.state.validate_untrained()

    def save(self) -> dict[str, Any]:
        """Return the state that the rest of the run depends on, as plain data."""
        return {
            "next_round": self.next_round,
            "layout": self.state.layout.fingerprint,
            "frozen": self._build.frozen.digest,
            "trainer": self.state.trainer.name,
            "state": self.state.save(),
            "runtime": self._runtime.save(),
        }

    def save_to(self, checkpoints: Checkpoints, beside: Mapping[str, Any] | None = None) -> None:
        """Write a checkpoint, with what the caller wants to keep beside the state."""
        checkpoints.write(self.next_round, {**self.save(), **(beside or {})})

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue from a state that `save` returned."""
        if saved["layout"] != self.state.layout.fingerprint:
            raise ConfigError(
                "The checkpoint is of another model. Use the model of that run, or start a new run."
            )
        # Checkpoints of earlier versions have no digest, and no frozen part.
        if saved.get("frozen", "") != self._build.frozen.digest:
            raise ConfigError(
                "The checkpoint is of a model with other frozen parameters. Use the backbone of "
                "that run, or start a new run."
            )
        before, now = saved["trainer"], self.state.trainer.name
        if before != now:
            self._tell(
                f"This run started with the trainer '{before}' and continues with '{now}': the "
                "last digits of its results differ from those of a run without interruption."
            )
        self.next_round = saved["next_round"]
        self.state.load_data(max(self.next_round - 1, 0))
        self.state.restore(saved["state"])
        self._runtime.restore(saved["runtime"])
