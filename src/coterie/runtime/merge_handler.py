"""Answers merge requests: weighted sums of the models that a peer holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from coterie.errors import StrategyError
from coterie.learning.trainer import EvaluateJob, Evaluation, Matrix, ModelReference
from coterie.runtime.model_store import ModelStore
from coterie.runtime.round import Round
from coterie.strategies.requests import Depth, Merge, ValidateMerge

RuleBroken = Callable[[Round, int, str], StrategyError]
"""Returns the error for a peer whose strategy breaks a rule."""


class MergeHandler:
    """Merges models, or only validates merges; `held` are the models of others, by row."""

    def __init__(
        self, state: ModelStore, held: list[dict[int, Matrix]], rule_broken: RuleBroken
    ) -> None:
        self._state = state
        self._held = held
        self._rule_broken = rule_broken
        self._trials: dict[int, tuple[ValidateMerge, Evaluation]] = {}
        """The last merge that each peer validated without doing it, and its validation."""

    def forget_trial(self, peer: int) -> None:
        """Forget the validated merge of a peer: its working model may change."""
        self._trials.pop(peer, None)

    def validate(self, now: Round, requests: dict[int, ValidateMerge]) -> dict[int, Any]:
        """Return the validation losses of merges; a few at a time, which bounds the memory."""
        answers = {}
        peers = list(requests)
        trials = self._state.trial_models()
        for start in range(0, len(peers), len(trials)):
            batch = peers[start : start + len(trials)]
            jobs = []
            for row, peer in enumerate(batch):
                self._check(now, peer, requests[peer].weights)
                trials[row] = self._state.current[peer]
                self._mix(trials[row], peer, requests[peer])
                model = ModelReference("trials", row)
                jobs.append(EvaluateJob(model, self._state.samples[peer].validation))
            for peer, result in zip(batch, self._state.trainer.evaluate(jobs), strict=True):
                self._trials[peer] = (requests[peer], result)
                answers[peer] = result.losses
        return answers

    def merge(self, now: Round, requests: dict[int, Merge]) -> dict[int, Any]:
        """Merge models into the peers' working models."""
        for peer, request in requests.items():
            self._check(now, peer, request.weights)
            self._mix(self._state.current[peer], peer, request)
            self._state.forget_validation([peer])
            self._reuse_trial(peer, request)
            own = self._state.numbers[peer]
            for other, weight in request.weights.items():
                if other != own:
                    now.exchanges.record_merge_weight(own, other, weight)
                    now.merged[peer] = True
        return {}

    def _reuse_trial(self, peer: int, request: Merge) -> None:
        """Reuse the validation of a merge that has just been validated."""
        trial = self._trials.pop(peer, None)
        if trial and _result_key(trial[0]) == _result_key(request):
            self._state.record_validation(peer, trial[1])

    def _mix(self, mine: Matrix, peer: int, request: Merge | ValidateMerge) -> None:
        """Replace a model (P,) by Σ weight·model, in the requested layers; local buffers stay."""
        own = self._state.numbers[peer]
        for part in self._state.exchanged.slices(self._state.depth(request.last_layers)):
            mine[part] *= np.float32(request.weights.get(own, 0.0))
            for other, weight in request.weights.items():
                if other != own:
                    mine[part] += np.float32(weight) * self._held[peer][other][part]

    def _check(self, now: Round, peer: int, weights: Mapping[int, float]) -> None:
        own = self._state.numbers[peer]
        for other, weight in weights.items():
            if other != own and other not in self._held[peer]:
                raise self._rule_broken(now, peer, f"merged peer {other} without having its model")
            if not math.isfinite(weight):
                raise self._rule_broken(now, peer, f"gave peer {other} the merge weight {weight}")
        if not math.isclose(sum(weights.values()), 1.0, abs_tol=1e-6):
            raise self._rule_broken(
                now, peer, f"merged with weights that sum to {sum(weights.values())} instead of 1"
            )


def _result_key(request: Merge | ValidateMerge) -> tuple[list[tuple[int, float]], Depth]:
    """Return all that decides a merge bit for bit; sums depend on the order, too."""
    return list(request.weights.items()), request.last_layers
