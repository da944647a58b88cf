"""The settings of rounds: everything but data, model and strategy."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, field_validator, model_validator

from coterie.attacks.poison_settings import PoisonSettings
from coterie.errors import ConfigError
from coterie.learning.settings import TrainingSettings
from coterie.settings import Settings
from coterie.strategies.parts.similarity import Similarity

BestRule: TypeAlias = Literal["any", "trained"]


def _name_of_today(name: object) -> object:
    """Accept the names in configurations of runs whose only score was accuracy."""
    return {"accuracy": "score", "highest-accuracy": "best-score"}.get(str(name), name)


BestBy: TypeAlias = Annotated[
    Literal["loss", "score", "best-score"], BeforeValidator(_name_of_today)
]


class Absence(Settings):
    """A peer that is offline from one round to another, both included."""

    peer: int = Field(ge=0)
    first_round: int = Field(ge=1)
    last_round: int = Field(ge=1)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.last_round < self.first_round:
            raise ValueError(
                f"last_round ({self.last_round}) is before first_round ({self.first_round})"
            )
        return self


class NetworkSettings(Settings):
    """Failures of the simulated network.

    An offline peer takes no part in a round: it does not fetch, answer or train.
    """

    offline_probability: float = Field(0.0, ge=0, le=1)
    """The probability that a peer is offline in a round."""
    offline_trace: tuple[Absence, ...] = ()
    """Known absences, each as {peer: …, first_round: …, last_round: …}."""
    loss_probability: float = Field(0.0, ge=0, le=1)
    """The probability that a message is lost."""

    def check(self, num_peers: int) -> None:
        """Refuse absences of peers that do not exist."""
        for absence in self.offline_trace:
            if absence.peer >= num_peers:
                raise ConfigError(
                    f"network.offline_trace names peer {absence.peer}, but the {num_peers} peers "
                    f"are numbered 0 to {num_peers - 1}."
                )


class WatchSettings(Settings):
    """Which similarities are recorded: the true ones of watched peers, and the peers' estimates.

    For each watched peer the true similarity to all other peers is measured, which takes time. The
    estimates come from the tables of the strategies; strategies with a server have none. Recording
    does not change results.
    """

    peers: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """The numbers of the peers to watch, such as [0, 25]."""
    metrics: tuple[Similarity, ...] = (
        "inverse-loss",
        "cosine-weights",
        "inverse-distance",
        "cosine-gradients",
    )
    """The metrics of similarity."""
    alpha: float = Field(1.0, ge=0, le=1)
    """For cosine-gradients: the share of the last local training, see docs/algorithms.md."""
    every: int = Field(1, ge=1)
    """Rounds between measurements."""
    beliefs: int = Field(20, ge=0)
    """The peers' estimates are recorded in about this many rounds, evenly spaced, and in the last;
    0: never. With more than 100 peers only some are recorded: at most 10,000 rows a round."""

    @field_validator("peers", "metrics")
    @classmethod
    def _each_once(cls, values: tuple[int | str, ...]) -> tuple[int | str, ...]:
        if len(set(values)) != len(values):
            raise ValueError("each value can be in the list only once")
        return values

    def check(self, num_peers: int) -> None:
        """Raise a ConfigError if a watched peer does not exist."""
        for peer in self.peers:
            if peer >= num_peers:
                raise ConfigError(
                    f"watch.peers names peer {peer}, but the {num_peers} peers are numbered 0 to "
                    f"{num_peers - 1}."
                )


class SimulationSettings(Settings):
    """How rounds are run, and which models are kept and tested."""

    rounds: int = Field(50, ge=0, le=2**31 - 1)
    """Rounds of exchange, merge and training, after the initial training, which is round 0."""
    seed: int = Field(0, ge=0)
    """The seed of all random draws."""
    schedule: Literal["synchronous", "sequential"] = "synchronous"
    """synchronous: all peers see the models of the round before; sequential: one peer at a time."""
    initialisation: Literal["common", "independent"] = "common"
    """Whether all peers start from the same random weights."""
    best: BestRule = "any"
    """any: merged models can also become a peer's best; trained: only trained ones (the papers)."""
    compare_bests: bool = False
    """Whether to also keep and test the best model by the other rule; takes memory and time."""
    best_by: BestBy = "loss"
    """How a peer's best model is chosen. loss: the lowest validation loss. score: the best
    validation score, such as accuracy, averaged over the last 5 validations (PENS). best-score: the
    best single validation score (Hagander & Ihre-Thomason 2024)."""
    patience: int | None = Field(None, ge=1)
    """A peer stops after this many rounds without a new best model; never when not given. With
    best_by = best-score: rounds without a lower validation loss."""
    test_every: int = Field(10, ge=1)
    """Rounds between tests; the last round, and the last before a shift, are always tested."""
    training: TrainingSettings = TrainingSettings()
    network: NetworkSettings = NetworkSettings()
    poison: PoisonSettings = PoisonSettings()
    watch: WatchSettings = WatchSettings()
