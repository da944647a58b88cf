"""Strategies: one file per algorithm, all of the same shape; `catalogue.py` lists them.

What authors of strategies need is imported from here.
"""

from coterie.strategies.catalogue import DEFAULT_STRATEGY, STRATEGIES, make_strategy
from coterie.strategies.requests import (
    AskScore,
    Depth,
    Fetch,
    Listen,
    Merge,
    Message,
    Metric,
    Offer,
    Plan,
    Receive,
    Request,
    Score,
    Send,
    Tell,
    Train,
    Try,
    Validate,
)
from coterie.strategies.server.server_strategy import ServerStrategy
from coterie.strategies.strategy import Beliefs, GroundTruth, Me, Strategy

__all__ = [
    "DEFAULT_STRATEGY",
    "STRATEGIES",
    "AskScore",
    "Beliefs",
    "Depth",
    "Fetch",
    "GroundTruth",
    "Listen",
    "Me",
    "Merge",
    "Message",
    "Metric",
    "Offer",
    "Plan",
    "Receive",
    "Request",
    "Score",
    "Send",
    "ServerStrategy",
    "Strategy",
    "Tell",
    "Train",
    "Try",
    "Validate",
    "make_strategy",
]
