"""Average or adopt: models that do not average well are not averaged (Kin's merge)."""

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
"""A share below this changes no weight of a model; of a stranger's it could only do harm."""


def average_or_adopt(
    me: Me, mine: Losses, theirs: Mapping[int, Losses], verdicts: Mapping[int, float]
) -> Generator[Request, Any, Weights]:
    """Return merge weights ∝ 1 for me and q_k for others, if that average is as good as the best.

    Otherwise a greedy soup: the best model alone, mine or another's, to which the next best are
    added as long as that makes it no worse.
    """
    amounts = {me.peer: 1.0, **{k: q for k, q in verdicts.items() if q > SMALLEST_SHARE}}
    if len(amounts) == 1:
        return amounts
    losses = {me.peer: mine, **{k: theirs[k] for k in amounts if verdicts.get(k, 0.0) > 0.5}}
    order = sorted(losses, key=lambda peer: (float(losses[peer].mean(dtype=np.float64)), peer))
    average = normalise(amounts)
    if not is_worse((yield ValidateMerge(average)), losses[order[0]]):
        return average
    return (yield from _soup(order, amounts, losses[order[0]]))


def _soup(order: list[int], amounts: Weights, reached: Losses) -> Generator[Request, Any, Weights]:
    soup = {order[0]: amounts[order[0]]}
    for peer in order[1:]:
        richer = {**soup, peer: amounts[peer]}
        tasted = yield ValidateMerge(normalise(richer))
        if not is_worse(tasted, reached):
            soup, reached = richer, tasted
    return normalise(soup)
