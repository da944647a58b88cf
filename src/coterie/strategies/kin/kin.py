"""Kin: merges the models that pass a paired test against this peer's own model.

There is no temperature and no threshold to tune: the test statistic is normalised by its own
standard error. Peers that have not been tested yet are sampled for exploration.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from coterie.strategies.kin.average_or_adopt import average_or_adopt
from coterie.strategies.kin.evidence import RANGE, RESULTS, PeerEvidence
from coterie.strategies.kin.paired_test import (
    Losses,
    best_model,
    compare,
    compare_with_best,
    has_increased,
    is_worse,
)
from coterie.strategies.kin.sample_similar_first import sample_similar_first
from coterie.strategies.options import SAVED_AS
from coterie.strategies.parts.finetuning import finetuning
from coterie.strategies.parts.merging import federated_average
from coterie.strategies.parts.unlisted_peers import divide_others
from coterie.strategies.requests import (
    Fetch,
    Merge,
    Message,
    Offer,
    Plan,
    ReceiveReports,
    Report,
    Request,
    Train,
    Validate,
)
from coterie.strategies.strategy import Estimates, Me, Strategy

Results = dict[int, float]
"""{peer: q}, where q is the probability that its model is as good as the own one."""


@dataclass
class Kin(Strategy):
    """Merge the models that are as good as the own model on the own validation data.

    All options but `fetches` switch off one part each, to measure what it contributes.

    Parameters
    ----------
    fetches
        Number of peers sampled per round (m).
    rivals
        Whether models are also compared with the best fetched model.
    trust
        Whether surely similar peers are spared the comparison on training data.
    replies
        Whether peers are told the test results of their models.
    hearsay
        Whether the results in other peers' tables count.
    adopt
        Whether to merge by "average or adopt"; False averages similar peers by FedAvg.
    restraint
        Whether to train fewer epochs where training makes validation worse.
    finetune
        Whether to fine-tune the classifier after training, as in step 3 of HAST.

    Examples
    --------
    Peer 2 has a model as good as the own one, so it is merged with q = √n / (1 + √n).

    >>> from coterie.strategies import Me, Offer
    >>> me = Me(peer=0, round=1, known=np.arange(4), num_samples=10, rng=np.random.default_rng(0))
    >>> mine = np.float32([1.0, 1.2] * 50)  # per-sample losses of the own model, n = 100
    >>> kin = Kin(fetches=1, rivals=False)
    >>> plan = kin.round(me)
    >>> next(plan)
    Validate(peers=(0,), data='validation')
    >>> plan.send({0: mine})
    ReceiveReports()
    >>> plan.send({})
    Fetch(peers=(2,))
    >>> plan.send([Offer(2, num_samples=10, message={})])
    Validate(peers=(2,), data='validation')
    >>> plan.send({2: mine})
    Report(values={2: 0.9090909090909091})
    >>> plan.send(None)
    ValidateMerge(weights={0: 0.5238095238095238, 2: 0.47619047619047616}, last_layers=None)
    >>> plan.send(mine)
    Merge(weights={0: 0.5238095238095238, 2: 0.47619047619047616}, last_layers=None)
    >>> kin.neighbours()
    array([2])

    References
    ----------
    Kin is an algorithm of Coterie. Its documentation describes each step and compares it with other
    strategies. The parts cite their sources.
    """

    fetches: int = 5
    rivals: bool = True
    trust: bool = True
    replies: bool = True
    hearsay: bool = True
    adopt: bool = True
    restraint: bool = True
    finetune: bool = True
    evidence: PeerEvidence = field(
        default_factory=PeerEvidence, init=False, metadata={SAVED_AS: "table"}
    )
    tested: list[int] = field(default_factory=list, init=False, metadata={SAVED_AS: "judged"})
    """The peers whose models were tested in the last round."""
    losses: Losses = field(default_factory=lambda: np.zeros(0, np.float32), init=False)
    """Per-sample validation losses of the own model at the start of the last round, (n,)."""

    receives_reports = True
    report_range = RANGE
    table_ranges: ClassVar = {RESULTS: RANGE}
    name = "kin"
    summary = "merges models that are as good as its own on its own data; needs no tuning"

    def round(self, me: Me) -> Plan:
        """Update the evidence, sample, test, report, merge, train."""
        mine = (yield Validate((me.peer,)))[me.peer]
        self._update_evidence(me, mine, (yield ReceiveReports()))
        offers: list[Offer] = yield Fetch(self.sample_peers(me))
        theirs = yield Validate(tuple(offer.peer for offer in offers))
        results = yield from self._test(mine, theirs)
        if self.replies:
            yield Report(results)
        if self.hearsay:
            self.evidence.record_second_hand_results(me, offers, results)
        if self.adopt:
            weights = yield from average_or_adopt(me, mine, theirs, results)
        else:
            similar = [offer for offer in offers if results.get(offer.peer, 0.0) > 0.5]
            weights = federated_average(me, similar)
        yield Merge(weights)
        yield from self._train(me)

    def _update_evidence(self, me: Me, mine: Losses, reports: Mapping[int, float]) -> None:
        """Age the evidence and record reports; forget it all if the own loss has jumped."""
        rounds_to_meet_all = max(me.num_others / max(self.fetches, 1), 1.0)
        self.evidence.start_round(rounds_to_meet_all, len(mine))
        self.evidence.record_reports(me, reports, self.tested)
        # A jump means that the data have changed, so earlier results say nothing.
        if len(self.losses) and has_increased(mine, self.losses):
            self.evidence.clear()
        self.losses = mine

    def sample_peers(self, me: Me) -> tuple[int, ...]:
        """Sample m peers: first those drawn as similar, each with its probability P_j.

        Among the drawn, and among the others, peers are drawn in proportion to P_j. So unknown
        peers are explored, as in Thompson sampling.
        """
        peers, rest = divide_others(me, self.evidence.peers)
        return sample_similar_first(
            me.rng,
            peers,
            self.evidence.similarity_probabilities(peers),
            self.fetches,
            rest,
            self.evidence.share_of_similar(),
        )

    def _test(self, mine: Losses, theirs: Mapping[int, Losses]) -> Generator[Request, Any, Results]:
        """Return q_k: the lower result of the tests against the own model and the best fetched."""
        results = compare(theirs, mine)
        if self.rivals and results:
            rivals = yield from self._test_against_best(theirs)
            results = {peer: min(q, rivals[peer]) for peer, q in results.items()}
        self.evidence.record_test_results(results)
        self.tested = sorted(results)
        return results

    def _test_against_best(self, theirs: Mapping[int, Losses]) -> Generator[Request, Any, Results]:
        """Return q_k against the best fetched model, by validation data.

        Peers that are not surely similar yet are tested on the training data as well.
        """
        peers = np.array(list(theirs))
        is_trusted = self.evidence.is_surely_similar(peers) & self.trust
        untrusted = {best_model(theirs), *peers[~is_trusted].tolist()}
        asked = {peer: theirs[peer] for peer in theirs if peer in untrusted}
        results = compare_with_best(theirs, {}) if is_trusted.any() or len(asked) == 1 else {}
        if len(asked) > 1:
            in_training = yield Validate(tuple(asked), "train")
            results |= compare_with_best(asked, in_training)
        return results

    def _train(self, me: Me) -> Plan:
        """Train; then fine-tune the classifier, unless training made validation worse."""
        merged = (yield Validate((me.peer,)))[me.peer]
        yield Train(restrained=self.restraint)
        trained = (yield Validate((me.peer,)))[me.peer]
        if self.finetune and not is_worse(trained, merged):
            yield finetuning("classifier")

    def message(self) -> Message:
        """Return the latest test results, to travel with the model."""
        return self.evidence.message() if self.hearsay else {}

    def neighbours(self) -> npt.NDArray[np.int64]:
        """Return the peers with a latest test result above ½."""
        return self.evidence.similar_peers()

    def estimates(self, me: Me) -> Estimates:
        """Return the test results; there is no probability of a single draw."""
        peers = self.evidence.peers[me.is_other(self.evidence.peers)]
        results = self.evidence.test_results(peers)
        known = ~np.isnan(results)
        return Estimates(
            peers[known],
            results[known],
            self.evidence.is_own_result(peers[known]),
            np.full(np.count_nonzero(known), np.nan),
        )
