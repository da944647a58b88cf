"""The settings of one peer, as peer.yaml holds them: its address, data, model and strategy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from coterie.errors import ConfigError
from coterie.learning.settings import TrainingSettings
from coterie.peer.discovery.addresses import split_address
from coterie.peer.transport_settings import TransportSettings
from coterie.runtime.settings import BestBy, SimulationSettings, WatchSettings
from coterie.settings import Settings
from coterie.storage.settings_file import read_settings
from coterie.strategies import DEFAULT_STRATEGY, make_strategy
from coterie.strategies.strategy import Strategy
from coterie.tasks import TaskSettings

FUNCTION = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"
PEER_ID = r"^[0-9a-f]{64}$"
EVERYWHERE = ("0.0.0.0", "[::]", "::")  # noqa: S104 — listed because no peer may advertise them
ENDLESS_ROUNDS = 10_000_000
ESTIMATES_EVERY = 10
"""Rounds between recorded estimates of a peer without a last round."""


class DataStep(Settings):
    """The data from a round on: either a file or a function."""

    round: int = Field(0, ge=0)
    """The first round with these data."""
    file: Path | None = None
    """An .npz file, relative to peer.yaml."""
    function: str | None = Field(None, pattern=FUNCTION)
    """module:function, which returns a coterie.PeerData; searched beside peer.yaml first."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.file is None) == (self.function is None):
            raise ValueError("name either a file or a function")
        return self


class PeerModelSettings(Settings):
    """The model to train; all peers must have the same."""

    name: str | None = None
    """One of the models of `coterie list`, or:"""
    function: str | None = Field(None, pattern=FUNCTION)
    """module:function, which returns a new torch module; searched beside peer.yaml first."""
    outputs: int | None = Field(None, ge=1)
    """The number of classes of a named model, over all peers."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.name is None) == (self.function is None):
            raise ValueError("name either a model by its name or a function")
        return self


class PeerTaskSettings(TaskSettings):
    """What the model is trained for; all peers need the same."""

    function: str | None = None
    """A function without arguments that returns a coterie.Task, as module:function."""


class PeerConfig(Settings):
    """Everything about one peer but its key."""

    listen: str = "0.0.0.0:7300"
    """The address to listen at, host:port; port 0: any that is free."""
    advertise: str | None = None
    """The address at which others reach this peer, if it is not the one to listen at."""
    known: tuple[str, ...] = ()
    """Addresses of a few peers, through which this peer finds the others."""
    roster: tuple[Annotated[str, Field(pattern=PEER_ID)], ...] = ()
    """The ids of all peers in order, this peer's included: for comparisons with a simulation, where
    peers have numbers. Without it, peers are numbered as they are met."""
    data: tuple[DataStep, ...] = Field(min_length=1)
    """A file or a function; or a list of them, each with its first round."""
    model: PeerModelSettings
    task: PeerTaskSettings = PeerTaskSettings()
    strategy: dict[str, Any] = Field(default={"name": DEFAULT_STRATEGY})
    """The strategy's name and its options, as in the simulator."""
    rounds: int | None = Field(None, ge=0)
    """The number of rounds; without it, the peer runs until stopped."""
    begin_with: int = Field(1, ge=0)
    """The number of other peers to wait for before the first round, for at most
    `network.deadlines.round_seconds`; with a roster, all others."""
    every_seconds: float = Field(0.0, ge=0)
    """The shortest time between the starts of two rounds, for data that come slowly."""
    synchronous: bool = False
    """Whether rounds are aligned with those of the others; otherwise each has its own pace."""
    linger_seconds: float = Field(60.0, ge=0)
    """How long the last model is offered at the end, unless all others are as far before."""
    seed: int = Field(0, ge=0)
    """The seed of all draws, along with the peer's id; a common start needs the same for all."""
    initialisation: Literal["common", "independent"] = "common"
    """Whether all peers start from the same random weights."""
    best: Literal["any", "trained"] = "any"
    """Whether merged models may become the best model, or only trained ones."""
    best_by: BestBy = "loss"
    """As in the simulator: loss, score or best-score."""
    test_every: int = Field(10, ge=1)
    """Rounds between tests."""
    watch: WatchSettings = WatchSettings()
    training: TrainingSettings = TrainingSettings()
    network: TransportSettings = TransportSettings()
    metrics_port: int | None = Field(None, ge=1, le=65535)
    """Serve Prometheus metrics at this port of this computer; needs coterie[prometheus]."""

    @field_validator("listen")
    @classmethod
    def _listens(cls, address: str) -> str:
        split_address(address, smallest_port=0)
        return address

    @field_validator("advertise")
    @classmethod
    def _advertises(cls, address: str | None) -> str | None:
        if address is not None and split_address(address)[0] in EVERYWHERE:
            raise ValueError("no other peer can reach it; name this computer as others see it")
        return address

    @field_validator("known")
    @classmethod
    def _knows(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        for address in addresses:
            split_address(address)
        return addresses

    @field_validator("data", mode="before")
    @classmethod
    def _one_step(cls, data: Any) -> Any:
        return [data] if isinstance(data, dict) else data

    @field_validator("data")
    @classmethod
    def _in_order(cls, steps: tuple[DataStep, ...]) -> tuple[DataStep, ...]:
        begins = [step.round for step in steps]
        if begins != sorted(set(begins)) or begins[0] != 0:
            raise ValueError(
                "the first data begin at round 0, and each step later than the one before"
            )
        return steps

    @field_validator("strategy")
    @classmethod
    def _fill_in_options(cls, strategy: dict[str, Any]) -> dict[str, Any]:
        made = _peer_strategy(strategy)
        return {"name": made.name, **made.options()}

    @field_validator("watch")
    @classmethod
    def _watches_no_peers(cls, watch: WatchSettings) -> WatchSettings:
        if watch.peers:
            raise ValueError("a real peer cannot watch others; only watch.beliefs applies here")
        return watch

    @model_validator(mode="after")
    def _aligned(self) -> Self:
        if self.synchronous and self.rounds is None:
            raise ValueError("synchronous needs rounds: aligned peers must know the last round")
        return self

    def make_strategy(self) -> Strategy:
        """Return the strategy."""
        return _peer_strategy(self.strategy)

    def simulation_settings(self) -> SimulationSettings:
        """Return the settings of the runtime."""
        rounds = ENDLESS_ROUNDS if self.rounds is None else self.rounds
        watch = self.watch
        if self.rounds is None and watch.beliefs:
            watch = watch.model_copy(update={"beliefs": rounds // ESTIMATES_EVERY})
        return SimulationSettings(
            rounds=rounds,
            seed=self.seed,
            initialisation=self.initialisation,
            best=self.best,
            best_by=self.best_by,
            test_every=self.test_every,
            training=self.training,
            watch=watch,
        )


def read_peer_config(path: Path) -> PeerConfig:
    """Read peer.yaml; a folder stands for the peer.yaml in it."""
    return read_settings(PeerConfig, path / "peer.yaml" if path.is_dir() else path)


def _peer_strategy(settings: dict[str, Any]) -> Strategy:
    options = {key: value for key, value in settings.items() if key != "name"}
    made = make_strategy(str(settings.get("name", DEFAULT_STRATEGY)), options)
    if not isinstance(made, Strategy) or made.uses_ground_truth:
        needs = "the true clusters" if isinstance(made, Strategy) else "a server"
        raise ConfigError(
            f"Strategy '{made.name}' needs {needs}, which real peers do not have. Use another, "
            f"such as {DEFAULT_STRATEGY}, or simulate this one with coterie run."
        )
    return made
