"""Strategies of poisoned peers: honest until a round, then hostile."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.strategies.options import State
from coterie.strategies.requests import Message, Metric, Plan, Report, Request
from coterie.strategies.strategy import Estimates, Me, Strategy
from coterie.strategies.wrong_cluster import WrongCluster


class Impostor(Strategy):
    """Wraps an honest strategy; a subclass changes some of its behaviour."""

    # The wrapped strategy may not see the ground truth: see `_without_truth`.
    uses_ground_truth = True

    def __init__(self, honest: Strategy, from_round: int) -> None:
        self.honest = honest
        self._from_round = from_round
        self._has_begun = False

    def round(self, me: Me) -> Plan:
        """Run an honest round or a hostile one."""
        self._has_begun = me.round >= self._from_round
        return (
            self._misbehave(me) if self._has_begun else self.honest.round(self._without_truth(me))
        )

    @abstractmethod
    def _misbehave(self, me: Me) -> Plan:
        """Yield the requests of a hostile round."""

    def _without_truth(self, me: Me) -> Me:
        """Return `me` as the honest strategy may see it."""
        return me if self.honest.uses_ground_truth else replace(me, truth=None)

    def message(self) -> Message:
        """Return the message of the honest strategy."""
        return self.honest.message()

    def required_metrics(self) -> frozenset[Metric]:
        """Return the metrics of the honest strategy."""
        return self.honest.required_metrics()

    def neighbours(self) -> npt.NDArray[np.int64] | None:
        """Return the list of the honest strategy."""
        return self.honest.neighbours()

    def estimates(self, me: Me) -> Estimates | None:
        """Return the estimates of the honest strategy."""
        return self.honest.estimates(self._without_truth(me))

    def save(self) -> State:
        """Return the state of the honest strategy; an impostor has none."""
        return self.honest.save()

    def restore(self, state: State) -> None:
        """Take back what `save` returned."""
        self.honest.restore(state)


class WrongClusterImpostor(Impostor):
    """Merges models of other true clusters; its message is the last honest one."""

    name = "wrong-cluster impostor"
    summary = "honest, then merges models of other true clusters"
    usual_fetches = 5
    """For strategies that have no such option."""

    def _misbehave(self, me: Me) -> Plan:
        return WrongCluster(self.honest.peer_counts().get("fetches", self.usual_fetches)).round(me)


class Liar(Impostor):
    """Reports the opposite of the honest strategy's measurements; its models are honest."""

    name = "liar"
    summary = "honest, then reports the opposite of its measurements"

    def _misbehave(self, me: Me) -> Plan:
        plan, answer = self.honest.round(self._without_truth(me)), None
        while True:
            try:
                request: Request = plan.send(answer)
            except StopIteration:
                return
            if isinstance(request, Report):
                request = Report({peer: 1.0 - value for peer, value in request.values.items()})
            answer = yield request

    def message(self) -> Message:
        """Return the reverse of the honest message."""
        honest = self.honest.message()
        return _reversed(honest) if self._has_begun else honest


def _reversed(message: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Return a message with each array of floats reversed; peers' numbers stay."""
    return {
        name: _opposite(values) if values.dtype.kind == "f" else values
        for name, values in message.items()
    }


def _opposite(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return 1 − v for shares, and otherwise lowest + highest − v; NaN stays."""
    known = values[np.isfinite(values)]
    if not len(known):
        return values
    lowest, highest = known.min(), known.max()
    is_share = lowest >= 0 and highest <= 1
    whole = values.dtype.type(1) if is_share else lowest + highest
    return np.where(np.isfinite(values), whole - values, values)
