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
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from coterie.errors import ConfigError
from coterie.strategies.options import Configurable
from coterie.strategies.requests import Message, Metric, PeerId, Plan, Range

MOST_LISTED = 4096
"""The number of known peers up to which each peer lists all others, as arrays of its own.

In larger networks a peer lists only the peers that it knows something about. Otherwise the memory
and the time of each peer would grow with the number of peers.
"""
Peers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class GroundTruth:
    """The true cluster of each peer in this round: (K,) integers."""

    clusters: Peers

    def members(self, peer: PeerId) -> Peers:
        """Return the other peers of this peer's true cluster."""
        everyone = self._members[int(self.clusters[peer])]
        others: Peers = everyone[everyone != peer]
        return others

    @cached_property
    def _members(self) -> dict[int, Peers]:
        """The peers of each cluster, ascending; found once for all peers."""
        in_order = np.argsort(self.clusters, kind="stable")
        names, starts = np.unique(self.clusters[in_order], return_index=True)
        return dict(zip(names.tolist(), np.split(in_order, starts[1:]), strict=True))


@dataclass(frozen=True)
class Me:
    """What a peer knows about itself at the start of a round."""

    peer: PeerId
    """The peer's own number (i in the papers)."""
    round: int
    """The round t; the first is 1."""
    known: Peers
    """All peers with a known address, ascending, perhaps including the peer itself."""
    num_samples: int
    """Number of training samples of the peer (n_i in FedAvg)."""
    rng: np.random.Generator
    """The only source of randomness of a strategy."""
    truth: GroundTruth | None = None
    """Given only to strategies that declare `uses_ground_truth`."""
    validation_score: float = float("nan")
    """Score of the peer's published model on its validation data, such as its accuracy."""

    @property
    def others(self) -> Peers:
        """All peers that can be asked: the known ones without the peer itself.

        In a network of more than `MOST_LISTED` peers the array is made again at each use: if every
        peer kept one, they would fill the memory.
        """
        return self._others if self.lists_all_others else self._list_others()

    @property
    def lists_all_others(self) -> bool:
        """Whether the network is small enough to list all others, see `MOST_LISTED`."""
        return len(self.known) <= MOST_LISTED

    @property
    def num_others(self) -> int:
        """The number of peers that can be asked."""
        return len(self.known) - len(self.places_in_known(np.array([self.peer])))

    def is_other(self, peers: Peers) -> npt.NDArray[np.bool_]:
        """Return which of some numbers are those of peers that can be asked, (n,)."""
        is_known = self._is_known(peers, self.known.searchsorted(peers))
        return np.asarray(is_known & (peers != self.peer))

    def places_in_known(self, peers: Peers) -> Peers:
        """Return the places of peers in `known`, (n,); peers that are not known are left out."""
        places = self.known.searchsorted(peers)
        return places[self._is_known(peers, places)]

    def _is_known(self, peers: Peers, places: Peers) -> npt.NDArray[np.bool_]:
        if not len(self.known):
            return np.zeros(len(peers), dtype=bool)
        return np.asarray(self.known.take(places, mode="clip") == peers)

    @cached_property
    def _others(self) -> Peers:
        return self._list_others()

    def _list_others(self) -> Peers:
        others: Peers = self.known[self.known != self.peer]
        return others

    @property
    def true_cluster(self) -> Peers:
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

    peers: Peers
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

    def neighbours(self) -> Peers | None:
        """Return the peers held to be similar, for the records; None: there is no such list."""
        return None

    def estimates(self, me: Me) -> Estimates | None:
        """Return what the peer knows before the next round, for the records; None: no table.

        `me` is as in that round. Calling this must not change any result.
        """
        return None
