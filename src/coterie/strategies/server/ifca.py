"""IFCA: iterative federated clustering. Each client trains the best of a server's C models."""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.strategies.parts.merging import normalise
from coterie.strategies.parts.sampling import sample_uniformly
from coterie.strategies.requests import PeerId
from coterie.strategies.server.server_strategy import (
    Aggregate,
    ScoreClients,
    Server,
    ServerPlan,
    ServerStrategy,
    TrainClients,
)
from coterie.strategies.strategy import GroundTruth


@dataclass
class IFCA(ServerStrategy):
    """Train C models on m sampled clients, each on the model with the lowest loss on its data.

    Parameters
    ----------
    fetches
        Number of clients sampled per round (m).
    models
        Number of models (C), whatever the true number of clusters is.

    Examples
    --------
    >>> import numpy as np
    >>> from coterie.strategies.server.server_strategy import Server
    >>> server = Server(round=1, clients=np.arange(4), rng=np.random.default_rng(0))
    >>> plan = IFCA(fetches=2, models=2).round(server)
    >>> sorted(next(plan).clients)
    [2, 3]
    >>> plan.send({2: [0.9, 0.4], 3: [0.3, 0.8]}).models
    {2: 1, 3: 0}

    References
    ----------
    Ghosh, Chung, Yin, Ramchandran, "An efficient framework for clustered federated learning", 2020.
    """

    fetches: int = 5
    models: int = 2
    choices: dict[str, int] = field(default_factory=dict, init=False)
    """The model that each client chose last."""

    name = "ifca"
    summary = "server: C models, each client trains the one with the lowest loss on its data"
    distinct_models = True

    def num_models(self, num_clusters: int) -> int:
        """Return C."""
        return self.models

    def round(self, server: Server) -> ServerPlan:
        """Sample m clients, let them choose and train, average each model's clients by n_k."""
        clients = sample_uniformly(server.rng, server.clients, self.fetches)
        losses = yield ScoreClients(clients)
        chosen = {
            client: min(range(self.models), key=of.__getitem__) for client, of in losses.items()
        }
        self.choices.update({str(client): model for client, model in chosen.items()})
        samples = yield TrainClients(chosen, already_there=True)
        for model in range(self.models):
            mine = {client: n for client, n in samples.items() if chosen[client] == model}
            if mine:
                yield Aggregate(model, normalise(mine))

    def model_of(self, peer: PeerId, truth: GroundTruth | None) -> int:
        """Return the model that the peer chose last; the first one if it was never sampled."""
        return self.choices.get(str(peer), 0)
