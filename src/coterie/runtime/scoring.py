"""Measures models for peers: on a judge's training data, or by weights against the judge's own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coterie.errors import StrategyError
from coterie.learning.trainer import EvaluateJob, Matrix, ModelReference
from coterie.runtime.model_store import State
from coterie.strategies.requests import Metric


@dataclass(frozen=True)
class Question:
    """How good, or how similar, is a peer's published model in the eyes of a judge?"""

    model: int
    judge: int
    metric: Metric


Known = dict[tuple[int, int], tuple[float, float]]
"""Loss and accuracy of (model, judge), as far as they have been measured."""


def measure(state: State, questions: Sequence[Question], known: Known | None = None) -> list[float]:
    """Answer all questions together; NaN where there is no answer.

    What is `known` already is not evaluated again, and what was evaluated is added to it.
    """
    known = {} if known is None else known
    values = np.full(len(questions), np.nan)
    on_data = [n for n, q in enumerate(questions) if q.metric in ("loss", "accuracy")]
    _evaluate(state, ((questions[n].model, questions[n].judge) for n in on_data), known)
    for n in on_data:
        loss, accuracy = known[questions[n].model, questions[n].judge]
        values[n] = loss if questions[n].metric == "loss" else accuracy
    squares: dict[tuple[Metric, int], np.float64] = {}
    for n in sorted(set(range(len(questions))) - set(on_data)):
        values[n] = _by_weights(state, questions[n], squares)
    return [float(value) for value in values]


def _evaluate(state: State, pairs: Iterable[tuple[int, int]], known: Known) -> None:
    """Evaluate models on their judges' training data, all that are not known yet at once."""
    new = [pair for pair in dict.fromkeys(pairs) if pair not in known]
    jobs = [
        EvaluateJob(ModelReference("published", model), state.samples[judge].train)
        for model, judge in new
    ]
    for pair, result in zip(new, state.trainer.evaluate(jobs), strict=True):
        known[pair] = result.loss, result.accuracy


def scores(state: State, judge: int, models: Sequence[int], metric: Metric) -> dict[int, float]:
    """Return the values of several models in one judge's eyes; those without are left out."""
    values = measure(state, [Question(model, judge, metric) for model in models])
    return {
        model: value for model, value in zip(models, values, strict=True) if not math.isnan(value)
    }


def _by_weights(
    state: State, question: Question, squares: dict[tuple[Metric, int], np.float64]
) -> float:
    """Compare two models; squared lengths are kept for the next questions, vectors are not."""
    metric = question.metric
    one, other = (_vector(state, peer, metric) for peer in (question.model, question.judge))
    if metric == "distance":
        return distance(one, other)
    for peer, vector in ((question.model, one), (question.judge, other)):
        if (metric, peer) not in squares:
            squares[metric, peer] = _dot(vector, vector)
    return cosine(one, other, squares[metric, question.model] * squares[metric, question.judge])


def _vector(state: State, peer: int, metric: Metric) -> Matrix:
    """Return what is compared of a peer's published model (P,): its weights, or their change."""
    published: Matrix = state.published[peer]
    if metric in ("cosine", "distance"):
        return published
    start = state.untrained if metric == "cosine-last-update" else state.initial
    if start is None:
        raise StrategyError(f"A strategy scored by '{metric}' without naming it in `needs`.")
    change: Matrix = published - start[peer]
    return change


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
    """Return the scalar product in double precision, summed in one fixed order."""
    product: npt.NDArray[np.float64] = np.multiply(one, other, dtype=np.float64)
    return np.float64(product.sum())
