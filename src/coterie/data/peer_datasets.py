"""What a runtime needs to know about data, wherever it comes from."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from coterie.data.pools import PeerSamples, Pool


class World(ABC):
    """What a runtime needs to know about data; the peers' arrays lie in `pools`."""

    num_peers: int
    cluster_names: tuple[str, ...]
    input_shape: tuple[int, ...]
    num_outputs: int
    is_classification: bool
    has_true_clusters = True
    """Whether `clusters` are known; a real peer returns one cluster of itself."""
    pools: list[Pool]

    @abstractmethod
    def step_of(self, round_number: int) -> int:
        """Return the step a round belongs to."""

    @abstractmethod
    def clusters(self, step: int) -> npt.NDArray[np.int64]:
        """Return each peer's true cluster in a step, (K,)."""

    @abstractmethod
    def enter(self, step: int) -> list[PeerSamples]:
        """Fill the pools with the data of a step and return each peer's views."""
