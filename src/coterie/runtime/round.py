"""One round: its active peers, measurements and exchanges, and its rows of the tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from coterie.runtime.exchange_log import (
    ExchangeLog,
    chosen_statistics,
    neighbour_statistics,
    traffic,
)
from coterie.strategies.strategy import GroundTruth

Columns: TypeAlias = dict[str, npt.NDArray[Any]]
STATUSES = ("active", "offline", "stopped")
MEASURES = (
    "train_loss",
    "validation_loss_before",
    "validation_score_before",
    "validation_loss_merged",
    "validation_score_merged",
    "validation_loss_trained",
    "validation_score_trained",
    "test_loss",
    "test_score",
    "test_loss_other",
    "test_score_other",
)
"""before: the published model, before merging. test: the best model; other: the best model by the
other rule. NaN: not measured."""


@dataclass
class Round:
    """One round; every array has one entry per peer, (K,)."""

    number: int
    step: int
    online: npt.NDArray[np.bool_]
    stopped: npt.NDArray[np.bool_]
    truth: GroundTruth | None
    """None for a real peer, which does not know the truth."""
    exchanges: ExchangeLog = field(default_factory=ExchangeLog)
    similarities: Columns = field(default_factory=dict)
    """Similarities of watched peers to all others at the start of the round; often empty."""
    chosen: list[npt.NDArray[np.int64] | None] = field(default_factory=list)
    """Each peer's list of neighbours at the end of the round; None if it has no list."""
    estimates: Columns = field(default_factory=dict)
    """The peers' estimates of similarity at the end of the round; empty if not recorded."""
    arrivals: Columns = field(default_factory=dict)
    """The ages of models in a real network; empty in a simulation."""
    listed: Columns = field(default_factory=dict)
    """A real peer's list of neighbours; empty in a simulation."""
    metrics: dict[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    """The task's further metrics by name, (K,) each, in a round with a test; often empty."""
    efforts: Columns = field(default_factory=dict)
    """The times of a real peer in the round; empty in a simulation."""
    num_known: int = 0
    """The number of peers that a real peer knows, with itself."""
    reachable: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """Which peers of the whole network are online; empty for a real peer."""

    def __post_init__(self) -> None:
        self.merged = np.zeros(len(self.online), dtype=bool)
        self.poisoned = np.zeros(len(self.online), dtype=bool)
        self.measures = {name: np.full(len(self.online), np.nan) for name in MEASURES}

    @property
    def active_peers(self) -> npt.NDArray[np.int64]:
        """The peers that take part: online and not stopped."""
        return np.flatnonzero(self.online & ~self.stopped)

    @property
    def clusters(self) -> npt.NDArray[np.int64]:
        """The clusters to record: the true ones (K,), or 0 for all peers of a real peer."""
        if self.truth is None:
            return np.zeros(max(self.num_known, len(self.online)), np.int64)
        return self.truth.clusters

    def leave_out(self, poisoned: npt.NDArray[np.bool_]) -> None:
        """Mark poisoned peers (K,) and remove their measurements."""
        self.poisoned = poisoned
        for values in (*self.measures.values(), *self.metrics.values()):
            values[poisoned] = np.nan

    def tables(self) -> dict[str, Columns]:
        """Return the columns of all tables with rows of this round."""
        optional = {
            "similarities": self.similarities,
            "chosen_neighbours": chosen_statistics(self.chosen, self.clusters),
            "beliefs": self.estimates,
            "arrivals": self.arrivals,
            "listed_neighbours": self.listed,
            "efforts": self.efforts,
            "test_metrics": self._further_metrics(),
        }
        return self._peers_and_exchanges() | {
            name: {"round": np.full(len(columns["peer"]), self.number, np.int32), **columns}
            for name, columns in optional.items()
            if columns and len(columns["peer"])
        }

    def _further_metrics(self) -> Columns:
        count, names = len(self.online), list(self.metrics)
        if not names:
            return {}
        return {
            "peer": np.tile(np.arange(count, dtype=np.int32), len(names)),
            "cluster": np.tile(self.clusters[:count].astype(np.int32), len(names)),
            "metric": np.repeat(np.array(names, dtype=object), count),
            "value": np.concatenate(list(self.metrics.values())),
        }

    def _peers_and_exchanges(self) -> dict[str, Columns]:
        num_peers = len(self.online)
        exchanges = self.exchanges.columns()
        status = np.where(self.stopped, 2, np.where(self.online, 0, 1))
        keys = {
            "round": np.full(num_peers, self.number, dtype=np.int32),
            "peer": np.arange(num_peers, dtype=np.int32),
            # A real peer also knows peers that record for themselves.
            "cluster": self.clusters[:num_peers].astype(np.int32),
        }
        return {
            "metrics": {
                **keys,
                "step": np.full(num_peers, self.step, dtype=np.int32),
                "status": np.array(STATUSES, dtype=object)[status],
                "poisoned": self.poisoned,
                **self.measures,
                **_first(traffic(exchanges, len(self.clusters)), num_peers),
            },
            "exchanges": {
                "round": np.full(len(exchanges["kind"]), self.number, dtype=np.int32),
                **exchanges,
            },
            "neighbours": {
                **keys,
                **_first(neighbour_statistics(exchanges, self.clusters), num_peers),
            },
        }


def _first(columns: Columns, count: int) -> Columns:
    return {name: values[:count] for name, values in columns.items()}
