"""Options and state of a strategy: kinds of options, their defaults, and what is saved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Protocol, Self, TypeAlias, runtime_checkable

from pydantic import Field

from coterie.errors import ConfigError

PEER_COUNTS = frozenset({"fetches", "later_fetches", "samples", "candidates"})
"""Options that are a number of peers to ask or to fetch from."""
State: TypeAlias = dict[str, Any]
"""Plain data: numbers, text, None, arrays, and lists and dicts of these."""

_GIVEN = "_given"
# Kinds of options; `make_strategy` refuses what is out of their range.
Count: TypeAlias = Annotated[int, Field(ge=1)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Temperature: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]


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
