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
from coterie.strategies.kin.evidence import RANGE, VERDICTS, PeerEvidence
from coterie.strategies.kin.paired_test import (
    Losses,
    best_model,
    compare,
    compare_with_best,
    has_increased,
    is_worse,
)
from coterie.strategies.parts.finetuning import finetuning
from coterie.strategies.parts.merging import federated_average
from coterie.strategies.requests import (
    Fetch,
    Merge,
    Message,
    Plan,
    ReceiveReports,
    Report,
    Request,
    Train,
    Validate,
)
from coterie.strategies.strategy import Estimates, Me, Strategy


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
    table: PeerEvidence = field(default_factory=PeerEvidence, init=False)
    judged: list[int] = field(default_factory=list, init=False)
    """Whom I judged in the round before."""
    losses: Losses = field(default_factory=lambda: np.zeros(0, np.float32), init=False)
    """Of my model on my validation data, when the round before began."""

    receives_reports = True
    report_range = RANGE
    table_ranges: ClassVar = {VERDICTS: RANGE}
    name = "kin"
    summary = "merges whoever's model is as good as its own on its own data; needs no tuning"

    def round(self, me: Me) -> Plan:
        """ReceiveReports, choose, judge, reply, merge, train."""
        mine = (yield Validate((me.peer,)))[me.peer]
        self.table.start_round(me, self._period(me), len(mine))
        self.table.record_reports(me, (yield ReceiveReports()), self.judged)
        self._detect_shift(mine)
        offers = yield Fetch(self.sample_peers(me))
        theirs = yield Validate(tuple(offer.peer for offer in offers))
        found = yield from self._test(mine, theirs)
        if self.replies:
            yield Report(found)
        if self.hearsay:
            self.table.record_second_hand_results(me, offers, found)
        if self.adopt:
            weights = yield from average_or_adopt(me, mine, theirs, found)
        else:
            weights = federated_average(me, [o for o in offers if found.get(o.peer, 0.0) > 0.5])
        yield Merge(weights)
        yield from self._train(me)

    def sample_peers(self, me: Me) -> tuple[int, ...]:
        """Return m peers: whoever is drawn, by its chance of being of my kind, comes first.

        Of those drawn, and of the others, the likely ones are preferred in proportion.
        """
        chances = self.table.similarity_probabilities(me.others)
        drawn = me.rng.random(len(chances)) < chances
        # A weighted draw without replacement: the highest ln(u)/P.
        preference = np.log(1 - me.rng.random(len(chances))) / chances
        order = np.lexsort((-preference, ~drawn))
        return tuple(me.others[order[: self.fetches]].tolist())

    def _test(
        self, mine: Losses, theirs: Mapping[int, Losses]
    ) -> Generator[Request, Any, dict[int, float]]:
        """q_k: of the verdicts against mine and against the best of them, the lower one."""
        found = compare(theirs, mine)
        if self.rivals and found:
            rivals = yield from self._compare_with_best(theirs)
            found = {peer: min(q, rivals[peer]) for peer, q in found.items()}
        self.table.record_test_results(found)
        self.judged = sorted(found)
        return found

    def _compare_with_best(
        self, theirs: Mapping[int, Losses]
    ) -> Generator[Request, Any, dict[int, float]]:
        """Return how likely each model is as good as the best of them, by validation.

        Whoever is not surely of my kind yet has to prove it on my training data as well.
        """
        peers = np.array(list(theirs))
        trusted = self.table.is_surely_similar(peers) & self.trust
        asks = {best_model(theirs), *peers[~trusted].tolist()}
        asked = {peer: theirs[peer] for peer in theirs if peer in asks}
        rivals = compare_with_best(theirs, {}) if trusted.any() or len(asked) == 1 else {}
        if len(asked) > 1:
            practised = yield Validate(tuple(asked), "train")
            rivals |= compare_with_best(asked, practised)
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

    def _detect_shift(self, mine: Losses) -> None:
        """Forget everything when my own loss has jumped: my data are not what they were."""
        if len(self.losses) and has_increased(mine, self.losses):
            self.table.clear()
        self.losses = mine

    def message(self) -> Message:
        """Pass my verdicts on with my model."""
        return self.table.message() if self.hearsay else {}

    def neighbours(self) -> npt.NDArray[np.int64]:
        """Return those I hold to be of my kind."""
        return self.table.similar_peers()

    def estimates(self, me: Me) -> Estimates:
        """Return my verdicts; how likely each is chosen next is not written down anywhere."""
        found = self.table.test_results(me.others)
        (known,) = np.nonzero(~np.isnan(found))
        return Estimates(
            me.others[known],
            found[known],
            self.table.is_own_result(me.others[known]),
            np.full(len(known), np.nan),
        )
