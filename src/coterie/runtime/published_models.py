"""The published models of a round, as the peers of a runtime see them."""

from __future__ import annotations

from coterie.errors import StrategyError
from coterie.learning.trainer import Matrix, ModelReference
from coterie.runtime.model_store import ModelStore
from coterie.strategies.requests import Message, Metric, Offer


class PublishedModels:
    """Models, messages and sizes by the peers' numbers; all peers are rows of one store."""

    def __init__(self, state: ModelStore, messages: list[Message]) -> None:
        self._state = state
        self._messages = messages

    def reference(self, number: int) -> ModelReference:
        """Return the reference of a model, for a trainer."""
        return ModelReference("published", self._row(number))

    def model(self, number: int) -> Matrix:
        """Return a model (P,), as a view."""
        row: Matrix = self._state.published[self._row(number)]
        return row

    def offer(self, number: int) -> Offer:
        """Return what a peer offers."""
        row = self._row(number)
        return Offer(number, len(self._state.samples[row].train), self._messages[row])

    def vector(self, number: int, metric: Metric) -> Matrix:
        """Return the vector that a metric compares (P,): a model's weights or its update."""
        state, row = self._state, self._row(number)
        if metric in ("cosine", "distance"):
            return state.exchanged.take(self.model(number))
        start = state.untrained if metric == "cosine-last-update" else state.initial
        if start is None:
            raise StrategyError(
                f"A strategy scored by '{metric}', which its required_metrics() must return."
            )
        return state.exchanged.take(self.model(number) - start[row])

    def _row(self, number: int) -> int:
        return number - self._state.numbers.start
