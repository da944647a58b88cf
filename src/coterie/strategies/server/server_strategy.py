"""Server-side strategies: yardsticks with a server in the middle, for comparison only.

The same idea as for peers, from the server's view: a generator that asks and never does. The
server keeps `num_models` models; every peer is evaluated with the one `model_of` names.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from coterie.errors import ConfigError
from coterie.strategies.options import Configurable
from coterie.strategies.requests import PeerId
from coterie.strategies.strategy import GroundTruth


@dataclass(frozen=True)
class TrainClients:
    """Send each client the named server model and let it train; answered by {client: samples}.

    Only clients whose trained model came back are in the answer.
    """

    models: Mapping[PeerId, int]
    already_there: bool = False
    """Whether the clients have the models from `ScoreClients`, so that none is sent again."""


@dataclass(frozen=True)
class ScoreClients:
    """Send clients all server models; answered by {client: [loss of each on its data]}."""

    clients: tuple[PeerId, ...]


@dataclass(frozen=True)
class Aggregate:
    """Replace a server model by Σ weight·(trained model of client); answered by None."""

    model: int
    weights: Mapping[PeerId, float]


@dataclass(frozen=True)
class TrainPooled:
    """Train server models on the pooled data of peers, as if privacy did not matter.

    `pools` is {server model: peers}; answered by None. No model travels, but data would have to.
    """

    pools: Mapping[int, tuple[PeerId, ...]]


ServerRequest: TypeAlias = TrainClients | ScoreClients | Aggregate | TrainPooled
ServerPlan: TypeAlias = Generator[ServerRequest, Any, None]


@dataclass(frozen=True)
class Server:
    """What the server knows when a round begins."""

    round: int
    clients: npt.NDArray[np.int64]
    """The clients that are reachable and have not stopped."""
    rng: np.random.Generator
    truth: GroundTruth | None = None


class ServerStrategy(Configurable):
    """A server's way to train models for its clients; subclasses are dataclasses."""

    distinct_models: ClassVar[bool] = False
    """Whether the server's models start from different weights even if the peers' do not."""

    def most_peers(self, num_peers: int) -> int:
        """Return the number of clients."""
        return num_peers

    def check(self, num_peers: int) -> None:
        """Refuse to sample more clients than there are."""
        fetches = self.options().get("fetches", 0)
        if not 0 <= fetches <= num_peers:
            raise ConfigError(
                f"strategy.fetches is {fetches}, but the server has only {num_peers} clients to "
                f"sample from. Use at most {num_peers}, or more peers."
            )

    @abstractmethod
    def num_models(self, num_clusters: int) -> int:
        """Return how many models the server keeps."""

    @abstractmethod
    def round(self, server: Server) -> ServerPlan:
        """Yield the requests of one round."""

    @abstractmethod
    def model_of(self, peer: PeerId, truth: GroundTruth | None) -> int:
        """Return the server model this peer uses."""
