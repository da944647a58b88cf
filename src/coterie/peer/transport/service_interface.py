"""What the runtime asks of the network, and what the network asks of the runtime."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from coterie.peer.types import PeerKey
from coterie.peer.wire.model import Model, Phase, Vector


@dataclass(frozen=True)
class PublishedModel:
    """A model as its owner offers it."""

    round: int
    num_samples: int
    published_at: float
    """By time.monotonic of this process."""
    model: Model


@dataclass(frozen=True)
class PulledModel:
    """Another peer's model, checked."""

    peer_id: PeerKey
    round: int
    age_seconds: float
    """How old it was when it was asked for."""
    num_samples: int
    model: Model
    num_bytes: int
    """Of its tensors, as they were sent."""
    seconds: float
    """How long it took to get it."""


@dataclass(frozen=True)
class PeerProgress:
    """How far another peer says it is."""

    round: int
    phase: Phase
    published_round: int | None
    """Of its newest model; None if it offers none yet."""
    instance: bytes
    """16 random bytes, new with every start of its process."""


class ServiceInterface(ABC):
    """The side of the runtime that answers other peers; called on the event loop."""

    @abstractmethod
    async def get_published(
        self, round_number: int | None, wait_seconds: float
    ) -> PublishedModel | None:
        """Return the model published in a round, or the newest; None if it is not there in time.

        The last two published models are kept.
        """

    @abstractmethod
    async def wait_for_phase(
        self, round_number: int, phase: Phase, wait_seconds: float
    ) -> tuple[int, Phase, int | None]:
        """Wait for a phase of a round; return round, phase and the newest published round."""

    @abstractmethod
    async def score(self, model: Vector, metric: str, round_number: int | None) -> float:
        """Measure somebody's model (P,) on my training data; NaN if it cannot be measured."""

    @property
    @abstractmethod
    def metrics(self) -> frozenset[str]:
        """Which metrics `score` knows."""

    @property
    @abstractmethod
    def listens(self) -> bool:
        """Whether my strategy hears what others tell."""

    @abstractmethod
    async def store_told(self, peer_id: PeerKey, value: float, round_number: int) -> None:
        """Keep what somebody told me in its round."""

    @property
    @abstractmethod
    def takes_pushes(self) -> bool:
        """Whether my strategy receives models that are pushed."""

    @abstractmethod
    async def store_pushed(self, pulled: PulledModel) -> None:
        """Take a model that was pushed to me."""
