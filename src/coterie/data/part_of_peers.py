"""A part of the peers of a network, whose other peers are in other processes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coterie.data.peer_datasets import PeerDatasets
from coterie.data.pools import PeerSamples


class PartOfPeers(PeerDatasets):
    """The peers of some consecutive numbers, with the true clusters of the whole network."""

    def __init__(self, whole: PeerDatasets, numbers: range) -> None:
        self._whole = whole
        self._numbers = numbers
        self.num_peers = len(numbers)
        self.first_peer = numbers.start
        self.cluster_names = whole.cluster_names
        self.input_shape = whole.input_shape
        self.num_outputs = whole.num_outputs
        self.task = whole.task
        self.is_classification = whole.is_classification
        self.peer_names = whole.peer_names
        self.has_true_clusters = whole.has_true_clusters
        self.pools = whole.pools

    @property
    def num_peers_in_network(self) -> int:
        """The number of all peers, those of other parts included."""
        return self._whole.num_peers

    def step_of(self, round_number: int) -> int:
        """Return the step of a round."""
        return self._whole.step_of(round_number)

    def clusters(self, step: int) -> npt.NDArray[np.int64]:
        """Return the true cluster of each peer of the network in a step, (K,)."""
        return self._whole.clusters(step)

    def load_step(self, step: int) -> list[PeerSamples]:
        """Fill the pools with the data of these peers and return each peer's views."""
        return self._whole.load_part(step, self._numbers)
