"""The interface between the network and the runtime: models, progress, and the service's calls."""

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
    """Its age when it was requested."""
    num_samples: int
    model: Model
    num_bytes: int
    """Of its tensors, as sent."""
    seconds: float
    """Duration of the transfer."""


@dataclass(frozen=True)
class PeerProgress:
    """The progress of another peer, by its own account."""

    round: int
    phase: Phase
    published_round: int | None
    """The round of its newest model; None if it offers none yet."""
    instance: bytes
    """16 random bytes, new with every start of its process."""


class ServiceInterface(ABC):
    """Answers other peers on behalf of the runtime; called on the event loop."""

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
        """Score another peer's model (P,) on the training data; NaN if that is impossible."""

    @property
    @abstractmethod
    def metrics(self) -> frozenset[str]:
        """The metrics that `score` accepts."""

    @property
    @abstractmethod
    def receives_reports(self) -> bool:
        """Whether the strategy receives reports of other peers."""

    @abstractmethod
    async def store_report(self, peer_id: PeerKey, value: float, round_number: int) -> None:
        """Keep a number that another peer reported in its round."""

    @property
    @abstractmethod
    def receives_models(self) -> bool:
        """Whether the strategy takes pushed models."""

    @abstractmethod
    async def store_pushed(self, pulled: PulledModel) -> None:
        """Keep a pushed model."""
