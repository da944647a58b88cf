"""Measures models for peers: on a judge's training data, or by weights against the judge's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coterie.errors import StrategyError
from coterie.learning.trainer import EvaluateJob, Matrix, ModelReference
from coterie.simulation.state import State
from coterie.strategies.base import Metric


@dataclass(frozen=True)
class Question:
    """How good, or how similar, is a peer's published model in the eyes of a judge?"""

    model: int
    judge: int
    metric: Metric


def measure(state: State, questions: Sequence[Question]) -> list[float]:
    """Answer all questions together; NaN where there is no answer."""
    values = np.full(len(questions), np.nan)
    on_data = [n for n, q in enumerate(questions) if q.metric in ("loss", "accuracy")]
    jobs = [
        EvaluateJob(
            ModelReference("published", questions[n].model),
            state.samples[questions[n].judge].train,
        )
        for n in on_data
    ]
    for n, result in zip(on_data, state.trainer.evaluate(jobs), strict=True):
        values[n] = result.loss if questions[n].metric == "loss" else result.accuracy
    for n in sorted(set(range(len(questions))) - set(on_data)):
        values[n] = _by_weights(state, questions[n])
    return [float(value) for value in values]


def _by_weights(state: State, question: Question) -> float:
    theirs, mine = question.model, question.judge
    match question.metric:
        case "cosine":
            return cosine(state.published[theirs], state.published[mine])
        case "distance":
            return distance(state.published[theirs], state.published[mine])
        case "cosine-last-update":
            start = state.untrained
        case _:
            start = state.initial
    if start is None:
        raise StrategyError(
            f"A strategy scored by '{question.metric}' without naming it in `needs`."
        )
    return cosine(state.published[theirs] - start[theirs], state.published[mine] - start[mine])


def cosine(one: Matrix, other: Matrix) -> float:
    """Return the cosine of the angle between two vectors (P,); NaN if one is zero."""
    lengths = np.sqrt(_dot(one, one) * _dot(other, other))
    return float(_dot(one, other) / lengths) if lengths > 0 else float("nan")


def distance(one: Matrix, other: Matrix) -> float:
    """Return the Euclidean distance between two vectors (P,)."""
    apart = one - other
    return float(np.sqrt(_dot(apart, apart)))


def _dot(one: Matrix, other: Matrix) -> np.float64:
    """Return the scalar product in double precision, summed in one fixed order."""
    product: npt.NDArray[np.float64] = np.multiply(one, other, dtype=np.float64)
    return np.float64(product.sum())
