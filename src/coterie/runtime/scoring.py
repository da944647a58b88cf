"""Scores models: on a peer's training data, or by their weights against the peer's own model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coterie.learning.trainer import EvaluateJob, Matrix
from coterie.runtime.model_store import ModelStore
from coterie.runtime.published_models import PublishedModels
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
    state: ModelStore,
    models: PublishedModels,
    score_jobs: Sequence[ScoreJob],
    known: KnownScores | None = None,
) -> list[float]:
    """Return the scores of all jobs; NaN where a metric is undefined.

    The scorers are peers of `state`. Models in `known` are not evaluated again; new evaluations are
    added to it.
    """
    known = {} if known is None else known
    values = np.full(len(score_jobs), np.nan)
    on_data = [n for n, job in enumerate(score_jobs) if job.metric in ("loss", "accuracy")]
    _evaluate(state, models, ((score_jobs[n].model, score_jobs[n].scorer) for n in on_data), known)
    for n in on_data:
        loss, score = known[score_jobs[n].model, score_jobs[n].scorer]
        values[n] = loss if score_jobs[n].metric == "loss" else score
    squares: dict[tuple[Metric, int], np.float64] = {}
    for n in sorted(set(range(len(score_jobs))) - set(on_data)):
        values[n] = _by_weights(models, score_jobs[n], squares)
    return [float(value) for value in values]


def _evaluate(
    state: ModelStore,
    models: PublishedModels,
    pairs: Iterable[tuple[int, int]],
    known: KnownScores,
) -> None:
    """Evaluate the unknown models on their scorers' training data, all together."""
    new = [pair for pair in dict.fromkeys(pairs) if pair not in known]
    jobs = []
    for model, scorer in new:
        row = state.numbers.index(scorer)
        jobs.append(
            EvaluateJob(
                models.reference(model), state.samples[row].train, buffers=state.local_buffers(row)
            )
        )
    for pair, result in zip(new, state.trainer.evaluate(jobs), strict=True):
        known[pair] = result.loss, result.score


def score_for_peer(
    state: ModelStore, models: PublishedModels, scorer: int, scored: Sequence[int], metric: Metric
) -> dict[int, float]:
    """Return one peer's scores of several models; undefined ones are left out."""
    values = score_models(state, models, [ScoreJob(model, scorer, metric) for model in scored])
    return {
        model: value for model, value in zip(scored, values, strict=True) if not math.isnan(value)
    }


def _by_weights(
    models: PublishedModels, job: ScoreJob, squares: dict[tuple[Metric, int], np.float64]
) -> float:
    """Compare two models; squared lengths are kept in `squares` for the next jobs."""
    metric = job.metric
    one, other = (models.vector(peer, metric) for peer in (job.model, job.scorer))
    if metric == "distance":
        return distance(one, other)
    for peer, vector in ((job.model, one), (job.scorer, other)):
        if (metric, peer) not in squares:
            squares[metric, peer] = _dot(vector, vector)
    return cosine(one, other, squares[metric, job.model] * squares[metric, job.scorer])


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
