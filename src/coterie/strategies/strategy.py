"""Strategies decide, runtimes act.

A strategy is written from the view of one peer, as the papers write it: a generator that *asks*
for things and never does them. It sees no weights, no data, no clock and no global randomness;
a runtime (the simulator, or a real peer process) answers its requests. Whoever did not answer is
simply not among the offers.
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
    """Which cluster each peer really belongs to, in this round: (K,) integers."""

    clusters: npt.NDArray[np.int64]

    def members(self, peer: PeerId) -> npt.NDArray[np.int64]:
        """Return the other peers of this peer's true cluster."""
        same = self.clusters == self.clusters[peer]
        same[peer] = False
        return np.flatnonzero(same)


@dataclass(frozen=True)
class Me:
    """What a peer knows about itself when a round begins."""

    peer: PeerId
    round: int
    known: npt.NDArray[np.int64]
    """Everybody whose address I know, perhaps including myself."""
    num_samples: int
    rng: np.random.Generator
    truth: GroundTruth | None = None
    """Given only to strategies that declare `uses_ground_truth`."""
    validation_accuracy: float = float("nan")
    """How good my published model is on my own validation data; NaN for regression."""

    @cached_property
    def others(self) -> npt.NDArray[np.int64]:
        """Everybody I could ask: never myself."""
        others: npt.NDArray[np.int64] = self.known[self.known != self.peer]
        return others

    @property
    def true_cluster(self) -> npt.NDArray[np.int64]:
        """The other peers of my true cluster; a secret to all but declared yardsticks."""
        return require_ground_truth(self.truth).members(self.peer)


def require_ground_truth(truth: GroundTruth | None) -> GroundTruth:
    """Return the ground truth, which only a strategy with `uses_ground_truth` is given."""
    if truth is None:
        raise RuntimeError("The true clusters are hidden: declare `uses_ground_truth` to see them.")
    return truth


@dataclass(frozen=True)
class Estimates:
    """What a peer believes about others it knows something about; every array is (n,)."""

    peers: npt.NDArray[np.int64]
    similarities: npt.NDArray[np.float64]
    """As the strategy measures it; more is more similar."""
    measured: npt.NDArray[np.bool_]
    """Whether I measured it myself; otherwise it is an estimate from what I was told."""
    probabilities: npt.NDArray[np.float64]
    """How likely I choose each in a single draw of the next round; NaN: that is not decided so."""


class Strategy(Configurable):
    """One peer's way to choose whom to train with; subclasses are dataclasses."""

    receives_models: ClassVar[bool] = False
    """Whether I ask for `Receive`: a real peer refuses models that nobody would take."""
    receives_reports: ClassVar[bool] = False
    """Whether I ask for `ReceiveReports`."""
    report_range: ClassVar[Range] = (-math.inf, math.inf)
    """What the numbers lie between that I can be told: a real peer refuses all others."""
    table_ranges: ClassVar[Mapping[str, Range]] = {}
    """The arrays of others' messages that I read, one number for each of `PEERS`, and what these
    lie between: a real peer refuses a model with any other number in them, NaN among them."""

    @abstractmethod
    def round(self, me: Me) -> Plan:
        """Yield the requests of one round, from the exchange to the local training."""

    def most_peers(self, num_peers: int) -> int:
        """Return the number of others."""
        return num_peers - 1

    def check(self, num_peers: int) -> None:
        """Refuse to fetch from more peers than there are others."""
        fetches, most = self.options().get("fetches", 0), self.most_peers(num_peers)
        if not 0 <= fetches <= most:
            raise ConfigError(
                f"strategy.fetches is {fetches}, but in a network of {num_peers} peers each has "
                f"only {most} others to fetch from. Use at most {most}, or more peers."
            )

    def message(self) -> Message:
        """Return what travels with my published model; nothing by default."""
        return {}

    def required_metrics(self) -> frozenset[Metric]:
        """Return the metrics I will ask for, so that a runtime can keep what they need."""
        return frozenset()

    def asks_for_scores(self) -> bool:
        """Whether I ask for `AskScore`: a real peer answers it only to peers of such strategies."""
        return False

    def neighbours(self) -> npt.NDArray[np.int64] | None:
        """Return the peers I hold to be of my kind, for the records; None: I keep no such list."""
        return None

    def estimates(self, me: Me) -> Estimates | None:
        """Return what I believe before the next round, for the records; None: I keep no table.

        `me` is as that round will find me. Whether anybody asks must make no difference.
        """
        return None
