"""One file per algorithm, all of the same shape; `catalogue.py` is their index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.strategies.catalogue import DEFAULT_STRATEGY, STRATEGIES, make_strategy
    from coterie.strategies.server.server_strategy import ServerStrategy
    from coterie.strategies.strategy import Strategy

__all__ = ["DEFAULT_STRATEGY", "STRATEGIES", "ServerStrategy", "Strategy", "make_strategy"]


def __getattr__(name: str) -> Any:
    # Loaded on first use: what strategies are made of needs `base`, and they need that in turn.
    if name in __all__:
        from coterie.strategies import catalogue

        return getattr(catalogue, name)
    raise AttributeError(f"module 'coterie.strategies' has no attribute '{name}'")
