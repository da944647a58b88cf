"""Requests: what a strategy asks of its runtime, and how each request is answered.

In every request the peer's own number stands for its own model. A peer that did not answer is
missing from the answer.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy.typing as npt

PeerId: TypeAlias = int
Metric: TypeAlias = Literal[
    "loss", "accuracy", "cosine", "distance", "cosine-last-update", "cosine-total-update"
]
"""How a model is scored. Loss and accuracy are measured on training data. Cosine and distance
compare its weights with the peer's own weights. The last two are cosines of weight changes: over
the last local training, and since the initial weights."""
Depth: TypeAlias = int | Literal["classifier"] | None
"""How many of the last layers: a number, the trailing linear layers, or None for all layers."""
Message: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""Named arrays that travel with a model, such as a similarity table."""
PEERS = "peers"
"""The array of a message that holds numbers of peers, (n,). Two peers may number others
differently, so a runtime translates these. It drops the entries that it cannot translate, here and
in all other arrays of the message."""
Range: TypeAlias = tuple[float, float]
"""The lowest and the highest number that is accepted from other peers."""


@dataclass(frozen=True)
class Offer:
    """Another peer's published model: a handle, as the weights stay with the runtime."""

    peer: PeerId
    num_samples: int
    """Number of training samples of that peer (n_k in FedAvg)."""
    message: Message


@dataclass(frozen=True)
class Fetch:
    """Fetch the published models of peers; answered by a list of `Offer`."""

    peers: tuple[PeerId, ...]


@dataclass(frozen=True)
class Score:
    """Score fetched models on the peer's own data, or against its own published model.

    Answered by {peer: value}. A model without a value is missing, such as the cosine of a change
    that is zero.
    """

    offers: tuple[Offer, ...]
    metric: Metric = "loss"


@dataclass(frozen=True)
class Validate:
    """Compute per-sample losses of models on the peer's own validation or training data.

    The peer's own number stands for its working model, other numbers for fetched models. Answered
    by {peer: losses}, (n,) each, with the samples always in the same order.
    """

    peers: tuple[PeerId, ...]
    data: Literal["validation", "train"] = "validation"


@dataclass(frozen=True)
class AskScore:
    """Send the published model to peers, which score it on *their* training data (PENS).

    Answered by {peer: value}.
    """

    peers: tuple[PeerId, ...]
    metric: Metric = "accuracy"


@dataclass(frozen=True)
class Send:
    """Push the published model to peers, which get it by `Receive`; answered by None."""

    peers: tuple[PeerId, ...]


@dataclass(frozen=True)
class Receive:
    """Take the models that other peers pushed; answered by a list of `Offer`."""


@dataclass(frozen=True)
class Report:
    """Send each peer one number, such as the test result of its model; answered by None."""

    values: Mapping[PeerId, float]

    @property
    def peers(self) -> tuple[PeerId, ...]:
        """The peers that receive a number."""
        return tuple(self.values)


@dataclass(frozen=True)
class ReceiveReports:
    """Take the numbers reported in earlier rounds; answered by {peer: its latest number}."""


@dataclass(frozen=True)
class ValidateMerge:
    """Validate the model that `Merge` would make, without merging.

    Answered by its per-sample losses on the peer's own validation data, (n,).
    """

    weights: Mapping[PeerId, float]
    last_layers: Depth = None


@dataclass(frozen=True)
class Merge:
    """Replace the working model by Σ weight·model, in the last layers or in all.

    The peer's own number stands for its working model, other numbers for published models. Weights
    sum to 1. Answered by None.
    """

    weights: Mapping[PeerId, float]
    last_layers: Depth = None


@dataclass(frozen=True)
class Train:
    """Train the working model on the peer's own training data.

    Answered by the mean loss of the last epoch; None if there was no epoch.
    """

    epochs: int | None = None
    """None: as configured. 0: no training."""
    last_layers: Depth = None
    only_if_better: bool = False
    """Keep the result only if the validation loss falls."""
    restrained: bool = False
    """Train fewer epochs than configured, or none, after trainings that made validation worse."""


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
"""One round of a strategy: yields requests, receives their answers."""
