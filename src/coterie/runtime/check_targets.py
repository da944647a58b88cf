"""Checks that a strategy and its settings suit what is to be predicted: classes or values."""

from __future__ import annotations

from coterie.data.peer_datasets import PeerDatasets
from coterie.errors import ConfigError
from coterie.runtime.settings import SimulationSettings
from coterie.strategies.server.server_strategy import ServerStrategy
from coterie.strategies.strategy import Strategy


def check_targets(
    datasets: PeerDatasets, strategy: Strategy | ServerStrategy, settings: SimulationSettings
) -> None:
    """Refuse to go by accuracy where there are no classes."""
    if datasets.is_classification:
        return
    if settings.best_by != "loss":
        raise ConfigError(
            f"best_by = {settings.best_by} needs classes, but these data have values to predict; "
            "use best_by = loss."
        )
    if isinstance(strategy, Strategy) and "accuracy" in strategy.required_metrics():
        other = (
            "set strategy.metric to inverse-loss."
            if "metric" in strategy.options()
            else "use another strategy."
        )
        raise ConfigError(
            f"Strategy '{strategy.name}' goes by accuracy, but these data have values to predict, "
            f"not classes; {other}"
        )
