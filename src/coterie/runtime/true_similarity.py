"""Measures the true similarity of all other peers to watched peers.

It is the similarity that the peer would measure if it fetched all models in this round.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.runtime.model_store import ModelStore
from coterie.runtime.scoring import score_for_peer
from coterie.runtime.settings import WatchSettings
from coterie.strategies.parts.similarity import (
    Scores,
    Similarity,
    SimilarityPlan,
    measure_similarities,
    metrics_for,
)
from coterie.strategies.requests import Metric, Offer, Score


def watched_measurements(watch: WatchSettings) -> frozenset[Metric]:
    """Return the metrics that watching needs; none without watched peers."""
    if not watch.peers:
        return frozenset()
    return frozenset().union(*(metrics_for(each, watch.alpha) for each in watch.metrics))


def true_similarities(
    state: ModelStore, clusters: npt.NDArray[np.int64]
) -> dict[str, npt.NDArray[Any]]:
    """Return one row per watched peer, metric and other peer; undefined values have no row."""
    watch = state.settings.watch
    rows = [
        (peer, other, metric, value)
        for peer in watch.peers
        for metric in watch.metrics
        for other, value in _similarities(state, peer, metric, watch.alpha).items()
    ]
    peers, others, metrics, values = zip(*rows, strict=True) if rows else ((), (), (), ())
    return {
        "peer": np.array(peers, np.int32),
        "cluster": clusters[np.array(peers, np.int64)].astype(np.int32),
        "other": np.array(others, np.int32),
        "other_cluster": clusters[np.array(others, np.int64)].astype(np.int32),
        "metric": np.array(metrics, dtype=object),
        "similarity": np.array(values, np.float64),
    }


def _similarities(state: ModelStore, peer: int, similarity: Similarity, alpha: float) -> Scores:
    others = (other for other in range(state.num_peers) if other != peer)
    offers = [Offer(other, len(state.samples[other].train), {}) for other in others]
    return _answer_requests(state, peer, measure_similarities(offers, similarity, alpha))


def _answer_requests(state: ModelStore, scorer: int, plan: SimilarityPlan) -> Scores:
    """Answer the requests of a measurement without a network; return its result."""
    answer: Scores | None = None
    while True:
        try:
            request = plan.send(answer)
        except StopIteration as done:
            result: Scores = done.value
            return result
        if not isinstance(request, Score):
            raise TypeError(f"A measurement yielded {request!r}, but only Score is possible here.")
        models = [offer.peer for offer in request.offers]
        answer = score_for_peer(state, scorer, models, request.metric)
