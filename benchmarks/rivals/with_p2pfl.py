"""p2pfl: nodes of one process that exchange messages in memory, and train in processes of Ray.

In p2pfl, the nodes of a round's training set average the models of all of them: there is no merge
with a single other model. All nodes are in the training set. Evaluation cannot be switched off, so
each node has one test sample. Rounds are counted when all nodes have finished them.
"""

from __future__ import annotations

import time

import ray_for_p2pfl  # noqa: F401 — before p2pfl, which would start Ray
import torchvision_on_cpu  # noqa: F401 — before what imports torchvision

# isort: split
import lightning
import torch
from datasets import Array3D, Dataset, DatasetDict, Features, Value
from p2pfl.communication.protocols.protobuff.memory import MemoryCommunicationProtocol
from p2pfl.learning.dataset.p2pfl_dataset import P2PFLDataset
from p2pfl.learning.frameworks.pytorch.lightning_model import LightningModel
from p2pfl.management.logger import logger
from p2pfl.node import Node
from p2pfl.settings import Settings
from p2pfl.utils.topologies import TopologyFactory, TopologyType
from p2pfl.utils.utils import wait_convergence
from work import (
    BATCH_SIZE,
    CORES,
    LEARNING_RATE,
    Meter,
    Options,
    build_network,
    parse_options,
    read_samples,
)

COLUMNS = Features({"image": Array3D((1, 28, 28), "float32"), "label": Value("int64")})
LONGEST_WAIT = 3600
# Beside the defaults: more time until a silent node counts as lost, and more messages at a time.
SETTINGS = {
    "heartbeat": {"timeout": 60},
    "gossip": {"messages_per_period": 10_000, "amount_last_messages_saved": 10_000},
    "training": {"ray_actor_pool_size": CORES},
}
POLL_SECONDS = 0.02


class Network(lightning.LightningModule):  # type: ignore[misc]
    """The network as Lightning wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = build_network()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return SGD."""
        return torch.optim.SGD(self.parameters(), lr=LEARNING_RATE)

    def training_step(self, batch: dict[str, torch.Tensor], number: int) -> torch.Tensor:
        """Return the loss of a batch."""
        return torch.nn.functional.cross_entropy(self.layers(batch["image"]), batch["label"])

    def test_step(self, batch: dict[str, torch.Tensor], number: int) -> torch.Tensor:
        """Return the loss of the test sample."""
        return self.training_step(batch, number)


def node_data(options: Options, peer: int) -> P2PFLDataset:
    """Return all samples as training data, and one as test data."""
    images, labels = read_samples(options, peer)
    samples = {"image": images.numpy(), "label": labels.numpy()}
    one = {name: values[:1] for name, values in samples.items()}
    parts = {"train": samples, "test": one}
    data = {name: Dataset.from_dict(part, features=COLUMNS) for name, part in parts.items()}
    return P2PFLDataset(DatasetDict(data), batch_size=BATCH_SIZE)


def start_nodes(options: Options) -> list[Node]:
    """Return connected nodes: one has all others as neighbours."""
    nodes = []
    for peer in range(options.peers):
        node = Node(
            LightningModel(Network()),
            node_data(options, peer),
            addr=f"node-{peer}",
            protocol=MemoryCommunicationProtocol(),
        )
        node.start()
        nodes.append(node)
    matrix = TopologyFactory.generate_matrix(TopologyType.STAR, options.peers)
    TopologyFactory.connect_nodes(matrix, nodes)
    wait_convergence(nodes, options.peers - 1, wait=LONGEST_WAIT)
    return nodes


def wait_for_round(nodes: list[Node], number: int) -> None:
    """Wait until all nodes have finished a round."""
    while not all(
        node.learning_workflow.finished or (node.state.round or 0) >= number for node in nodes
    ):
        time.sleep(POLL_SECONDS)


def main() -> None:
    """Train in all nodes, and count the rounds."""
    options = parse_options()
    meter = Meter(options, "p2pfl")
    Settings.set_from_dict(SETTINGS)
    logger.set_level("ERROR")
    nodes = start_nodes(options)
    rounds = 1 + options.rounds
    nodes[0].set_start_learning(rounds=rounds, epochs=1, trainset_size=options.peers)
    for number in range(1, rounds + 1):
        wait_for_round(nodes, number)
        meter.finish_round()
    meter.report()
    for node in nodes:
        node.stop()


if __name__ == "__main__":
    main()
