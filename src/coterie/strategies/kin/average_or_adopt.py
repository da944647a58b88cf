"""Kin's merge: average the models if that loses nothing, else adopt the best of them.

References
----------
Wortsman et al., "Model soups: averaging weights of multiple fine-tuned models improves accuracy
without increasing inference time", 2022. Recipe 1 (greedy soup).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from coterie.strategies.kin.paired_test import Losses, is_worse
from coterie.strategies.parts.merging import normalise
from coterie.strategies.requests import Request, ValidateMerge
from coterie.strategies.strategy import Me

Weights = dict[int, float]
SMALLEST_SHARE = float(np.finfo(np.float32).eps)
"""Models below this q are left out: so small a share changes no float32 weight for the better."""


def average_or_adopt(
    me: Me, mine: Losses, theirs: Mapping[int, Losses], results: Mapping[int, float]
) -> Generator[Request, Any, Weights]:
    """Return merge weights ∝ 1 for the own model and q_k for others, unless the average is worse.

    If the average is worse than the best single model, the weights are a greedy soup. It starts
    from the best model alone, own or fetched. The next best are added as long as the soup does not
    become worse.

    Parameters
    ----------
    me
        The merging peer.
    mine
        Per-sample losses of the own model on the validation data, (n,).
    theirs
        {peer: per-sample losses} of the fetched models, (n,) each.
    results
        {peer: q_k}, the test results.

    Examples
    --------
    >>> from coterie.strategies import Me
    >>> me = Me(peer=0, round=1, known=np.arange(4), num_samples=10, rng=np.random.default_rng(0))
    >>> mine, theirs = np.float32([1.0, 1.2] * 10), {2: np.float32([0.5, 0.8] * 10)}
    >>> plan = average_or_adopt(me, mine, theirs, {2: 0.75})
    >>> next(plan)
    ValidateMerge(weights={0: 0.5714285714285714, 2: 0.42857142857142855}, last_layers=None)
    >>> plan.send(mine + 3)  # the average is worse than model 2 alone: try a soup
    ValidateMerge(weights={2: 0.42857142857142855, 0: 0.5714285714285714}, last_layers=None)
    >>> try:
    ...     plan.send(mine + 3)
    ... except StopIteration as stopped:
    ...     print(stopped.value)
    {2: 1.0}
    """
    amounts = {me.peer: 1.0, **{k: q for k, q in results.items() if q > SMALLEST_SHARE}}
    if len(amounts) == 1:
        return amounts
    losses = {me.peer: mine, **{k: theirs[k] for k in amounts if results.get(k, 0.0) > 0.5}}
    order = sorted(losses, key=lambda peer: (float(losses[peer].mean(dtype=np.float64)), peer))
    average = normalise(amounts)
    if not is_worse((yield ValidateMerge(average)), losses[order[0]]):
        return average
    return (yield from _greedy_soup(order, amounts, losses[order[0]]))


def _greedy_soup(
    order: list[int], amounts: Weights, reached: Losses
) -> Generator[Request, Any, Weights]:
    soup = {order[0]: amounts[order[0]]}
    for peer in order[1:]:
        extended = {**soup, peer: amounts[peer]}
        losses = yield ValidateMerge(normalise(extended))
        if not is_worse(losses, reached):
            soup, reached = extended, losses
    return normalise(soup)
