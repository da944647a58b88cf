"""Checks that a strategy and its settings fit the targets: classes, or values to predict."""

from __future__ import annotations

from coterie.data.peer_datasets import PeerDatasets
from coterie.errors import ConfigError
from coterie.runtime.settings import SimulationSettings
from coterie.strategies.server.server_strategy import ServerStrategy
from coterie.strategies.strategy import Strategy


def check_targets(
    datasets: PeerDatasets, strategy: Strategy | ServerStrategy, settings: SimulationSettings
) -> None:
    """Refuse accuracy for targets without classes."""
    if datasets.is_classification:
        return
    if settings.best_by != "loss":
        raise ConfigError(
            f"best_by = {settings.best_by} needs classes, but these targets are values to predict. "
            "Use best_by = loss."
        )
    if isinstance(strategy, Strategy) and "accuracy" in strategy.required_metrics():
        other = (
            "Set strategy.metric = inverse-loss."
            if "metric" in strategy.options()
            else "Use another strategy."
        )
        raise ConfigError(
            f"Strategy '{strategy.name}' uses accuracy, but these targets are values to predict, "
            f"not classes. {other}"
        )
