"""Strategies decide, runtimes act.

A strategy is written from the view of one peer, as the papers write it: a generator that *asks*
for things and never does them. It sees no weights, no data, no clock and no global randomness;
a runtime (the simulator, or a real peer process) answers its requests. Whoever did not answer is
simply not among the offers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
from pydantic import Field

from coterie.errors import ConfigError

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
PEER_COUNTS = frozenset({"fetches", "later_fetches", "samples", "candidates"})
"""Options that are a number of peers to ask or to fetch from."""
PEERS = "peers"
"""Under this name a message holds numbers of peers (n,), which mean somebody else to another peer:
a runtime translates them. What it cannot translate it leaves out, here and in all other arrays."""
Range: TypeAlias = tuple[float, float]
"""The lowest and the highest number there may be."""
State: TypeAlias = dict[str, Any]
"""Plain data: numbers, text, None, arrays, and lists and dicts of these."""

_GIVEN = "_given"
# Kinds of options; `make_strategy` refuses what is out of their range.
Count: TypeAlias = Annotated[int, Field(ge=1)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Temperature: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]


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
class Tell:
    """Tell peers a number each, such as what I think of their models; answered by None."""

    values: Mapping[PeerId, float]

    @property
    def peers(self) -> tuple[PeerId, ...]:
        """Whom I tell something."""
        return tuple(self.values)


@dataclass(frozen=True)
class Listen:
    """Hear what others told me in the rounds before; answered by {peer: the last it said}."""


@dataclass(frozen=True)
class Try:
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
    Fetch | Score | Validate | AskScore | Send | Receive | Tell | Listen | Try | Merge | Train
)
Plan: TypeAlias = Generator[Request, Any, None]
"""A round: yields requests, receives their answers."""


@dataclass(frozen=True)
class GroundTruth:
    """Which cluster each peer really belongs to, in this round: (K,) integers."""

    clusters: npt.NDArray[np.int64]

    def members(self, peer: PeerId) -> npt.NDArray[np.int64]:
        """Return the other peers of this peer's true cluster."""
        same = self.clusters == self.clusters[peer]
        same[peer] = False
        return np.flatnonzero(same)


@dataclass(frozen=True)
class Me:
    """What a peer knows about itself when a round begins."""

    peer: PeerId
    round: int
    known: npt.NDArray[np.int64]
    """Everybody whose address I know, perhaps including myself."""
    num_samples: int
    rng: np.random.Generator
    truth: GroundTruth | None = None
    """Given only to strategies that declare `uses_ground_truth`."""
    validation_accuracy: float = float("nan")
    """How good my published model is on my own validation data; NaN for regression."""

    @cached_property
    def others(self) -> npt.NDArray[np.int64]:
        """Everybody I could ask: never myself."""
        others: npt.NDArray[np.int64] = self.known[self.known != self.peer]
        return others

    @property
    def true_cluster(self) -> npt.NDArray[np.int64]:
        """The other peers of my true cluster; a secret to all but declared yardsticks."""
        return revealed(self.truth).members(self.peer)


def revealed(truth: GroundTruth | None) -> GroundTruth:
    """Return the ground truth, which only a strategy with `uses_ground_truth` is given."""
    if truth is None:
        raise RuntimeError("The true clusters are hidden: declare `uses_ground_truth` to see them.")
    return truth


@dataclass(frozen=True)
class Beliefs:
    """What a peer believes about others it knows something about; every array is (n,)."""

    peers: npt.NDArray[np.int64]
    similarities: npt.NDArray[np.float64]
    """As the strategy measures it; more is more similar."""
    measured: npt.NDArray[np.bool_]
    """Whether I measured it myself; otherwise it is an estimate from what I was told."""
    probabilities: npt.NDArray[np.float64]
    """How likely I choose each in a single draw of the next round; NaN: that is not decided so."""


@runtime_checkable
class Stateful(Protocol):
    """A part of a strategy's state that knows how to become plain data, and back."""

    def save(self) -> State:
        """Return everything as plain data."""

    def restore(self, saved: State, /) -> None:
        """Take back what `save` returned."""


@dataclass
class Configurable(ABC):
    """Options are the dataclass fields; state is the fields declared with `init=False`."""

    # Options are checked by pydantic; what state is made of is not its business.
    __pydantic_config__: ClassVar[dict[str, bool]] = {"arbitrary_types_allowed": True}

    name: ClassVar[str]
    summary: ClassVar[str]
    uses_ground_truth: ClassVar[bool] = False
    """Whether the runtime reveals the true clusters; only yardsticks may ask for that."""

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Note which options are set, as only defaults may be lowered to what there is."""
        made = super().__new__(cls)
        names = [field.name for field in fields(cls) if field.init]
        made.mark_given([*names[: len(values)], *named])
        return made

    @property
    def given(self) -> frozenset[str]:
        """The options that were set when this was made; the others have their defaults."""
        found: frozenset[str] = self.__dict__.get(_GIVEN, frozenset())
        return found

    def mark_given(self, options: Iterable[str]) -> None:
        """Note which options are set."""
        self.__dict__[_GIVEN] = frozenset(options)

    def options(self) -> State:
        """Return the options as plain data."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def save(self) -> State:
        """Return everything this strategy remembers between rounds, as plain data."""
        state = {f.name: getattr(self, f.name) for f in fields(self) if not f.init}
        return {key: v.save() if isinstance(v, Stateful) else v for key, v in state.items()}

    def restore(self, state: State) -> None:
        """Take back what `save` returned."""
        expected = self.save().keys()
        if state.keys() != expected:
            raise ConfigError(
                f"The saved state of strategy '{self.name}' holds {sorted(state)}, but "
                f"{sorted(expected)} was expected; it was written by another version."
            )
        for key, value in state.items():
            part = getattr(self, key)
            if isinstance(part, Stateful):
                part.restore(value)
            else:
                setattr(self, key, value)

    @abstractmethod
    def check(self, num_peers: int) -> None:
        """Raise a ConfigError if the options cannot work in a network of this size."""

    @abstractmethod
    def most_peers(self, num_peers: int) -> int:
        """Return how many peers can be asked in a network of this size."""

    def lower_defaults(self, num_peers: int) -> dict[str, int]:
        """Lower options that were not set to the peers there are; return what was lowered."""
        most = self.most_peers(num_peers)
        lowered = {
            option: most
            for option, value in self.options().items()
            if option in PEER_COUNTS - self.given and value > most
        }
        for option in lowered:
            setattr(self, option, most)
        return lowered


class Strategy(Configurable):
    """One peer's way to choose whom to train with; subclasses are dataclasses."""

    takes_pushes: ClassVar[bool] = False
    """Whether I ask for `Receive`: a real peer refuses models that nobody would take."""
    listens: ClassVar[bool] = False
    """Whether I ask for `Listen`."""
    told_range: ClassVar[Range] = (-math.inf, math.inf)
    """What the numbers lie between that I can be told: a real peer refuses all others."""
    table_ranges: ClassVar[Mapping[str, Range]] = {}
    """The arrays of others' messages that I read, one number for each of `PEERS`, and what these
    lie between: a real peer refuses a model with any other number in them, NaN among them."""

    @abstractmethod
    def round(self, me: Me) -> Plan:
        """Yield the requests of one round, from the exchange to the local training."""

    def most_peers(self, num_peers: int) -> int:
        """Return the number of others."""
        return num_peers - 1

    def check(self, num_peers: int) -> None:
        """Refuse to fetch from more peers than there are others."""
        fetches, most = self.options().get("fetches", 0), self.most_peers(num_peers)
        if not 0 <= fetches <= most:
            raise ConfigError(
                f"strategy.fetches is {fetches}, but in a network of {num_peers} peers each has "
                f"only {most} others to fetch from. Use at most {most}, or more peers."
            )

    def message(self) -> Message:
        """Return what travels with my published model; nothing by default."""
        return {}

    def needs(self) -> frozenset[Metric]:
        """Return the metrics I will ask for, so that a runtime can keep what they need."""
        return frozenset()

    def asks_others(self) -> bool:
        """Whether I ask for `AskScore`: a real peer answers it only to peers of such strategies."""
        return False

    def neighbours(self) -> npt.NDArray[np.int64] | None:
        """Return the peers I hold to be of my kind, for the records; None: I keep no such list."""
        return None

    def beliefs(self, me: Me) -> Beliefs | None:
        """Return what I believe before the next round, for the records; None: I keep no table.

        `me` is as that round will find me. Whether anybody asks must make no difference.
        """
        return None
