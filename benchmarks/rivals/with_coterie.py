"""Coterie: the strategy Random with one fetch per round, compiled training.

Validation and test data cannot be left out, so each peer has one sample of each. Rounds include
the validation of every model, before and after training, and all records of a run.
"""

from __future__ import annotations

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

import coterie


def peer_data(options: Options, peer: int) -> coterie.PeerData:
    """Return all samples as training data, and one for validation and test."""
    images, labels = read_samples(options, peer)
    one = images[:1], labels[:1]
    return coterie.PeerData((images, labels), one, one)


def main() -> None:
    """Simulate; round 0 is the initial training."""
    options = parse_options()
    meter = Meter(options, "coterie")
    coterie.simulate(
        build_network,
        (peer_data(options, peer) for peer in range(options.peers)),
        {"name": "random", "fetches": 1},
        {
            "rounds": options.rounds,
            "test_every": options.rounds,
            "training": {
                "optimizer": "sgd",
                "learning_rate": LEARNING_RATE,
                "batch_size": BATCH_SIZE,
                "epochs": 1,
            },
        },
        threads=CORES,
        on_round=lambda _: meter.finish_round(),
    )
    meter.report()


if __name__ == "__main__":
    main()
