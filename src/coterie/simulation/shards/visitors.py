"""Models of other shards, which are held for a round or for a peer's turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from coterie.learning.trainer import Matrix, ModelReference
from coterie.runtime.model_store import ModelStore
from coterie.runtime.published_models import PublishedModels
from coterie.strategies.requests import Message, Metric, Offer

CHUNK = 64
"""Models that memory is added for at once."""
UPDATES: tuple[Metric, ...] = ("cosine-last-update", "cosine-total-update")
"""Metrics that compare the changes of models, which travel beside the models."""


@dataclass(frozen=True)
class Parcel:
    """Published models of n peers, as one shard sends them to another."""

    offers: Sequence[Offer] = ()
    models: Matrix = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """(n, P)."""
    updates: dict[Metric, Matrix] = field(default_factory=dict)
    """The changes of the models, (n, P) each; only what some metric compares."""

    @classmethod
    def of(cls, models: PublishedModels, state: ModelStore, numbers: Sequence[int]) -> Parcel:
        """Return the published models of some peers of `state`."""
        if not numbers:
            return cls()
        start = {"cosine-last-update": state.untrained, "cosine-total-update": state.initial}
        return cls(
            [models.offer(number) for number in numbers],
            np.stack([models.model(number) for number in numbers]),
            {
                metric: np.stack([models.vector(number, metric) for number in numbers])
                for metric in UPDATES
                if start[metric] is not None
            },
        )


class Visitors(PublishedModels):
    """The published models of this shard's peers, and those that came from other shards."""

    def __init__(self, state: ModelStore, messages: list[Message]) -> None:
        super().__init__(state, messages)
        self._places: dict[int, ModelReference] = {}
        self._free: list[ModelReference] = []
        self._offers: dict[int, Offer] = {}
        self._updates: dict[tuple[int, Metric], Matrix] = {}
        self._num_chunks = 0

    def clear(self) -> None:
        """Forget the models of other shards."""
        self._free += self._places.values()
        self._places.clear()
        self._offers.clear()
        self._updates.clear()

    def is_here(self, number: int) -> bool:
        """Return whether the model of a peer is at hand."""
        return number in self._state.numbers or number in self._places

    def hold(self, parcel: Parcel) -> None:
        """Hold models of other shards; a newer model replaces an older one."""
        for row, offer in enumerate(parcel.offers):
            number = offer.peer
            self._offers[number] = offer
            if number not in self._places:
                self._places[number] = self._free_place()
            self._state.workspace.model(self._places[number])[:] = parcel.models[row]
            for metric, vectors in parcel.updates.items():
                self._updates[number, metric] = vectors[row]

    def reference(self, number: int) -> ModelReference:
        """Return the reference of a model, for a trainer."""
        return self._places.get(number) or super().reference(number)

    def model(self, number: int) -> Matrix:
        """Return a model (P,), as a view."""
        return self._state.workspace.model(self.reference(number))

    def offer(self, number: int) -> Offer:
        """Return what a peer offers."""
        return self._offers.get(number) or super().offer(number)

    def vector(self, number: int, metric: Metric) -> Matrix:
        """Return the vector that a metric compares (P,): a model's weights or its update."""
        if (number, metric) in self._updates:
            return self._updates[number, metric]
        return super().vector(number, metric)

    def _free_place(self) -> ModelReference:
        if not self._free:
            name = f"visitors {self._num_chunks}"
            self._num_chunks += 1
            self._state.workspace.allocate(name, (CHUNK, self._state.layout.size))
            self._free = [ModelReference(name, row) for row in reversed(range(CHUNK))]
        return self._free.pop()
