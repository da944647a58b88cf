"""Merge rules: the weight of each model in a merge, as {peer: weight} that sums to 1.

References
----------
McMahan et al., "Communication-efficient learning of deep networks from decentralized data", 2017.

Hagander, Ihre-Thomason, "With a little help from my friends: a comparative study of decentralized
deep learning strategies", master's thesis, Lund University, 2024. Equation 2.12 (FedSim).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from coterie.strategies.parts.sampling import SamplingProbabilities
from coterie.strategies.requests import Offer
from coterie.strategies.strategy import Me

MergeRule: TypeAlias = Literal["fedavg", "fedsim"]


def normalise(amounts: Mapping[int, float]) -> dict[int, float]:
    """Scale positive amounts so that they sum to 1.

    Parameters
    ----------
    amounts
        {peer: amount}, at least one of them positive.

    Examples
    --------
    >>> normalise({0: 1.0, 2: 3.0})
    {0: 0.25, 2: 0.75}
    """
    total = sum(amounts.values())
    return {peer: amount / total for peer, amount in amounts.items()}


def federated_average(me: Me, offers: Iterable[Offer]) -> dict[int, float]:
    """Return the weights of FedAvg with the own model included: w_i ← Σ_{k∈S∪{i}} (n_k / Σn) w_k.

    Parameters
    ----------
    me
        The merging peer i, with n_i training samples.
    offers
        The fetched models S, each with n_k.

    Examples
    --------
    >>> import numpy as np
    >>> from coterie.strategies import Me, Offer
    >>> me = Me(peer=0, round=1, known=np.arange(4), num_samples=30, rng=np.random.default_rng(0))
    >>> federated_average(me, [Offer(2, num_samples=10, message={})])
    {0: 0.75, 2: 0.25}
    """
    samples = {offer.peer: float(offer.num_samples) for offer in offers}
    return normalise({me.peer: float(me.num_samples), **samples})


def federated_similarity(
    me: Me, offers: Sequence[Offer], probabilities: SamplingProbabilities
) -> dict[int, float]:
    """Return the weights of FedSim: ∝ p_i(k), and the own weight is the largest of them.

    Parameters
    ----------
    me
        The merging peer i.
    offers
        The fetched models.
    probabilities
        p_i, the distribution from which the peers were sampled.

    Examples
    --------
    >>> import numpy as np
    >>> from coterie.strategies import Me, Offer
    >>> from coterie.strategies.parts.sampling import SamplingProbabilities
    >>> me = Me(peer=0, round=1, known=np.arange(3), num_samples=30, rng=np.random.default_rng(0))
    >>> p_i = SamplingProbabilities(me.others, np.log([0.8, 0.2]))
    >>> weights = federated_similarity(me, [Offer(1, 10, {}), Offer(2, 10, {})], p_i)
    >>> {peer: round(weight, 3) for peer, weight in weights.items()}
    {0: 0.444, 1: 0.444, 2: 0.111}
    """
    if not offers:
        return {me.peer: 1.0}
    logs = {offer.peer: probabilities.log_probability(offer.peer) for offer in offers}
    # The largest is divided out first: where all are tiny, their proportions still count.
    highest = max(logs.values())
    return normalise({me.peer: 1.0, **{p: math.exp(log - highest) for p, log in logs.items()}})


def merge_weights(
    rule: MergeRule, me: Me, offers: Sequence[Offer], probabilities: SamplingProbabilities
) -> dict[int, float]:
    """Return the weights of a merge rule.

    Parameters
    ----------
    rule
        "fedavg" or "fedsim".
    me
        The merging peer.
    offers
        The fetched models.
    probabilities
        The distribution from which the peers were sampled; only FedSim uses it.

    Examples
    --------
    >>> import numpy as np
    >>> from coterie.strategies import Me, Offer
    >>> from coterie.strategies.parts.sampling import uniform_probabilities
    >>> me = Me(peer=0, round=1, known=np.arange(3), num_samples=30, rng=np.random.default_rng(0))
    >>> p_i = uniform_probabilities(me.others, me.others)
    >>> merge_weights("fedsim", me, [Offer(2, 10, {})], p_i)
    {0: 0.5, 2: 0.5}
    """
    if rule == "fedsim":
        return federated_similarity(me, offers, probabilities)
    return federated_average(me, offers)
