"""Coterie: personalised decentralised deep learning.

Every peer keeps its data and its own model. There is no server: each peer finds out by itself which
peers to train with.
"""

from coterie.api import Callback, Result, load_run, load_runs, simulate
from coterie.attacks.poison_settings import PoisonSettings
from coterie.data.peer_arrays import PeerData
from coterie.errors import CoterieError
from coterie.learning.settings import TrainingSettings
from coterie.runtime.settings import NetworkSettings, SimulationSettings
from coterie.strategies import STRATEGIES, make_strategy
from coterie.tasks import Task, TaskScore

__version__ = "0.1.0"

__all__ = [
    "STRATEGIES",
    "Callback",
    "CoterieError",
    "NetworkSettings",
    "PeerData",
    "PoisonSettings",
    "Result",
    "SimulationSettings",
    "Task",
    "TaskScore",
    "TrainingSettings",
    "load_run",
    "load_runs",
    "make_strategy",
    "simulate",
]
