"""Similarity metrics: from plain scores to similarities, where higher is more similar.

A cosine can be negative: that is a value, not "unknown".

References
----------
Hagander, Ihre-Thomason, "With a little help from my friends: a comparative study of decentralized
deep learning strategies", master's thesis, Lund University, 2024. Section 2.5.
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
"""Lower bound of losses and distances, so that nothing is divided by zero."""
LARGEST = 1.0 / SMALLEST
"""Upper bound of similarities; its negative is the lower bound, as a cosine may be negative."""
MEASURED_ON_DATA: tuple[Similarity, ...] = ("inverse-loss", "accuracy")
"""The similarities that depend on the data they are measured on."""


def metrics_for(similarity: Similarity, alpha: float) -> frozenset[Metric]:
    """Return the metrics that a similarity is computed from.

    Parameters
    ----------
    similarity
        One of the five similarities.
    alpha
        α of "cosine-gradients", see `measure_similarities`.

    Examples
    --------
    >>> metrics_for("inverse-distance", alpha=1.0)
    frozenset({'distance'})
    >>> sorted(metrics_for("cosine-gradients", alpha=0.5))
    ['cosine-last-update', 'cosine-total-update']
    """
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
    """Measure how similar the offered models are, on this peer's own data or to its own model.

    Parameters
    ----------
    offers
        The fetched models.
    similarity
        "inverse-loss": 1/ℓ. "accuracy": share of correct answers. "cosine-weights": cos(w_i, w_k).
        "inverse-distance": 1/‖w_i − w_k‖. "cosine-gradients":
        α·cos(Δ_last) + (1−α)·cos(Δ_init), where Δ_last is the change over the last local training
        and Δ_init the change since the initial weights.
    alpha
        α in [0, 1].

    Returns
    -------
    dict
        {peer: similarity}; peers without a finite similarity are missing.

    Examples
    --------
    >>> from coterie.strategies import Offer
    >>> offers = [Offer(1, 10, {}), Offer(2, 10, {})]
    >>> plan = measure_similarities(offers, "inverse-loss")
    >>> next(plan).metric
    'loss'
    >>> try:
    ...     plan.send({1: 0.5, 2: 4.0})
    ... except StopIteration as stopped:
    ...     print(stopped.value)
    {1: 2.0, 2: 0.25}
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
    """Let peers measure this peer's model on *their* data.

    Parameters
    ----------
    peers
        The peers to ask.
    similarity
        "inverse-loss" or "accuracy": one of `MEASURED_ON_DATA`.

    Returns
    -------
    dict
        {peer: similarity}; peers that did not answer are missing.

    Examples
    --------
    >>> next(request_similarities((2, 5), "accuracy"))
    AskScore(peers=(2, 5), metric='accuracy')
    """
    (metric,) = metrics_for(similarity, alpha=1.0)
    return _similarities(similarity, (yield AskScore(peers, metric)))


def _similarities(similarity: Similarity, scores: Scores) -> Scores:
    """Convert scores to similarities; drop what is not finite."""
    values = scores
    if similarity in ("inverse-loss", "inverse-distance"):
        values = {peer: 1.0 / max(value, SMALLEST) for peer, value in scores.items()}
    return {peer: value for peer, value in values.items() if math.isfinite(value)}
