"""Driving a strategy's round by hand: a runtime of a few lines."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any


def drive(plan: Generator[Any, Any, None], answer: Callable[[Any], Any]) -> list[Any]:
    """Answer every request of a round, and return the requests in order."""
    asked: list[Any] = []
    reply = None
    while True:
        try:
            request = plan.send(reply)
        except StopIteration:
            return asked
        asked.append(request)
        reply = answer(request)
