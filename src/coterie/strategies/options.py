"""Options and state of strategies: kinds of options, their checks, and what is saved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Protocol, Self, TypeAlias, runtime_checkable

from pydantic import Field

from coterie.errors import ConfigError

# Kinds of options; `make_strategy` refuses values out of range.
Count: TypeAlias = Annotated[int, Field(ge=1)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Temperature: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]

PEER_COUNTS = frozenset({"fetches", "later_fetches", "samples", "candidates"})
"""Names of options that are a number of peers to ask or to fetch from."""
State: TypeAlias = dict[str, Any]
"""Plain data: numbers, text, None, arrays, and lists and dicts of these."""
SAVED_AS = "saved_as"
"""Metadata of a field: its name in checkpoints, where that differs from its name in code."""

_GIVEN = "_given"


@runtime_checkable
class Stateful(Protocol):
    """A part of a strategy's state that can become plain data, and be restored from it."""

    def save(self) -> State:
        """Return everything as plain data."""

    def restore(self, saved: State, /) -> None:
        """Restore what `save` returned."""


@dataclass
class Configurable(ABC):
    """A dataclass: its fields are options, and fields with `init=False` are its state."""

    # Pydantic checks options only; state may be of any type.
    __pydantic_config__: ClassVar[dict[str, bool]] = {"arbitrary_types_allowed": True}

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for `coterie list`."""
    uses_ground_truth: ClassVar[bool] = False
    """Whether the runtime reveals the true clusters; only yardsticks may ask for that."""

    @property
    def needs_clusters(self) -> bool:
        """Whether the strategy cannot run where the true clusters are unknown."""
        return self.uses_ground_truth

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Note which options are set, because only defaults may be lowered."""
        made = super().__new__(cls)
        names = [field.name for field in fields(cls) if field.init]
        made.mark_given([*names[: len(values)], *named])
        return made

    @property
    def given(self) -> frozenset[str]:
        """The options that were set by the caller; all others have their defaults."""
        found: frozenset[str] = self.__dict__.get(_GIVEN, frozenset())
        return found

    def mark_given(self, options: Iterable[str]) -> None:
        """Note which options are set by the caller."""
        self.__dict__[_GIVEN] = frozenset(options)

    def options(self) -> State:
        """Return the options as plain data."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def peer_counts(self) -> dict[str, int]:
        """Return the options that are a number of peers, see `PEER_COUNTS`."""
        return {name: value for name, value in self.options().items() if name in PEER_COUNTS}

    def save(self) -> State:
        """Return the state between rounds as plain data."""
        state = {saved: getattr(self, name) for saved, name in self._saved_names().items()}
        return {key: v.save() if isinstance(v, Stateful) else v for key, v in state.items()}

    def restore(self, state: State) -> None:
        """Restore what `save` returned."""
        names = self._saved_names()
        if state.keys() != names.keys():
            raise ConfigError(
                f"The saved state of strategy '{self.name}' holds {sorted(state)}, but "
                f"{sorted(names)} was expected; it was written by another version."
            )
        for key, value in state.items():
            part = getattr(self, names[key])
            if isinstance(part, Stateful):
                part.restore(value)
            else:
                setattr(self, names[key], value)

    def _saved_names(self) -> dict[str, str]:
        """Return {name in checkpoints: name of the field}."""
        return {f.metadata.get(SAVED_AS, f.name): f.name for f in fields(self) if not f.init}

    @abstractmethod
    def check(self, num_peers: int) -> None:
        """Raise a ConfigError if the options cannot work in a network of this size."""

    @abstractmethod
    def most_peers(self, num_peers: int) -> int:
        """Return how many peers can be asked in a network of this size."""

    def lower_defaults(self, num_peers: int) -> dict[str, int]:
        """Lower defaults to the number of peers there are; return what was lowered."""
        most = self.most_peers(num_peers)
        lowered = {
            option: most
            for option, value in self.peer_counts().items()
            if option not in self.given and value > most
        }
        for option in lowered:
            setattr(self, option, most)
        return lowered
