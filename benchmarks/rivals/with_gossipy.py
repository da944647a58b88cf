"""gossipy: each node pulls the model of a random node once per round, merges it and trains.

As in the examples of gossipy, a round has 100 steps, and a node has one of them. Nodes have no test
data, so nothing is evaluated.
"""

from __future__ import annotations

import torchvision_on_cpu  # noqa: F401 — before what imports torchvision

# isort: split
import torch
from gossipy.core import AntiEntropyProtocol, CreateModelMode, StaticP2PNetwork
from gossipy.data import DataDispatcher
from gossipy.data.handler import ClassificationDataHandler
from gossipy.model import TorchModel
from gossipy.model.handler import TorchModelHandler
from gossipy.node import GossipNode
from gossipy.simul import GossipSimulator, SimulationEventReceiver
from work import (
    BATCH_SIZE,
    LEARNING_RATE,
    NUM_SAMPLES,
    Meter,
    build_network,
    parse_options,
    read_samples,
)

STEPS = 100
"""Of a round."""


class Network(TorchModel):  # type: ignore[misc]
    """The network as gossipy wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = build_network()

    def init_weights(self) -> None:
        """Keep the weights of torch."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the scores of classes."""
        scores: torch.Tensor = self.layers(images)
        return scores


class Rounds(SimulationEventReceiver):  # type: ignore[misc]
    """Tells the meter of the end of rounds."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def update_message(self, failed: bool, msg: object = None) -> None:
        """Ignore messages."""

    def update_end(self) -> None:
        """Ignore the end."""

    def update_timestep(self, t: int) -> None:
        """Count the steps."""
        if (t + 1) % STEPS == 0:
            self._meter.finish_round()


def main() -> None:
    """Build the nodes as in the examples, and start the simulation."""
    options = parse_options()
    meter = Meter(options, "gossipy-dfl")
    data = [read_samples(options, peer) for peer in range(options.peers)]
    handler = ClassificationDataHandler(*map(torch.cat, zip(*data, strict=True)), test_size=0)
    del data
    dispatcher = DataDispatcher(handler, options.peers, eval_on_user=False, auto_assign=False)
    first = range(0, options.peers * NUM_SAMPLES, NUM_SAMPLES)
    dispatcher.set_assignments([list(range(each, each + NUM_SAMPLES)) for each in first], None)
    nodes = GossipNode.generate(
        data_dispatcher=dispatcher,
        p2p_net=StaticP2PNetwork(options.peers, None),
        model_proto=TorchModelHandler(
            net=Network(),
            optimizer=torch.optim.SGD,
            optimizer_params={"lr": LEARNING_RATE},
            criterion=torch.nn.CrossEntropyLoss(),
            local_epochs=1,
            batch_size=BATCH_SIZE,
            create_model_mode=CreateModelMode.MERGE_UPDATE,
        ),
        round_len=STEPS,
        sync=True,
    )
    simulator = GossipSimulator(nodes, dispatcher, STEPS, AntiEntropyProtocol.PULL)
    simulator.add_receiver(Rounds(meter))
    simulator.init_nodes()
    simulator.start(n_rounds=1 + options.rounds)
    meter.report()


if __name__ == "__main__":
    main()
