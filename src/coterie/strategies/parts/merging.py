"""Merge rules: how much of each model goes into mine. Each returns {peer: weight}, summing to 1."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from coterie.strategies.parts.sampling import SamplingProbabilities
from coterie.strategies.requests import Offer
from coterie.strategies.strategy import Me

MergeRule: TypeAlias = Literal["fedavg", "fedsim"]


def normalise(amounts: Mapping[int, float]) -> dict[int, float]:
    """Scale positive amounts so that they sum to 1."""
    total = sum(amounts.values())
    return {peer: amount / total for peer, amount in amounts.items()}


def federated_average(me: Me, offers: Iterable[Offer]) -> dict[int, float]:
    """FedAvg with my own model included: w_i ← Σ_{k∈S∪{i}} (n_k / Σ n) w_k."""
    samples = {offer.peer: float(offer.num_samples) for offer in offers}
    return normalise({me.peer: float(me.num_samples), **samples})


def federated_similarity(
    me: Me, offers: Sequence[Offer], chances: SamplingProbabilities
) -> dict[int, float]:
    """FedSim (thesis 2.12): weights ∝ p_i(k), my own the largest of them.

    p_i is the distribution the peers were sampled from. The largest is divided out first: where
    all are tiny, their proportions still count.
    """
    if not offers:
        return {me.peer: 1.0}
    logs = {offer.peer: chances.log_probability(offer.peer) for offer in offers}
    highest = max(logs.values())
    return normalise({me.peer: 1.0, **{p: math.exp(log - highest) for p, log in logs.items()}})


def merge_weights(
    rule: MergeRule, me: Me, offers: Sequence[Offer], chances: SamplingProbabilities
) -> dict[int, float]:
    """Return the weights of the chosen rule."""
    if rule == "fedsim":
        return federated_similarity(me, offers, chances)
    return federated_average(me, offers)
