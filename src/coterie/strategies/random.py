"""Random: gossip averaging with uniformly chosen peers. Collaboration without judgement."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.strategies.parts.finetuning import train
from coterie.strategies.parts.merging import federated_average
from coterie.strategies.parts.sampling import sample_uniformly
from coterie.strategies.requests import Depth, Fetch, Merge, Plan
from coterie.strategies.strategy import Me, Strategy


@dataclass
class Random(Strategy):
    """Merges with m = `fetches` uniformly chosen peers each round; may fine-tune as HAST does."""

    fetches: int = 5
    finetune: bool = False
    depth: Depth = "classifier"
    name = "random"
    summary = "merges with m uniformly chosen peers each round"

    def round(self, me: Me) -> Plan:
        """Fetch at random, average by number of samples, train."""
        offers = yield Fetch(sample_uniformly(me.rng, me.others, self.fetches))
        yield Merge(federated_average(me, offers))
        yield from train(finetune=self.finetune, depth=self.depth)
