"""Measures the true similarity of all other peers to watched peers.

It is the similarity that the peer would measure if it fetched all models in this round.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.runtime.model_store import ModelStore
from coterie.runtime.published_models import PublishedModels
from coterie.runtime.scoring import score_for_peer
from coterie.runtime.settings import WatchSettings
from coterie.strategies.parts.similarity import (
    Scores,
    Similarity,
    SimilarityPlan,
    measure_similarities,
    metrics_for,
)
from coterie.strategies.requests import Metric, Score


def watched_measurements(watch: WatchSettings) -> frozenset[Metric]:
    """Return the metrics that watching needs; none without watched peers."""
    if not watch.peers:
        return frozenset()
    return frozenset().union(*(metrics_for(each, watch.alpha) for each in watch.metrics))


def true_similarities(
    state: ModelStore, models: PublishedModels, clusters: npt.NDArray[np.int64]
) -> dict[str, npt.NDArray[Any]]:
    """Return one row per watched peer of `state`, metric and other peer.

    Undefined values have no row.
    """
    watch = state.settings.watch
    rows = [
        (peer, other, metric, value)
        for peer in watched_here(state)
        for metric in watch.metrics
        for other, value in _similarities(state, models, peer, metric).items()
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


def watched_here(state: ModelStore) -> list[int]:
    """Return the watched peers whose models are in `state`."""
    return [peer for peer in state.settings.watch.peers if peer in state.numbers]


def _similarities(
    state: ModelStore, models: PublishedModels, peer: int, similarity: Similarity
) -> Scores:
    others = (o for o in range(state.datasets.num_peers_in_network) if o != peer)
    offers = [models.offer(other) for other in others]
    plan = measure_similarities(offers, similarity, state.settings.watch.alpha)
    return _answer_requests(state, models, peer, plan)


def _answer_requests(
    state: ModelStore, models: PublishedModels, scorer: int, plan: SimilarityPlan
) -> Scores:
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
        scored = [offer.peer for offer in request.offers]
        answer = score_for_peer(state, models, scorer, scored, request.metric)
