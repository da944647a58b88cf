"""The settings of a simulation: everything but data, model and strategy."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from coterie.learning.trainer import TrainingSettings
from coterie.settings import Settings


class Absence(Settings):
    """A peer that is offline from one round to another, both included."""

    peer: int = Field(ge=0)
    first_round: int = Field(ge=1)
    last_round: int = Field(ge=1)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.last_round < self.first_round:
            raise ValueError(
                f"the last round ({self.last_round}) comes before the first ({self.first_round})"
            )
        return self


class NetworkSettings(Settings):
    """What goes wrong on the network.

    An offline peer takes no part in a round: it neither asks nor answers nor trains.
    """

    offline_probability: float = Field(0.0, ge=0, le=1)
    """How likely each peer is offline in each round."""
    offline_trace: tuple[Absence, ...] = ()
    """Known absences, each as {peer: …, first_round: …, last_round: …}."""
    loss_probability: float = Field(0.0, ge=0, le=1)
    """How likely each message is lost on its way."""


class SimulationSettings(Settings):
    """How rounds are run and what is remembered of them."""

    rounds: int = Field(50, ge=0)
    """Rounds of exchange, merge and training, after the initial training, which is round 0."""
    seed: int = Field(0, ge=0)
    """What every random draw depends on."""
    schedule: Literal["synchronous", "sequential"] = "synchronous"
    """Synchronous: everybody sees the models of the round before. Sequential: peers act in turn."""
    initialisation: Literal["common", "independent"] = "common"
    """Whether all peers start from the same random weights."""
    best: Literal["any", "trained"] = "any"
    """Whether merged models may become a peer's best, or only trained ones (the papers)."""
    best_by: Literal["loss", "accuracy"] = "loss"
    """Validation loss, or validation accuracy averaged over the last 5 validations (PENS)."""
    patience: int | None = Field(None, ge=1)
    """Rounds without a new best after which a peer stops; None: never."""
    test_every: int = Field(10, ge=1)
    """Rounds between tests; the last round, and the last before a shift, are always tested."""
    training: TrainingSettings = TrainingSettings()
    network: NetworkSettings = NetworkSettings()
