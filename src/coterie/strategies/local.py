"""Local: every peer trains alone. What collaboration has to beat."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.strategies.requests import Plan, Train
from coterie.strategies.strategy import Me, Strategy


@dataclass
class Local(Strategy):
    """Trains alone; no model ever travels."""

    name = "local"
    summary = "trains alone"

    def round(self, me: Me) -> Plan:
        """Train, nothing else."""
        yield Train()
