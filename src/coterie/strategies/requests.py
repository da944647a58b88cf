"""Requests: what a strategy asks of its runtime, and what the runtime answers."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy.typing as npt

PeerId: TypeAlias = int
Metric: TypeAlias = Literal[
    "loss", "accuracy", "cosine", "distance", "cosine-last-update", "cosine-total-update"
]
"""Loss and accuracy of a model on training data; cosine and distance of its weights to mine; and
the cosine of its change to mine, over the last local training or since the initial weights."""
Depth: TypeAlias = int | Literal["classifier"] | None
"""How many of the last layers: a number, the trailing linear layers, or None for all."""
Message: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""Named arrays that travel with a model, such as a similarity table."""
PEERS = "peers"
"""Under this name a message holds numbers of peers (n,), which mean somebody else to another peer:
a runtime translates them. What it cannot translate it leaves out, here and in all other arrays."""
Range: TypeAlias = tuple[float, float]
"""The lowest and the highest number there may be."""


@dataclass(frozen=True)
class Offer:
    """A handle on another peer's published model; the weights stay with the runtime."""

    peer: PeerId
    num_samples: int
    message: Message


@dataclass(frozen=True)
class Fetch:
    """Ask peers for their published models; answered by a list of `Offer`."""

    peers: tuple[PeerId, ...]


@dataclass(frozen=True)
class Score:
    """Measure fetched models on my own data, or against my published one.

    Answered by {peer: value}; a peer that cannot be measured, such as by the cosine of no change
    at all, is not in it.
    """

    offers: tuple[Offer, ...]
    metric: Metric = "loss"


@dataclass(frozen=True)
class Validate:
    """Measure models, sample by sample, on my own validation data, or on my training data.

    My own number stands for my working model, every other for that peer's model, which I fetched.
    Answered by {peer: losses}, (n,) each, the samples always in the same order.
    """

    peers: tuple[PeerId, ...]
    data: Literal["validation", "train"] = "validation"


@dataclass(frozen=True)
class AskScore:
    """Send my published model to peers, who measure it on *their* training data (PENS).

    Answered by {peer: value} for those who replied.
    """

    peers: tuple[PeerId, ...]
    metric: Metric = "accuracy"


@dataclass(frozen=True)
class Send:
    """Push my published model to peers, who find it with `Receive`; answered by None."""

    peers: tuple[PeerId, ...]


@dataclass(frozen=True)
class Receive:
    """Take the models that were pushed to me; answered by a list of `Offer`."""


@dataclass(frozen=True)
class Report:
    """Tell peers a number each, such as what I think of their models; answered by None."""

    values: Mapping[PeerId, float]

    @property
    def peers(self) -> tuple[PeerId, ...]:
        """Whom I tell something."""
        return tuple(self.values)


@dataclass(frozen=True)
class ReceiveReports:
    """Hear what others told me in the rounds before; answered by {peer: the last it said}."""


@dataclass(frozen=True)
class ValidateMerge:
    """Measure what `Merge` would make of my working model, without doing it.

    Answered by its losses on my own validation data, (n,).
    """

    weights: Mapping[PeerId, float]
    last_layers: Depth = None


@dataclass(frozen=True)
class Merge:
    """Replace my working model by Σ weight·model, in the last layers or in all.

    My own number stands for my working model, every other for that peer's published model.
    Weights sum to 1; answered by None.
    """

    weights: Mapping[PeerId, float]
    last_layers: Depth = None


@dataclass(frozen=True)
class Train:
    """Train my working model on my data; None means the configured epochs and all layers.

    With 0 epochs nothing is trained. Answered by the mean loss of the last epoch, None if there
    was none.

    With `only_if_better` the result is kept only if my validation loss falls. `restrained` trains
    fewer epochs than configured, perhaps none, where training made my validation worse before.
    """

    epochs: int | None = None
    last_layers: Depth = None
    only_if_better: bool = False
    restrained: bool = False


Request: TypeAlias = (
    Fetch
    | Score
    | Validate
    | AskScore
    | Send
    | Receive
    | Report
    | ReceiveReports
    | ValidateMerge
    | Merge
    | Train
)
Plan: TypeAlias = Generator[Request, Any, None]
"""A round: yields requests, receives their answers."""
