"""Merge rules: how much of each model goes into mine. Each returns {peer: weight}, summing to 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coterie.strategies.base import Me, Offer


def normalised(amounts: Mapping[int, float]) -> dict[int, float]:
    """Scale positive amounts so that they sum to 1."""
    total = sum(amounts.values())
    return {peer: amount / total for peer, amount in amounts.items()}


def federated_average(me: Me, offers: Iterable[Offer]) -> dict[int, float]:
    """FedAvg with my own model included: w_i ← Σ_{k∈S∪{i}} (n_k / Σ n) w_k."""
    samples = {offer.peer: float(offer.num_samples) for offer in offers}
    return normalised({me.peer: float(me.num_samples), **samples})
