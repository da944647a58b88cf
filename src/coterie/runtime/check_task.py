"""Checks that a strategy fits the task of a run."""

from __future__ import annotations

from coterie.data.peer_datasets import PeerDatasets
from coterie.errors import ConfigError
from coterie.strategies.server.server_strategy import ServerStrategy
from coterie.strategies.strategy import Strategy
from coterie.tasks import TaskScore


def is_like_accuracy(score: TaskScore) -> bool:
    """Whether a score can replace accuracy in a strategy: between 0 and 1, higher is better."""
    return score.is_share and score.higher_is_better


def check_task(datasets: PeerDatasets, strategy: Strategy | ServerStrategy) -> None:
    """Refuse a strategy that needs accuracies for a task whose score is not like an accuracy."""
    score = datasets.task.score
    if is_like_accuracy(score) or not isinstance(strategy, Strategy):
        return
    if "accuracy" in strategy.required_metrics():
        other = (
            "Set strategy.metric = inverse-loss."
            if "metric" in strategy.options()
            else "Use another strategy."
        )
        raise ConfigError(
            f"Strategy '{strategy.name}' uses accuracy, but the score of this task is "
            f"{score.name}, which is not between 0 and 1. {other}"
        )
