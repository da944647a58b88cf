"""Coterie: personalised decentralised deep learning.

Every peer keeps its data and its own model, there is no server, and each peer finds out by itself
whom it is worth training with.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.api import Result, simulate
    from coterie.attacks.poison_settings import PoisonSettings
    from coterie.data.peer_arrays import PeerData
    from coterie.errors import CoterieError
    from coterie.experiments.run_folder import RunFolder
    from coterie.learning.trainer import TrainingSettings
    from coterie.results.loading import load_run, load_runs
    from coterie.results.read_runs import Runs
    from coterie.runtime.settings import NetworkSettings, SimulationSettings
    from coterie.strategies import STRATEGIES, make_strategy

__version__ = "0.1.0"

__all__ = [
    "STRATEGIES",
    "CoterieError",
    "NetworkSettings",
    "PeerData",
    "PoisonSettings",
    "Result",
    "RunFolder",
    "Runs",
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
    "RunFolder": "coterie.results.loading",
    "Runs": "coterie.results.loading",
    "NetworkSettings": "coterie.runtime.settings",
    "PeerData": "coterie.data.peer_arrays",
    "PoisonSettings": "coterie.attacks.poison_settings",
    "Result": "coterie.api",
    "SimulationSettings": "coterie.runtime.settings",
    "TrainingSettings": "coterie.learning.trainer",
    "load_run": "coterie.results.loading",
    "load_runs": "coterie.results.loading",
    "make_strategy": "coterie.strategies",
    "simulate": "coterie.api",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'coterie' has no attribute '{name}'")
