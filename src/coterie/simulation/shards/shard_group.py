"""The shards of a run, wherever they are: in this process, or in others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from coterie.simulation.shards.shard import Shard
from coterie.simulation.shards.shard_runtime import REACHES_OTHERS, WATCH, Kind


class ShardGroup(ABC):
    """Calls the methods of all shards, and takes between them what they need of each other."""

    size: int

    @abstractmethod
    def call(self, method: str, *arguments: Any, **named: Any) -> list[Any]:
        """Call a method of every shard at the same time; return the results in order."""

    @abstractmethod
    def call_one(self, place: int, method: str, *arguments: Any) -> Any:
        """Call a method of one shard."""

    @abstractmethod
    def record_watched(self) -> None:
        """Let shards fetch all models for their watched peers, which then measure them."""

    @abstractmethod
    def answer(self, kind: Kind, batch: int, places: Sequence[int]) -> list[Kind | None]:
        """Answer the requests of a kind of some shards; return the next kind of each.

        `batch` is the place of these requests among all of the round.
        """

    def close(self) -> None:  # noqa: B027 — some groups have nothing to release
        """End the shards."""


class LocalShards(ShardGroup):
    """Shards in this process, one after another."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = shards
        self.size = len(shards)

    def call(self, method: str, *arguments: Any, **named: Any) -> list[Any]:
        """Call a method of every shard."""
        return [getattr(shard, method)(*arguments, **named) for shard in self._shards]

    def call_one(self, place: int, method: str, *arguments: Any) -> Any:
        """Call a method of one shard."""
        return getattr(self._shards[place], method)(*arguments)

    def record_watched(self) -> None:
        """Let shards fetch all models for their watched peers, which then measure them."""
        needed = [shard.collect(WATCH) for shard in self._shards]
        for shard, wanted in zip(self._shards, needed, strict=True):
            served = [self._shards[place].serve(each) for place, each in wanted.items()]
            shard.record_watched(*served)

    def answer(self, kind: Kind, batch: int, places: Sequence[int]) -> list[Kind | None]:
        """Answer the requests of a kind of some shards; return the next kind of each.

        `batch` is the place of these requests among all of the round.
        """
        shards = [self._shards[place] for place in places]
        needed = [shard.collect(kind) if kind in REACHES_OTHERS else {} for shard in shards]
        served = [
            [self._shards[place].serve(each) for place, each in wanted.items()] for wanted in needed
        ]
        answers = [
            shard.answer(kind, batch, *each) for shard, each in zip(shards, served, strict=True)
        ]
        for _, sent in answers:
            for place, each in sent.items():
                self._shards[place].accept(each)
        return [next_kind for next_kind, _ in answers]

    def close(self) -> None:
        """End the shards' trainers."""
        for shard in self._shards:
            shard.__exit__()
