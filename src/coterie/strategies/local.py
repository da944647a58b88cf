"""Local: each peer trains alone. The baseline that any collaboration has to beat."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.strategies.requests import Plan, Train
from coterie.strategies.strategy import Me, Strategy


@dataclass
class Local(Strategy):
    """Train alone; no model is sent.

    Examples
    --------
    >>> import numpy as np
    >>> from coterie.strategies import Me
    >>> me = Me(peer=0, round=1, known=np.arange(4), num_samples=10, rng=np.random.default_rng(0))
    >>> next(Local().round(me))
    Train(epochs=None, last_layers=None, only_if_better=False, restrained=False)
    """

    name = "local"
    summary = "trains alone"

    def round(self, me: Me) -> Plan:
        """Train."""
        yield Train()
