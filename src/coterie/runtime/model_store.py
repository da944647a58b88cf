"""The peers' models, their validation and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from coterie.attacks.poisoning import Poisoning
from coterie.data.peer_datasets import PeerDatasets
from coterie.data.pools import PeerSamples
from coterie.errors import TrainingError
from coterie.learning.trainer import (
    EvaluateJob,
    Evaluation,
    Matrix,
    ModelReference,
    Trainer,
    Workspace,
)
from coterie.models.exchanged_part import ExchangedPart
from coterie.models.shared_builder import SharedBuilder
from coterie.processes.shared_memory import shared_array
from coterie.randomness import Key
from coterie.runtime.best_models import BestModels, Peers
from coterie.runtime.early_stopping import EarlyStopping
from coterie.runtime.round import Round
from coterie.runtime.settings import BestRule, SimulationSettings
from coterie.runtime.size_limits import check_models
from coterie.runtime.unreliable_network import UnreliableNetwork
from coterie.strategies.kin.restraint import Restraint
from coterie.strategies.requests import Depth, Metric

Part = Literal["validation", "test"]
TRIALS_AT_ONCE = 64
"""Merges that are validated together, to bound the memory."""


class ModelStore:
    """The models of K peers, in three K×P matrices: working, published and best models.

    If the best models by the other rule are compared, there is a fourth matrix.
    """

    samples: list[PeerSamples]
    """Each peer's data in the current step."""

    def __init__(
        self,
        datasets: PeerDatasets,
        build: SharedBuilder,
        settings: SimulationSettings,
        make_trainer: Callable[[Workspace], Trainer],
        num_server_models: int = 0,
        *,
        distinct_server_models: bool = False,
        keys: Sequence[Key] | None = None,
    ) -> None:
        self.datasets = datasets
        self.settings = settings
        self.build = build
        self.layout = layout = build.layout
        self.exchanged = ExchangedPart(
            layout, has_local_buffers=settings.training.has_local_buffers
        )
        self.num_peers = datasets.num_peers
        self.numbers = range(datasets.first_peer, datasets.first_peer + datasets.num_peers)
        """The number of each row's peer."""
        # The key of a peer's random draws is its number, so that its start does not depend on the
        # number of peers. A real peer has its own key.
        self.keys: Sequence[Key] = self.numbers if keys is None else keys
        check_models(
            datasets.num_peers,
            layout.size,
            num_server_models,
            compares_bests=settings.compare_bests,
            shared_bytes=build.frozen.num_bytes,
        )
        shape = (datasets.num_peers, layout.size)
        self.current: Matrix = shared_array(shape, np.float32)
        self.published: Matrix = shared_array(shape, np.float32)
        self.server: Matrix = shared_array((num_server_models, layout.size), np.float32)
        # Only for strategies that measure updates of models.
        self.initial: Matrix | None = None
        self.untrained: Matrix | None = None
        self.poisoning = Poisoning(settings.poison, datasets, layout, self.keys, settings.seed)
        self.workspace = Workspace(
            self.poisoning.pools,
            {
                "current": self.current,
                "published": self.published,
                "server": self.server,
            },
        )
        self.network = UnreliableNetwork(
            settings.network, datasets.num_peers_in_network, settings.seed
        )
        self._latest = np.full((2, datasets.num_peers), np.nan)
        self._validated: dict[int, Evaluation] = {}
        """Validations of the present working models; see `forget_validation`."""
        common = settings.initialisation == "common"
        self._initialise(self.current, self.keys, common=common)
        every = range(num_server_models)
        self._initialise(self.server, every, common=common and not distinct_server_models)
        self._bests = self._make_bests(settings)
        self.restraint = Restraint(settings.training.epochs, datasets.num_peers)
        self.progress.never_stops = self.poisoning.peers
        self.load_data(0)
        self.trainer = make_trainer(self.workspace)

    def _make_bests(self, settings: SimulationSettings) -> dict[str, BestModels]:
        """Return the best models by the configured rule, and those by the other if compared."""
        bests = {"best": BestModels(settings.best, settings, self.current, self.datasets.task)}
        if settings.compare_bests:
            other: BestRule = "trained" if settings.best == "any" else "any"
            bests["other_best"] = BestModels(other, settings, self.current, self.datasets.task)
        self.workspace.matrices.update({name: each.models for name, each in bests.items()})
        return bests

    @property
    def best(self) -> Matrix:
        """Each peer's best model, (K, P)."""
        return self._bests["best"].models

    @property
    def progress(self) -> EarlyStopping:
        """The values of the best models, and which peers have stopped."""
        return self._bests["best"].progress

    def _initialise(self, rows: Matrix, keys: Sequence[Key], *, common: bool) -> None:
        for row, key in enumerate(keys):
            rows[row] = self.build.initial_vector(None if common else key)

    def local_buffers(self, peer: int, matrix: str = "published") -> ModelReference | None:
        """Return the model whose buffers a peer uses for other models; None: those of the others.

        Its published model has the buffers of its last round, which also a real peer still has
        when it is asked for a score while it trains.
        """
        return None if self.exchanged.is_whole else ModelReference(matrix, peer)

    def keep_for(self, metrics: frozenset[Metric]) -> None:
        """Copy the models that these metrics need."""
        if "cosine-total-update" in metrics:
            self.initial = self.current.copy()
        if "cosine-last-update" in metrics:
            self.untrained = self.current.copy()

    def trial_models(self) -> Matrix:
        """Return a matrix for merges that are only validated, (rows, P)."""
        if "trials" not in self.workspace.matrices:
            rows = min(self.num_peers, TRIALS_AT_ONCE)
            return self.workspace.allocate("trials", (rows, self.layout.size))
        return self.workspace.matrices["trials"]

    def load_data(self, round_number: int) -> None:
        """Load the data of a round's step."""
        samples = self.datasets.load_step(self.datasets.step_of(round_number))
        self.samples = self.poisoning.flip_labels(samples, round_number)
        self._validated.clear()

    def forget_validation(self, peers: Iterable[int]) -> None:
        """Forget the validation of working models that have changed."""
        for peer in peers:
            self._validated.pop(int(peer), None)

    def record_validation(self, peer: int, evaluation: Evaluation) -> None:
        """Record the validation of a peer's present working model."""
        self._validated[peer] = evaluation

    def validation(self, peers: Iterable[int]) -> list[Evaluation]:
        """Return the validation of the present working models."""
        wanted = [int(peer) for peer in peers]
        missing = [peer for peer in wanted if peer not in self._validated]
        if missing:  # usually there is none, because all were evaluated together
            jobs = [
                EvaluateJob(ModelReference("current", peer), self.samples[peer].validation)
                for peer in missing
            ]
            self._validated.update(zip(missing, self.trainer.evaluate(jobs), strict=True))
        return [self._validated[peer] for peer in wanted]

    def reset_after_shift(self, now: Round) -> None:
        """After a change of the data, forget the best models, and let stopped peers continue."""
        for bests in self._bests.values():
            bests.reset(self.current, now.number)
        self.restraint.reset()
        now.stopped[:] = False
        self._latest[:] = mean_results(self.validation(range(self.num_peers)))

    def record_published(self, now: Round) -> None:
        """Record the validation of the published models, before merging."""
        now.measures["validation_loss_before"][:] = self._latest[0]
        now.measures["validation_score_before"][:] = self._latest[1]

    def validate_merged(self, now: Round, peers: Peers) -> None:
        """Validate working models after merging, once a round; they may become the best."""
        peers = peers[np.isnan(now.measures["validation_loss_merged"][peers])]
        values = mean_results(self.validation(peers))
        self._record(now, "merged", peers, values)
        for bests in self._bests.values():
            if bests.rule == "any":
                bests.consider(self.current, peers, now.number, values)

    def validation_losses(self, peers: Peers) -> npt.NDArray[np.float64]:
        """Return the validation losses of the present working models."""
        losses: npt.NDArray[np.float64] = mean_results(self.validation(peers))[0]
        return losses

    def depth(self, last_layers: Depth) -> int | None:
        """Return the number of last layers; None: all."""
        return self.layout.classifier_depth if last_layers == "classifier" else last_layers

    def record_training_losses(self, now: Round, losses: Mapping[int, float]) -> None:
        """Record training losses; a model with NaN or infinite values is a TrainingError."""
        peers = np.array(list(losses), np.int64)
        now.measures["train_loss"][peers] = list(losses.values())
        broken = peers[~np.isfinite(now.measures["train_loss"][peers])]
        if len(broken):
            raise TrainingError(
                f"Training diverged in round {now.number}: the model of peer "
                f"{self.numbers[broken[0]]}"
                f"{f' and {len(broken) - 1} others' if len(broken) > 1 else ''} has NaN or "
                f"infinite values. A learning rate below {self.settings.training.learning_rate:g} "
                "usually helps: --set training.learning_rate=…"
            )

    def validate_trained(self, now: Round, peers: Peers) -> None:
        """Validate models after a round; for peers that did not merge, `merged` is `before`."""
        merged = now.measures["validation_loss_merged"]
        unmerged = peers[np.isnan(merged[peers]) & ~now.merged[peers]]
        self._record(now, "merged", unmerged, self._latest[:, unmerged])
        self.validate_merged(now, peers[np.isnan(merged[peers]) & now.merged[peers]])
        values = mean_results(self.validation(peers))
        self._record(now, "trained", peers, values)
        self._latest[:, peers] = values
        for bests in self._bests.values():
            bests.consider(self.current, peers, now.number, values)

    def test(self, now: Round) -> None:
        """Test every best model on its peer's current data; unchanged ones only once."""
        for name, bests in self._bests.items():
            outdated = np.flatnonzero(np.isnan(bests.tested[0]) & ~self.poisoning.peers)
            found = self._evaluations(name, outdated, "test", with_metrics=True)
            bests.tested[:2, outdated] = mean_results(found)
            for place, metric in enumerate(zip(*(each.metrics for each in found), strict=True), 2):
                bests.tested[place, outdated] = metric
            suffix = "" if name == "best" else "_other"
            now.measures[f"test_loss{suffix}"][:] = bests.tested[0]
            now.measures[f"test_score{suffix}"][:] = bests.tested[1]
        further = self._bests["best"].tested[2:].copy()
        now.metrics = dict(zip(self._metric_names, further, strict=True))

    def validate_best(self) -> npt.NDArray[np.float64]:
        """Return validation losses and scores of the best models, (2, K)."""
        return self._evaluate("best", np.arange(self.num_peers), "validation")

    def validate_untrained(self) -> npt.NDArray[np.float64]:
        """Return validation losses and scores of initial models, (2, K).

        They replace the working models.
        """
        common = self.settings.initialisation == "common"
        self._initialise(self.current, self.keys, common=common)
        self._validated.clear()
        return mean_results(self.validation(range(self.num_peers)))

    def _record(self, now: Round, when: str, peers: Peers, values: npt.NDArray[np.float64]) -> None:
        now.measures[f"validation_loss_{when}"][peers] = values[0]
        now.measures[f"validation_score_{when}"][peers] = values[1]

    def _evaluate(self, matrix: str, peers: Peers, part: Part) -> npt.NDArray[np.float64]:
        """Return mean losses and scores, (2, peers)."""
        return mean_results(self._evaluations(matrix, peers, part))

    def _evaluations(
        self, matrix: str, peers: Peers, part: Part, *, with_metrics: bool = False
    ) -> list[Evaluation]:
        jobs = [
            EvaluateJob(
                ModelReference(matrix, int(peer)), getattr(self.samples[peer], part), with_metrics
            )
            for peer in peers
        ]
        return self.trainer.evaluate(jobs)

    @property
    def _metric_names(self) -> tuple[str, ...]:
        return tuple(score.name for score in self.datasets.task.metrics)

    def save(self) -> dict[str, Any]:
        """Return what must survive between rounds; published models equal current ones then."""
        return {
            "current": self.current,
            "server": self.server,
            "latest": self._latest,
            "bests": {name: bests.save() for name, bests in self._bests.items()},
            "restraint": self.restraint.save(),
            "initial": self.initial,
            "untrained": self.untrained,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Take back what `save` returned."""
        self.current[:] = saved["current"]
        self._validated.clear()
        self.published[:] = saved["current"]
        self.server[:] = saved["server"]
        self._latest[:] = saved["latest"]
        for name, bests in self._bests.items():
            bests.restore(saved["bests"][name])
        self.restraint.restore(saved["restraint"])
        self.initial, self.untrained = saved["initial"], saved["untrained"]


def mean_results(evaluations: Sequence[Evaluation]) -> npt.NDArray[np.float64]:
    """Return mean losses and scores, (2, n)."""
    return np.array([[e.loss for e in evaluations], [e.score for e in evaluations]])
