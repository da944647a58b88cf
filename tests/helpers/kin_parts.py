"""Shared by tests of Kin and its parts: losses, a peer, offers, and answers to a plan."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

import numpy as np

from coterie.strategies.kin.paired_test import Losses
from coterie.strategies.requests import Offer
from coterie.strategies.strategy import Me


def losses(*values: float) -> Losses:
    return np.array(values, np.float32)


def me(number: int = 0, known: int = 6, seed: int = 0, num_samples: int = 10) -> Me:
    return Me(
        peer=number,
        round=1,
        known=np.arange(known),
        num_samples=num_samples,
        rng=np.random.default_rng(seed),
    )


def offer(peer: int, results: Mapping[int, float]) -> Offer:
    """Return a peer's model, with the table of test results that travels with it."""
    peers = np.array(list(results), np.int64)
    return Offer(peer, 10, {"peers": peers, "verdicts": np.array(list(results.values()), float)})


def played(plan: Generator[Any, Any, Any], answer: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """Run a plan to its end, answering requests; return its requests and its result."""
    asked: list[Any] = []
    reply = None
    while True:
        try:
            request = plan.send(reply)
        except StopIteration as done:
            return asked, done.value
        asked.append(request)
        reply = answer(request)
