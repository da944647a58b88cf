"""The peers' data, as a runtime sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from coterie.data.pools import PeerSamples, Pool
from coterie.tasks import Task

NO_CLUSTERS = ("all peers",)
"""The names of clusters where it is not known which peers are similar."""


class PeerDatasets(ABC):
    """The data of all peers of a runtime. `pools` hold the samples; each peer has views of them."""

    num_peers: int
    first_peer = 0
    """The number of the first peer; above 0 where a runtime has only a part of the peers."""
    cluster_names: tuple[str, ...]
    input_shape: tuple[int, ...]
    """The shape of a sample's first input."""
    num_outputs: int
    task: Task
    is_classification: bool
    """Whether targets are class numbers."""
    peer_names: tuple[str, ...] = ()
    """The names of the peers; empty if they have only numbers."""
    has_true_clusters = True
    """False for a real peer, whose `clusters` are only a placeholder."""
    pools: list[Pool]

    @property
    def num_peers_in_network(self) -> int:
        """The number of all peers, those of other parts included."""
        return self.num_peers

    def detach(self) -> None:  # noqa: B027 — most data never change, so there is nothing to do
        """After a fork, stop sharing what a new step overwrites."""

    @abstractmethod
    def step_of(self, round_number: int) -> int:
        """Return the step of a round: within a step the data stay the same."""

    @abstractmethod
    def clusters(self, step: int) -> npt.NDArray[np.int64]:
        """Return the true cluster of each peer of the network in a step, (K,)."""

    @abstractmethod
    def load_step(self, step: int) -> list[PeerSamples]:
        """Fill the pools with the data of a step and return each peer's views."""

    def load_part(self, step: int, numbers: range) -> list[PeerSamples]:
        """Return the views of some peers; the pools have at least their data."""
        return self.load_step(step)[numbers.start : numbers.stop]
