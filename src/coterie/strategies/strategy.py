"""Strategies decide, runtimes act.

A strategy is written from the view of one peer, as in the papers. It is a generator that asks for
things and never does them: it has no access to weights, data, clock or global randomness. A runtime
answers its requests. The simulator and a real peer are two such runtimes.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from coterie.errors import ConfigError
from coterie.strategies.options import Configurable
from coterie.strategies.requests import Message, Metric, PeerId, Plan, Range


@dataclass(frozen=True)
class GroundTruth:
    """The true cluster of each peer in this round: (K,) integers."""

    clusters: npt.NDArray[np.int64]

    def members(self, peer: PeerId) -> npt.NDArray[np.int64]:
        """Return the other peers of this peer's true cluster."""
        same = self.clusters == self.clusters[peer]
        same[peer] = False
        return np.flatnonzero(same)


@dataclass(frozen=True)
class Me:
    """What a peer knows about itself at the start of a round."""

    peer: PeerId
    """The peer's own number (i in the papers)."""
    round: int
    """The round t; the first is 1."""
    known: npt.NDArray[np.int64]
    """All peers with a known address, perhaps including the peer itself."""
    num_samples: int
    """Number of training samples of the peer (n_i in FedAvg)."""
    rng: np.random.Generator
    """The only source of randomness of a strategy."""
    truth: GroundTruth | None = None
    """Given only to strategies that declare `uses_ground_truth`."""
    validation_score: float = float("nan")
    """Score of the peer's published model on its validation data, such as its accuracy."""

    @cached_property
    def others(self) -> npt.NDArray[np.int64]:
        """All peers that can be asked: the known ones without the peer itself."""
        others: npt.NDArray[np.int64] = self.known[self.known != self.peer]
        return others

    @property
    def true_cluster(self) -> npt.NDArray[np.int64]:
        """The other peers of the peer's true cluster; only yardsticks may read it."""
        return require_ground_truth(self.truth).members(self.peer)


def require_ground_truth(truth: GroundTruth | None) -> GroundTruth:
    """Return the ground truth; raise if the strategy does not declare `uses_ground_truth`."""
    if truth is None:
        raise RuntimeError("The true clusters are hidden: declare `uses_ground_truth` to see them.")
    return truth


@dataclass(frozen=True)
class Estimates:
    """What a peer knows about n other peers; every array is (n,). Written as `beliefs` in files."""

    peers: npt.NDArray[np.int64]
    similarities: npt.NDArray[np.float64]
    """In the strategy's own measure; higher is more similar."""
    measured: npt.NDArray[np.bool_]
    """True: measured by the peer itself. False: estimated from what other peers reported."""
    probabilities: npt.NDArray[np.float64]
    """Probability of each in a single draw of the next round; NaN if there is no such draw."""


class Strategy(Configurable):
    """How one peer chooses the peers that it merges with; subclasses are dataclasses.

    Fields are options; fields with `init=False` are state, which is saved between rounds.
    """

    receives_models: ClassVar[bool] = False
    """Whether the strategy asks for `Receive`; otherwise a real peer refuses pushed models."""
    receives_reports: ClassVar[bool] = False
    """Whether the strategy asks for `ReceiveReports`; otherwise a real peer refuses reports."""
    report_range: ClassVar[Range] = (-math.inf, math.inf)
    """The range of reported numbers; a real peer refuses all others."""
    table_ranges: ClassVar[Mapping[str, Range]] = {}
    """The arrays of other peers' messages that the strategy reads, one number for each of `PEERS`,
    and their ranges. A real peer refuses a model with any other number in them, such as NaN."""

    @abstractmethod
    def round(self, me: Me) -> Plan:
        """Yield the requests of one round, from the exchange to the local training."""

    def most_peers(self, num_peers: int) -> int:
        """Return the number of other peers."""
        return num_peers - 1

    def check(self, num_peers: int) -> None:
        """Refuse to fetch from more peers than there are others."""
        fetches, most = self.peer_counts().get("fetches", 0), self.most_peers(num_peers)
        if not 0 <= fetches <= most:
            raise ConfigError(
                f"strategy.fetches is {fetches}, but in a network of {num_peers} peers each has "
                f"only {most} others to fetch from. Use at most {most}, or more peers."
            )

    def message(self) -> Message:
        """Return the arrays that travel with the published model; none by default."""
        return {}

    def required_metrics(self) -> frozenset[Metric]:
        """Return the metrics that the strategy asks for, so that a runtime can prepare them."""
        return frozenset()

    def asks_for_scores(self) -> bool:
        """Whether the strategy asks for `AskScore`; a real peer then also answers it to others."""
        return False

    def neighbours(self) -> npt.NDArray[np.int64] | None:
        """Return the peers held to be similar, for the records; None: there is no such list."""
        return None

    def estimates(self, me: Me) -> Estimates | None:
        """Return what the peer knows before the next round, for the records; None: no table.

        `me` is as in that round. Calling this must not change any result.
        """
        return None
