"""Coterie: personalised decentralised deep learning.

Every peer keeps its data and its own model, there is no server, and each peer finds out by itself
whom it is worth training with.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.data.own import PeerData
    from coterie.errors import CoterieError
    from coterie.learning.trainer import TrainingSettings
    from coterie.library import Result, simulate
    from coterie.loading import LoadedRun, LoadedRuns, load_run, load_runs
    from coterie.simulation.settings import NetworkSettings, PoisonSettings, SimulationSettings
    from coterie.strategies import STRATEGIES, make_strategy

__version__ = "0.1.0"

__all__ = [
    "STRATEGIES",
    "CoterieError",
    "LoadedRun",
    "LoadedRuns",
    "NetworkSettings",
    "PeerData",
    "PoisonSettings",
    "Result",
    "SimulationSettings",
    "TrainingSettings",
    "load_run",
    "load_runs",
    "make_strategy",
    "simulate",
]

# Loaded on first use: importing torch takes seconds, and `coterie --help` needs none of it.
_HOMES = {
    "STRATEGIES": "coterie.strategies",
    "CoterieError": "coterie.errors",
    "LoadedRun": "coterie.loading",
    "LoadedRuns": "coterie.loading",
    "NetworkSettings": "coterie.simulation.settings",
    "PeerData": "coterie.data.own",
    "PoisonSettings": "coterie.simulation.settings",
    "Result": "coterie.library",
    "SimulationSettings": "coterie.simulation.settings",
    "TrainingSettings": "coterie.learning.trainer",
    "load_run": "coterie.loading",
    "load_runs": "coterie.loading",
    "make_strategy": "coterie.strategies",
    "simulate": "coterie.library",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'coterie' has no attribute '{name}'")
