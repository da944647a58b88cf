"""Kin: asks of every model whether it is as good as mine, and as the best of them, on my own data.

There is no temperature and no threshold to set: the tests have a scale of their own. Who passes is
of my kind and is merged; who has not been judged yet is given a chance (Thompson sampling).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from coterie.strategies.kin.average_or_adopt import average_or_adopt
from coterie.strategies.kin.evidence import RANGE, VERDICTS, VerdictTable
from coterie.strategies.kin.paired_test import (
    Losses,
    against,
    against_the_best,
    best_of,
    has_jumped,
    is_worse,
)
from coterie.strategies.parts.finetuning import finetuning
from coterie.strategies.parts.merging import federated_average
from coterie.strategies.requests import (
    Fetch,
    Listen,
    Merge,
    Message,
    Plan,
    Request,
    Tell,
    Train,
    Validate,
)
from coterie.strategies.strategy import Beliefs, Me, Strategy


@dataclass
class Kin(Strategy):
    """Fetches m = `fetches` peers that are likely of its kind.

    The other options are for finding out what each part is worth: `rivals` compares models with
    the best of them as well as with mine, `trust` spares whoever is surely of my kind the test on
    my training data, `replies` tells peers what I found of their models,
    `hearsay` counts what others found, `adopt=False` averages all of my kind (FedAvg) instead of
    "average or adopt", `restraint` trains less where training does harm, `finetune` trains the
    classifier once more (HAST's third step) where it does none.
    """

    fetches: int = 5
    rivals: bool = True
    trust: bool = True
    replies: bool = True
    hearsay: bool = True
    adopt: bool = True
    restraint: bool = True
    finetune: bool = True
    table: VerdictTable = field(default_factory=VerdictTable, init=False)
    judged: list[int] = field(default_factory=list, init=False)
    """Whom I judged in the round before."""
    losses: Losses = field(default_factory=lambda: np.zeros(0, np.float32), init=False)
    """Of my model on my validation data, when the round before began."""

    listens = True
    told_range = RANGE
    table_ranges: ClassVar = {VERDICTS: RANGE}
    name = "kin"
    summary = "merges whoever's model is as good as its own on its own data; needs no tuning"

    def round(self, me: Me) -> Plan:
        """Listen, choose, judge, reply, merge, train."""
        mine = (yield Validate((me.peer,)))[me.peer]
        self.table.grow_older(me, self._period(me), len(mine))
        self.table.told(me, (yield Listen()), self.judged)
        self._notice(mine)
        offers = yield Fetch(self.chosen(me))
        theirs = yield Validate(tuple(offer.peer for offer in offers))
        found = yield from self._judge(mine, theirs)
        if self.replies:
            yield Tell(found)
        if self.hearsay:
            self.table.heard(me, offers, found)
        if self.adopt:
            weights = yield from average_or_adopt(me, mine, theirs, found)
        else:
            weights = federated_average(me, [o for o in offers if found.get(o.peer, 0.0) > 0.5])
        yield Merge(weights)
        yield from self._train(me)

    def chosen(self, me: Me) -> tuple[int, ...]:
        """Return m peers: whoever is drawn, by its chance of being of my kind, comes first.

        Of those drawn, and of the others, the likely ones are preferred in proportion.
        """
        chances = self.table.chances(me.others)
        drawn = me.rng.random(len(chances)) < chances
        # A weighted draw without replacement: the highest ln(u)/P.
        preference = np.log(1 - me.rng.random(len(chances))) / chances
        order = np.lexsort((-preference, ~drawn))
        return tuple(me.others[order[: self.fetches]].tolist())

    def _judge(
        self, mine: Losses, theirs: Mapping[int, Losses]
    ) -> Generator[Request, Any, dict[int, float]]:
        """q_k: of the verdicts against mine and against the best of them, the lower one."""
        found = against(theirs, mine)
        if self.rivals and found:
            rivals = yield from self._compare(theirs)
            found = {peer: min(q, rivals[peer]) for peer, q in found.items()}
        self.table.judged(found)
        self.judged = sorted(found)
        return found

    def _compare(self, theirs: Mapping[int, Losses]) -> Generator[Request, Any, dict[int, float]]:
        """Return how likely each model is as good as the best of them, by validation.

        Whoever is not surely of my kind yet has to prove it on my training data as well.
        """
        peers = np.array(list(theirs))
        trusted = self.table.is_sure(peers) & self.trust
        asks = {best_of(theirs), *peers[~trusted].tolist()}
        asked = {peer: theirs[peer] for peer in theirs if peer in asks}
        rivals = against_the_best(theirs, {}) if trusted.any() or len(asked) == 1 else {}
        if len(asked) > 1:
            practised = yield Validate(tuple(asked), "train")
            rivals |= against_the_best(asked, practised)
        return rivals

    def _train(self, me: Me) -> Plan:
        """Train; then the classifier alone, unless the training has made validation worse."""
        merged = (yield Validate((me.peer,)))[me.peer]
        yield Train(restrained=self.restraint)
        trained = (yield Validate((me.peer,)))[me.peer]
        if self.finetune and not is_worse(trained, merged):
            yield finetuning("classifier")

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
            self.table.is_own(me.others[known]),
            np.full(len(known), np.nan),
        )
