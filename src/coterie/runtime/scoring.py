"""Scores models: on a peer's training data, or by their weights against the peer's own model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coterie.errors import StrategyError
from coterie.learning.trainer import EvaluateJob, Matrix, ModelReference
from coterie.runtime.model_store import ModelStore
from coterie.strategies.requests import Metric


@dataclass(frozen=True)
class ScoreJob:
    """Score the published model of one peer for another peer."""

    model: int
    """The peer whose model is scored."""
    scorer: int
    """The peer whose data or model it is scored with."""
    metric: Metric


KnownScores = dict[tuple[int, int], tuple[float, float]]
"""Known losses and scores of the task, by (model, scorer)."""


def score_models(
    state: ModelStore, score_jobs: Sequence[ScoreJob], known: KnownScores | None = None
) -> list[float]:
    """Return the scores of all jobs; NaN where a metric is undefined.

    Models in `known` are not evaluated again; new evaluations are added to it.
    """
    known = {} if known is None else known
    values = np.full(len(score_jobs), np.nan)
    on_data = [n for n, job in enumerate(score_jobs) if job.metric in ("loss", "accuracy")]
    _evaluate(state, ((score_jobs[n].model, score_jobs[n].scorer) for n in on_data), known)
    for n in on_data:
        loss, score = known[score_jobs[n].model, score_jobs[n].scorer]
        values[n] = loss if score_jobs[n].metric == "loss" else score
    squares: dict[tuple[Metric, int], np.float64] = {}
    for n in sorted(set(range(len(score_jobs))) - set(on_data)):
        values[n] = _by_weights(state, score_jobs[n], squares)
    return [float(value) for value in values]


def _evaluate(state: ModelStore, pairs: Iterable[tuple[int, int]], known: KnownScores) -> None:
    """Evaluate the unknown models on their scorers' training data, all together."""
    new = [pair for pair in dict.fromkeys(pairs) if pair not in known]
    jobs = [
        EvaluateJob(
            ModelReference("published", model),
            state.samples[scorer].train,
            buffers=state.local_buffers(scorer),
        )
        for model, scorer in new
    ]
    for pair, result in zip(new, state.trainer.evaluate(jobs), strict=True):
        known[pair] = result.loss, result.score


def score_for_peer(
    state: ModelStore, scorer: int, models: Sequence[int], metric: Metric
) -> dict[int, float]:
    """Return one peer's scores of several models; undefined ones are left out."""
    values = score_models(state, [ScoreJob(model, scorer, metric) for model in models])
    return {
        model: value for model, value in zip(models, values, strict=True) if not math.isnan(value)
    }


def _by_weights(
    state: ModelStore, job: ScoreJob, squares: dict[tuple[Metric, int], np.float64]
) -> float:
    """Compare two models; squared lengths are kept in `squares` for the next jobs."""
    metric = job.metric
    one, other = (_vector(state, peer, metric) for peer in (job.model, job.scorer))
    if metric == "distance":
        return distance(one, other)
    for peer, vector in ((job.model, one), (job.scorer, other)):
        if (metric, peer) not in squares:
            squares[metric, peer] = _dot(vector, vector)
    return cosine(one, other, squares[metric, job.model] * squares[metric, job.scorer])


def _vector(state: ModelStore, peer: int, metric: Metric) -> Matrix:
    """Return the vector that is compared (P,): a published model's weights or its update."""
    published: Matrix = state.published[peer]
    if metric in ("cosine", "distance"):
        return state.exchanged.take(published)
    start = state.untrained if metric == "cosine-last-update" else state.initial
    if start is None:
        raise StrategyError(
            f"A strategy scored by '{metric}', which its required_metrics() must return."
        )
    return state.exchanged.take(published - start[peer])


def cosine(one: Matrix, other: Matrix, lengths: np.float64 | None = None) -> float:
    """Return the cosine of the angle between two vectors (P,); NaN if one is zero.

    `lengths` is the product of their squared lengths, where it is known already.
    """
    if lengths is None:
        lengths = _dot(one, one) * _dot(other, other)
    return float(_dot(one, other) / np.sqrt(lengths)) if lengths > 0 else math.nan


def distance(one: Matrix, other: Matrix) -> float:
    """Return the Euclidean distance between two vectors (P,)."""
    apart = one - other
    return float(np.sqrt(_dot(apart, apart)))


def _dot(one: Matrix, other: Matrix) -> np.float64:
    """Return the scalar product in double precision, summed in a fixed order."""
    product: npt.NDArray[np.float64] = np.multiply(one, other, dtype=np.float64)
    return np.float64(product.sum())
