"""HAST: layer-wise merging under temporal shift (Toftås et al. 2023).

Features are worth sharing with anybody, the meaning of labels only with one's own kind: all layers
are merged with random peers, then the classifier alone with similar ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.merging import federated_average
from coterie.sampling import Unseen, softmax_chances, uniform
from coterie.similarity import Similarity, measure, measurements
from coterie.strategies.base import Depth, Fetch, Me, Merge, Message, Metric, Plan, Strategy
from coterie.strategies.finetuning import train
from coterie.tables import Hops, SimilarityTable


@dataclass
class HAST(Strategy):
    """Merges everything with n = `fetches` random peers, then the classifier with n similar ones.

    The classifier φ is the last `depth` layers; what is before is the feature extractor θ.
    """

    fetches: int = 3
    tau: float = 30.0
    depth: Depth = "classifier"
    finetune: bool = True
    metric: Similarity = "inverse-loss"
    alpha: float = 1.0
    two_hop: bool = True
    hops: Hops = "two"
    unseen: Unseen = "zero"
    table: SimilarityTable = field(default_factory=SimilarityTable, init=False)

    name = "hast"
    summary = "merges all layers with random peers, then the classifier with similar ones"

    def round(self, me: Me) -> Plan:
        """Step 1 merges θ and φ, step 2 merges φ, step 3 trains and fine-tunes φ."""
        yield from self._merge(me, uniform(me.rng, me.others, self.fetches), None)
        similarities = self.table.similarities(me.others)
        chances = softmax_chances(me.others, similarities, self.tau, self.unseen)
        yield from self._merge(me, chances.sample(me.rng, self.fetches), self.depth)
        yield from train(finetune=self.finetune, depth=self.depth)

    def _merge(self, me: Me, peers: tuple[int, ...], depth: Depth) -> Plan:
        """Fetch, measure, remember, merge; in step 2 too, a measurement is stored like any other.

        All models are those from the start of the round, but my own is as the last step left it.
        """
        offers = yield Fetch(peers)
        scores = yield from measure(offers, self.metric, self.alpha)
        self.table.measured(scores)
        if self.two_hop:
            self.table.heard(me.peer, offers, scores)
        yield Merge(federated_average(me, offers), last_layers=depth)

    def message(self) -> Message:
        """Pass my table on with my model."""
        return self.table.message(self.hops)

    def needs(self) -> frozenset[Metric]:
        """Return what I will measure."""
        return measurements(self.metric, self.alpha)
