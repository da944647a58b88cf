"""Random: gossip averaging with uniformly sampled peers, whatever their data."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.strategies.parts.finetuning import train
from coterie.strategies.parts.merging import federated_average
from coterie.strategies.parts.unlisted_peers import sample_others
from coterie.strategies.requests import Depth, Fetch, Merge, Plan
from coterie.strategies.strategy import Me, Strategy


@dataclass
class Random(Strategy):
    """Merge with m uniformly sampled peers each round, by FedAvg.

    Parameters
    ----------
    fetches
        Number of peers sampled per round (m).
    finetune
        Whether to fine-tune the last layers after training, as in step 3 of HAST.
    depth
        How many of the last layers are fine-tuned: a number, or "classifier".

    Examples
    --------
    >>> import numpy as np
    >>> from coterie.strategies import Me, Offer
    >>> me = Me(peer=0, round=1, known=np.arange(4), num_samples=10, rng=np.random.default_rng(0))
    >>> plan = Random(fetches=2).round(me)
    >>> next(plan)
    Fetch(peers=(2, 3))
    >>> plan.send([Offer(3, num_samples=30, message={})]).weights  # peer 2 did not answer
    {0: 0.25, 3: 0.75}
    """

    fetches: int = 5
    finetune: bool = False
    depth: Depth = "classifier"

    name = "random"
    summary = "merges with m uniformly sampled peers each round"

    def round(self, me: Me) -> Plan:
        """Sample uniformly, fetch, average by number of samples, train."""
        offers = yield Fetch(sample_others(me, self.fetches))
        yield Merge(federated_average(me, offers))
        yield from train(finetune=self.finetune, depth=self.depth)
