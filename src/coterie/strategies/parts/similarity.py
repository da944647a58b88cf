"""Similarity metrics: what makes another peer's model look like mine (thesis 002, section 2.5).

A runtime answers `Score` with plain measurements; here they become similarities, where more is
more similar. A cosine can be negative: that is a value, not "unknown".
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable
from typing import Any, Literal, TypeAlias

from coterie.strategies.requests import AskScore, Metric, Offer, Request, Score

Similarity: TypeAlias = Literal[
    "inverse-loss", "accuracy", "cosine-weights", "inverse-distance", "cosine-gradients"
]
Scores: TypeAlias = dict[int, float]
SimilarityPlan: TypeAlias = Generator[Request, Any, Scores]

SMALLEST = 1e-12
"""Losses and distances below this count as this, so that nothing is divided by zero."""
LARGEST = 1.0 / SMALLEST
"""No similarity is above this, or below its negative: a cosine may be below 0."""
MEASURED_ON_DATA: tuple[Similarity, ...] = ("inverse-loss", "accuracy")
"""The similarities that depend on whose data they are measured."""


def metrics_for(similarity: Similarity, alpha: float) -> frozenset[Metric]:
    """Return the measurements a similarity is made of."""
    if similarity == "cosine-gradients":
        last: set[Metric] = {"cosine-last-update"} if alpha > 0 else set()
        total: set[Metric] = {"cosine-total-update"} if alpha < 1 else set()
        return frozenset(last | total)
    one: dict[str, Metric] = {
        "inverse-loss": "loss",
        "accuracy": "accuracy",
        "cosine-weights": "cosine",
        "inverse-distance": "distance",
    }
    return frozenset({one[similarity]})


def measure_similarities(
    offers: Iterable[Offer], similarity: Similarity, alpha: float = 1.0
) -> SimilarityPlan:
    """Measure how similar the offered models are to mine, on my data.

    For cosine-gradients: α·cos(Δ_last) + (1−α)·cos(Δ_init), where Δ_last is the change over the
    last local training and Δ_init the change since the initial weights.
    """
    fetched = tuple(offers)
    if similarity != "cosine-gradients":
        (metric,) = metrics_for(similarity, alpha)
        return _similarities(similarity, (yield Score(fetched, metric)))
    parts: list[tuple[float, Scores]] = []
    if alpha > 0:
        parts.append((alpha, (yield Score(fetched, "cosine-last-update"))))
    if alpha < 1:
        parts.append((1 - alpha, (yield Score(fetched, "cosine-total-update"))))
    known = set.intersection(*(set(scores) for _, scores in parts))
    cosines = {peer: sum(share * scores[peer] for share, scores in parts) for peer in sorted(known)}
    return _similarities(similarity, cosines)


def request_similarities(peers: tuple[int, ...], similarity: Similarity) -> SimilarityPlan:
    """Let peers measure my model on *their* data; for the similarities `MEASURED_ON_DATA` only."""
    (metric,) = metrics_for(similarity, alpha=1.0)
    return _similarities(similarity, (yield AskScore(peers, metric)))


def _similarities(similarity: Similarity, measured: Scores) -> Scores:
    """Turn measurements into similarities; what is no number then is not known."""
    values = measured
    if similarity in ("inverse-loss", "inverse-distance"):
        values = {peer: 1.0 / max(value, SMALLEST) for peer, value in measured.items()}
    return {peer: value for peer, value in values.items() if math.isfinite(value)}
