"""Strategies with a server: yardsticks, for comparison only.

They are written as those of peers, from the server's view: a generator that asks for things and
never does them. The server keeps `num_models` models; each peer is evaluated with the one that
`model_of` returns.
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
    """Send each client one of the server's models and let it train; {client: model}.

    Answered by {client: number of training samples}, for clients whose trained model came back.
    """

    models: Mapping[PeerId, int]
    already_there: bool = False
    """Whether `ScoreClients` has already sent the models, so that none is sent again."""


@dataclass(frozen=True)
class ScoreClients:
    """Send all server models to clients; answered by {client: [loss of each model]}."""

    clients: tuple[PeerId, ...]


@dataclass(frozen=True)
class Aggregate:
    """Replace a server model by Σ weight·(trained model of a client); answered by None."""

    model: int
    weights: Mapping[PeerId, float]


@dataclass(frozen=True)
class TrainPooled:
    """Train server models on pooled data of peers, {model: peers}; answered by None.

    No model is sent, but in a real network the data would have to be.
    """

    pools: Mapping[int, tuple[PeerId, ...]]


ServerRequest: TypeAlias = TrainClients | ScoreClients | Aggregate | TrainPooled
ServerPlan: TypeAlias = Generator[ServerRequest, Any, None]


@dataclass(frozen=True)
class Server:
    """What the server knows at the start of a round."""

    round: int
    clients: npt.NDArray[np.int64]
    """The clients that are reachable and have not stopped, (n,)."""
    rng: np.random.Generator
    truth: GroundTruth | None = None


class ServerStrategy(Configurable):
    """How a server trains models for its clients; subclasses are dataclasses."""

    distinct_models: ClassVar[bool] = False
    """Whether the server's models start from different weights, even if peers' models do not."""

    def most_peers(self, num_peers: int) -> int:
        """Return the number of clients."""
        return num_peers

    def check(self, num_peers: int) -> None:
        """Refuse to sample more clients than there are."""
        fetches = self.peer_counts().get("fetches", 0)
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
