"""Strategies: one file per algorithm, all of the same shape; `catalogue.py` lists them.

What authors of strategies need is imported from here.
"""

from coterie.strategies.catalogue import DEFAULT_STRATEGY, STRATEGIES, make_strategy
from coterie.strategies.requests import (
    AskScore,
    Depth,
    Fetch,
    Merge,
    Message,
    Metric,
    Offer,
    Plan,
    Receive,
    ReceiveReports,
    Report,
    Request,
    Score,
    Send,
    Train,
    Validate,
    ValidateMerge,
)
from coterie.strategies.server.server_strategy import ServerStrategy
from coterie.strategies.strategy import Estimates, GroundTruth, Me, Strategy

__all__ = [
    "DEFAULT_STRATEGY",
    "STRATEGIES",
    "AskScore",
    "Depth",
    "Estimates",
    "Fetch",
    "GroundTruth",
    "Me",
    "Merge",
    "Message",
    "Metric",
    "Offer",
    "Plan",
    "Receive",
    "ReceiveReports",
    "Report",
    "Request",
    "Score",
    "Send",
    "ServerStrategy",
    "Strategy",
    "Train",
    "Validate",
    "ValidateMerge",
    "make_strategy",
]
