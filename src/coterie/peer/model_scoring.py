"""Scores other peers' models on this peer's data when they ask, also during training."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from torch import nn

from coterie.data.peer_datasets import PeerDatasets
from coterie.learning.settings import TrainingSettings
from coterie.learning.trainer import EvaluateJob, ModelReference, Trainer, Workspace
from coterie.learning.trainer_choice import Tell, make_trainer
from coterie.models.exchanged_part import ExchangedPart
from coterie.peer.wire.model import Vector
from coterie.runtime.check_task import is_like_accuracy


class ModelScorer:
    """Scores one model at a time with its own trainer: the main one may be busy for minutes."""

    def __init__(
        self,
        data: PeerDatasets,
        build: Callable[[], nn.Module],
        settings: TrainingSettings,
        tell: Tell,
        exchanged: ExchangedPart | None = None,
    ) -> None:
        self._data = data
        self._build = build
        self._settings = settings
        self._tell = tell
        self._exchanged = exchanged
        self._workspace = Workspace(data.pools)
        self._trainer: Trainer | None = None
        self._thread = ThreadPoolExecutor(1, "scorer")

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that can be computed on this data."""
        score = self._data.task.score
        return frozenset(("loss", "accuracy") if is_like_accuracy(score) else ("loss",))

    async def score(
        self, model: Vector, metric: str, round_number: int, own: Vector | None = None
    ) -> float:
        """Return the loss or score of a model (P,) on this peer's training data of a round.

        Local buffers are those of this peer's `own` model; without it the score is NaN.
        """
        if self._exchanged is not None and not self._exchanged.is_whole:
            if own is None:
                return math.nan
            model = self._exchanged.fill(model, own)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._thread, self._score, model, metric, self._data.step_of(round_number)
        )

    def _score(self, model: Vector, metric: str, step: int) -> float:
        self._workspace.matrices = {"asked": model[np.newaxis]}
        samples = self._data.load_step(step)[0].train
        (result,) = self._ready_trainer().evaluate(
            [EvaluateJob(ModelReference("asked", 0), samples)]
        )
        self._workspace.matrices = {}
        return result.loss if metric == "loss" else result.score

    def _ready_trainer(self) -> Trainer:
        # Made when first needed: most strategies never ask other peers for scores.
        if self._trainer is None:
            self._trainer = make_trainer(
                self._build,
                self._settings,
                self._workspace,
                self._data.task,
                threads=1,
                tell=self._tell,
            )
        return self._trainer

    def close(self) -> None:
        """Stop scoring."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._trainer is not None:
            self._trainer.close()
