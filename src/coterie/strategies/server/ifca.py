"""IFCA: a server keeps C models, each client joins the one that suits it best (Ghosh et al.)."""

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
    """Trains `models` models on m = `fetches` sampled clients, who choose by the lowest loss."""

    fetches: int = 5
    models: int = 2
    choices: dict[str, int] = field(default_factory=dict, init=False)

    name = "ifca"
    summary = "server: C models, each client trains the one with the lowest loss on its data"
    distinct_models = True

    def num_models(self, num_clusters: int) -> int:
        """C models, whatever the true number of clusters."""
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
        """The model the peer chose last; the first one before it was ever asked."""
        return self.choices.get(str(peer), 0)
