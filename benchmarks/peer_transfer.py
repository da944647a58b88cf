"""How fast a model travels between two real peers: python benchmarks/peer_transfer.py [--save].

Two processes on the loopback, with mutual TLS and all checks of what arrives: layout, SHA-256,
finite weights, norm. One pulls the other's model of 45 MB several times; best and median count.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from keeping import show
from torch import nn

from coterie.benchmarking.machine import describe_machine
from coterie.models.layout import Layout
from coterie.peer.discovery.address_book import AddressBook
from coterie.peer.refusals import Refused
from coterie.peer.security.identity import create_identity, load_identity
from coterie.peer.security.trust import TrustStore
from coterie.peer.transport.context import PeerContext
from coterie.peer.transport.peer_client import PeerClient
from coterie.peer.transport.peer_server import PeerServer
from coterie.peer.transport.service_interface import PublishedModel, PulledModel, ServiceInterface
from coterie.peer.transport_settings import TransportSettings
from coterie.peer.wire.model import Model, Part, Phase, Vector
from coterie.randomness import generator

WIDTH = 3354
"""Of the layer that is sent: 45 MB."""


def main() -> None:
    """Start the other peer, pull its model, and print, and keep, the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--compression", choices=["none", "zstd"], default="none")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.serve, settings(options)))
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("north", "south"):
            create_identity(folder / name, name)
            (folder / name / "trusted").mkdir()
        for mine, others in (("north", "south"), ("south", "north")):
            TrustStore(folder / mine).add((folder / others / "certificate.pem").read_bytes())
        command = [sys.executable, __file__, "--serve", str(folder / "south")]
        command += ["--precision", options.precision, "--compression", options.compression]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as server:
            address = (server.stdout.readline() if server.stdout else b"").decode().strip()
            pulled = asyncio.run(pull(folder / "north", address, options))
            server.communicate(b"\n")
    report(pulled, options)


def report(pulled: list[PulledModel], options: argparse.Namespace) -> None:
    """Print what was measured."""
    speeds = [each.num_bytes / each.seconds / 1e6 for each in pulled]
    figures: dict[str, Any] = describe_machine() | {
        "precision": options.precision,
        "compression": options.compression,
        "megabytes": round(pulled[0].num_bytes / 1e6, 1),
        "megabytes_per_second": [round(speed) for speed in speeds],
        "best": round(max(speeds)),
        "median": round(statistics.median(speeds)),
    }
    show(figures, "peer-transfer", save=options.save)


def settings(options: argparse.Namespace) -> TransportSettings:
    """Return how models travel."""
    return TransportSettings(precision=options.precision, compression=options.compression)


def context(folder: Path, transport: TransportSettings) -> PeerContext:
    """Return the peer of a folder."""
    identity, trust = load_identity(folder), TrustStore(folder)
    layout = Layout.of(nn.Linear(WIDTH, WIDTH))
    return PeerContext(identity, trust, AddressBook(identity, trust), layout, transport)


async def pull(folder: Path, address: str, options: argparse.Namespace) -> list[PulledModel]:
    """Pull the model several times, after a first time that does not count."""
    mine = context(folder, settings(options))
    mine.address_book.announce("127.0.0.1:1")  # nobody will ask here
    client = PeerClient(mine)
    try:
        other = await client.identify(address)
        if other is None:
            raise SystemExit("The other process is this one.")
        await client.fetch(other)
        return [
            replace(await client.fetch(other), model=Model({}))  # as one who merges and forgets
            for _ in range(options.repeats)
        ]
    except Refused as refused:
        raise SystemExit(str(refused)) from None
    finally:
        await client.close()


async def serve(folder: Path, transport: TransportSettings) -> None:
    """Offer a model until a line comes in."""
    mine = context(folder, transport)
    client = PeerClient(mine)
    server = PeerServer(mine, OneModel(mine.layout), client)
    address = await server.start("127.0.0.1:0")
    mine.address_book.announce(address)
    print(address, flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await server.stop()
    await client.close()


class OneModel(ServiceInterface):
    """A runtime that only offers a model."""

    def __init__(self, layout: Layout) -> None:
        weights = generator(0, "weights").normal(size=layout.size).astype(np.float32)
        self._offered = PublishedModel(0, 1, time.monotonic(), Model({Part.MODEL: weights}))

    async def get_published(
        self, round_number: int | None, wait_seconds: float
    ) -> PublishedModel | None:
        """Return the model."""
        return self._offered

    async def wait_for_phase(
        self, round_number: int, phase: Phase, wait_seconds: float
    ) -> tuple[int, Phase, int | None]:
        """Return that the model is there."""
        return 0, Phase.PUBLISHED, 0

    async def score(self, model: Vector, metric: str, round_number: int | None) -> float:
        """Measure nothing."""
        return float("nan")

    @property
    def metrics(self) -> frozenset[str]:
        """Return that nothing is measured."""
        return frozenset()

    @property
    def receives_models(self) -> bool:
        """Return that nothing is taken."""
        return False

    async def store_pushed(self, pulled: PulledModel) -> None:
        """Take nothing."""

    @property
    def receives_reports(self) -> bool:
        """Return that nobody is heard."""
        return False

    async def store_report(self, peer_id: str, value: float, round_number: int) -> None:
        """Hear nothing."""


if __name__ == "__main__":
    main()
