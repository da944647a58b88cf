"""Flower: its simulation engine with FedAvg, evaluation off. It has no mode without a server.

The server averages the models of all clients, so no client merges with a single other one. Clients
exist while they train, in one of two processes of Ray, and read their data each time.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch.utils.data import DataLoader, TensorDataset
from work import (
    BATCH_SIZE,
    CORES,
    LEARNING_RATE,
    NUM_SAMPLES,
    Meter,
    build_network,
    parse_options,
    read_samples,
)

options = parse_options()
meter = Meter(options, "flwr")
client_app = ClientApp()
server_app = ServerApp()


@client_app.train()  # type: ignore[untyped-decorator]
def train(message: Message, context: Context) -> Message:
    """Train the received model for one epoch, as in the example for PyTorch."""
    torch.set_num_threads(1)
    model = build_network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    samples = read_samples(options, int(context.node_config["partition-id"]))
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    model.train()
    for images, labels in DataLoader(TensorDataset(*samples), batch_size=BATCH_SIZE, shuffle=True):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    content = RecordDict(
        {
            "arrays": ArrayRecord(model.state_dict()),
            "metrics": MetricRecord({"num-examples": NUM_SAMPLES}),
        }
    )
    return Message(content=content, reply_to=message)


def finish_round(number: int, _: ArrayRecord) -> None:
    """Tell the meter of a round; Flower also calls this before the first one."""
    if number > 0:
        meter.finish_round()


@server_app.main()  # type: ignore[untyped-decorator]
def serve(grid: Grid, context: Context) -> None:
    """Run all rounds."""
    FedAvg(fraction_train=1.0, fraction_evaluate=0.0).start(
        grid=grid,
        initial_arrays=ArrayRecord(build_network().state_dict()),
        train_config=ConfigRecord(),
        num_rounds=1 + options.rounds,
        evaluate_fn=finish_round,
    )


def main() -> None:
    """Simulate with at most one worker per core."""
    # Workers of Ray import this folder's modules.
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    run_simulation(
        server_app=server_app,
        client_app=client_app,
        num_supernodes=options.peers,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"address": "local", "num_cpus": CORES},
        },
    )
    meter.report()


if __name__ == "__main__":
    main()
