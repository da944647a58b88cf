"""Kin: asks of every model whether it is as good as mine on my own validation data.

There is no temperature and no threshold to set: the test has a scale of its own. Who passes is of
my kind and is merged; who has not been judged yet is given a chance (Thompson sampling).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from coterie.adopting import average_or_adopt
from coterie.exchangeable import Losses, has_jumped, verdicts
from coterie.merging import federated_average
from coterie.strategies.base import (
    Beliefs,
    Fetch,
    Listen,
    Me,
    Merge,
    Message,
    Plan,
    Strategy,
    Tell,
    Train,
    Validate,
)
from coterie.verdicts import VerdictTable


@dataclass
class Kin(Strategy):
    """Fetches the m = `fetches` peers that draw highest from what is known of them.

    The other options are for finding out what each part is worth: `linkage` lets kin of my kin be
    my kin, `replies` tells peers what I found of their models, `hearsay` counts what others found,
    `adopt=False` averages all of my kind (FedAvg) instead of "average or adopt".
    """

    fetches: int = 5
    linkage: bool = True
    replies: bool = True
    hearsay: bool = True
    adopt: bool = True
    table: VerdictTable = field(default_factory=VerdictTable, init=False)
    judged: list[int] = field(default_factory=list, init=False)
    """Whom I judged in the round before."""
    losses: Losses = field(default_factory=lambda: np.zeros(0, np.float32), init=False)
    """Of my model on my validation data, when the round before began."""

    listens = True
    name = "kin"
    summary = "merges whoever's model is as good as its own on its own data; needs no tuning"

    def round(self, me: Me) -> Plan:
        """Listen, choose, judge, reply, merge, train."""
        self.table.grow_older(me)
        self.table.told(me, (yield Listen()), self.judged)
        mine = (yield Validate((me.peer,)))[me.peer]
        self._notice(mine)
        offers = yield Fetch(self.chosen(me))
        theirs = yield Validate(tuple(offer.peer for offer in offers))
        found = verdicts(theirs, mine, linkage=self.linkage)
        self.table.judged(found)
        self.judged = sorted(found)
        if self.replies:
            yield Tell(found)
        if self.hearsay:
            self.table.heard(me, offers, found)
        if self.adopt:
            weights = yield from average_or_adopt(me, mine, theirs, found)
        else:
            weights = federated_average(me, [o for o in offers if found.get(o.peer, 0.0) > 0.5])
        yield Merge(weights)
        yield Train()

    def chosen(self, me: Me) -> tuple[int, ...]:
        """θ_j ~ Beta(a_j, b_j); the m highest: the more is known, the less is left to chance."""
        drawn = me.rng.beta(*self.table.evidence(me.others, self._period(me)))
        best = np.argsort(-drawn, kind="stable")[: self.fetches]
        return tuple(me.others[best].tolist())

    def _period(self, me: Me) -> float:
        """How many rounds it takes to meet everybody once."""
        return max(len(me.others) / max(self.fetches, 1), 1.0)

    def _notice(self, mine: Losses) -> None:
        """Forget everything when my own loss has jumped: my data are not what they were."""
        if len(self.losses) and has_jumped(mine, self.losses):
            self.table.forget()
        self.losses = mine

    def message(self) -> Message:
        """Pass my verdicts on with my model."""
        return self.table.message() if self.hearsay else {}

    def neighbours(self) -> npt.NDArray[np.int64]:
        """Return those I hold to be of my kind."""
        return self.table.kin()

    def beliefs(self, me: Me) -> Beliefs:
        """Return my verdicts; how likely each is chosen next is not written down anywhere."""
        found = self.table.of(me.others)
        (known,) = np.nonzero(~np.isnan(found))
        return Beliefs(
            me.others[known],
            found[known],
            np.ones(len(known), dtype=bool),
            np.full(len(known), np.nan),
        )
