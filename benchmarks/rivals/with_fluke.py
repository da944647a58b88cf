"""fluke: its decentralised algorithm GossipDFL, all evaluation off.

Each client sends its model to a random client per round, and merges all models that it has got
since its last turn. A client that has got none does not train, so trainings are counted.
"""

from __future__ import annotations

from typing import Any

import torchvision_on_cpu  # noqa: F401 — before what imports torchvision

# isort: split
from fluke import DDict, FlukeENV
from fluke.algorithms.decentralized import GossipDFL
from fluke.data import DataSplitter, DummyDataContainer, FastDataLoader
from fluke.utils import ClientObserver, FederationObserver
from work import (
    BATCH_SIZE,
    LEARNING_RATE,
    NUM_CLASSES,
    Meter,
    Options,
    build_network,
    parse_options,
    read_samples,
)


class Rounds(ClientObserver, FederationObserver):  # type: ignore[misc]
    """Counts trainings, and tells the meter of the end of rounds."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._trained = 0

    def end_fit(self, *_: Any, **__: Any) -> None:
        """Count a training."""
        self._trained += 1

    def end_round(self, *_: Any, **__: Any) -> None:
        """Pass the number of trainings on."""
        self._meter.finish_round(self._trained)
        self._trained = 0


def client_data(options: Options, peer: int) -> FastDataLoader:
    """Return the loader of a client's training data."""
    return FastDataLoader(
        *read_samples(options, peer), num_labels=NUM_CLASSES, batch_size=BATCH_SIZE, shuffle=True
    )


def main() -> None:
    """Run the algorithm."""
    options = parse_options()
    meter = Meter(options, "fluke-fl")
    FlukeENV().set_seed(0)
    FlukeENV().set_device("cpu")
    FlukeENV().set_eval_cfg(locals=False, pre_fit=False, post_fit=False, server=False)
    loaders = [client_data(options, peer) for peer in range(options.peers)]
    data = DummyDataContainer(loaders, [None] * options.peers, None, NUM_CLASSES)
    algorithm = GossipDFL(
        options.peers,
        DataSplitter(data, distribution="iid"),
        DDict(
            model=build_network(),
            client={
                "batch_size": BATCH_SIZE,
                "local_epochs": 1,
                "loss": "CrossEntropyLoss",
                "optimizer": {"name": "SGD", "lr": LEARNING_RATE},
                "scheduler": {"name": "StepLR", "step_size": 1, "gamma": 1},
                "policy": "aggregate",
            },
        ),
    )
    algorithm.set_callbacks(Rounds(meter))
    algorithm.run(1 + options.rounds)
    meter.report()


if __name__ == "__main__":
    main()
