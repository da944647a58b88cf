"""What the runtime asks of the network, and what the network asks of the runtime."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]
PeerKey = str
"""A peer's id in hex: the SHA-256 of its public key."""


class Part(IntEnum):
    """What a payload holds; the numbers are those of the protocol."""

    MODEL = 0
    MESSAGE = 1
    LAST_UPDATE = 2
    TOTAL_UPDATE = 3


class Phase(IntEnum):
    """How far a peer is within a round; the numbers are those of the protocol."""

    ENTERED = 0
    SENT = 1
    PUBLISHED = 2


@dataclass(frozen=True)
class Model:
    """A model on its way: vectors (P,) by part, and the strategy's message.

    In the message, peers are named by their ids: under "peers" stands an array (n, 32) of bytes.
    """

    vectors: Mapping[Part, Vector]
    message: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Published:
    """A model as its owner offers it."""

    round: int
    num_samples: int
    published_at: float
    """By time.monotonic of this process."""
    model: Model


@dataclass(frozen=True)
class Pulled:
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
class Status:
    """How far another peer says it is."""

    round: int
    phase: Phase
    published_round: int | None
    """Of its newest model; None if it offers none yet."""
    instance: bytes
    """16 random bytes, new with every start of its process."""


class Host(ABC):
    """The side of the runtime that answers other peers; called on the event loop."""

    @abstractmethod
    async def published(self, round_number: int | None, wait_seconds: float) -> Published | None:
        """Return the model published in a round, or the newest; None if it is not there in time.

        The last two published models are kept.
        """

    @abstractmethod
    async def reached(
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
    async def hear(self, peer_id: PeerKey, value: float, round_number: int) -> None:
        """Keep what somebody told me in its round."""

    @property
    @abstractmethod
    def takes_pushes(self) -> bool:
        """Whether my strategy receives models that are pushed."""

    @abstractmethod
    async def receive(self, pulled: Pulled) -> None:
        """Take a model that was pushed to me."""
