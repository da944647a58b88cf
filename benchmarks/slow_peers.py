"""What slow peers cost the others: python benchmarks/slow_peers.py [--quick] [--save].

Honest peers are real processes on the digits, each at its own pace, with the default deadlines.
Hostile peers are real servers with trusted keys. They answer short calls at once, and then:

  drip       send one byte of a model per second
  silent     never answer what model they offer
  hang-up    send half a model, then end the connection, each time
  busy       answer each time that they are busy
  sometimes  are silent every second time, which keeps failures from coming in a row
  late       answer every question about models after 5 s

Clean and attacked runs alternate. In a clean run the same servers answer as they should. Counted
are the rounds of all honest peers per minute, after the first minute. `--quick` measures everything
once, for half a minute. `--save` adds to what was kept today, so that parts can be measured one by
one: `--quick --peers 4 --kinds drip`.

The bar: with one hostile peer among 4 and with 3 among 8, less than 20% fewer rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, cast

import grpc
import numpy as np
import yaml
from keeping import RESULTS, show

from coterie.benchmarking.machine import describe_machine
from coterie.experiments.config import make_scenario
from coterie.experiments.presets import find_preset
from coterie.models.architectures import architecture
from coterie.models.layout import Layout
from coterie.peer.discovery.address_book import AddressBook
from coterie.peer.model_scoring import ModelScorer
from coterie.peer.peer_run import PeerStatus, read_status
from coterie.peer.refusals import Reason, Refused
from coterie.peer.security.identity import load_identity
from coterie.peer.security.trust import TrustStore
from coterie.peer.service import PeerService
from coterie.peer.transport.context import PeerContext
from coterie.peer.transport.handlers import Handlers, Write
from coterie.peer.transport.peer_client import PeerClient
from coterie.peer.transport.peer_server import PeerServer
from coterie.peer.types import PeerKey
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.model import Model, Part
from coterie.swarm import peer_processes
from coterie.swarm.peer_folders import create_peer_folders

NAME = "slow-peers"
CLEAN = "clean"
BARRED = ("drip", "silent", "hang-up", "busy")
KINDS = (*BARRED, "sometimes", "late")
SIZES = {4: 1, 8: 3}
"""Hostile peers, by how many there are in all."""
BAR = 0.8
LATE_SECONDS = 5.0
EVERY_SECONDS = 1.0
"""A round begins so long after the one before at the earliest: what counts is waiting, not work."""
LONG_SECONDS = 3600.0
BEGIN_SECONDS = 180.0


class SlowHandlers(Handlers):
    """Answers as peers do, but for models."""

    kind = CLEAN

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._num_asked: Counter[PeerKey] = Counter()

    async def get_manifest(
        self, peer_id: PeerKey, message: wire.ManifestRequest, seconds: float
    ) -> wire.Manifest:
        """Say what can be pulled, or not."""
        self._num_asked[peer_id] += 1
        if self.kind == "busy":
            raise Refused(Reason.BUSY, "always")
        if self.kind == "silent" or (self.kind == "sometimes" and self._num_asked[peer_id] % 2):
            await asyncio.sleep(LONG_SECONDS)
        if self.kind == "late":
            await asyncio.sleep(LATE_SECONDS)
        return await super().get_manifest(peer_id, message, seconds)

    async def pull_model(self, peer_id: PeerKey, message: wire.PullRequest, write: Write) -> None:
        """Send a model, or byte after byte."""
        if self.kind != "drip":
            await super().pull_model(peer_id, message, write)
            return
        for offset, data in self._context.payload_cache.payload(message.digest).chunks(
            message.offset, 1
        ):
            await write(wire.Chunk(offset=offset, data=data).SerializeToString())
            await asyncio.sleep(1)


class SlowServer(PeerServer):
    """Ends connections half-way, when it is to hang up."""

    kind = CLEAN

    async def _answer_pull(self, data: bytes, context: Any) -> None:
        if self.kind != "hang-up":
            await super()._answer_pull(data, context)
            return
        request = wire.PullRequest.FromString(data)
        payload = self._context.payload_cache.payload(request.digest)
        half = max((payload.size - request.offset) // 2, 1)
        offset, piece = next(iter(payload.chunks(request.offset, half)))
        await context.write(wire.Chunk(offset=offset, data=piece).SerializeToString())
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the connection was reset")


@contextlib.asynccontextmanager
async def hostile(folder: Path, kind: str) -> AsyncIterator[None]:
    """Run a hostile peer on this event loop."""
    settings = yaml.safe_load((folder / "peer.yaml").read_text())
    identity, trust = load_identity(folder), TrustStore(folder)
    layout = Layout.of(architecture("digits-cnn").build(10))
    context = PeerContext(identity, trust, AddressBook(identity, trust), layout)
    scorer = cast(ModelScorer, None)  # nothing is scored
    service = PeerService(
        scorer, answers_scores=False, receives_models=True, receives_reports=True, largest_inbox=9
    )
    client = PeerClient(context)
    server = SlowServer(context, service, client)
    server.kind = kind
    server._handlers = SlowHandlers(context, service, client, server._limits)
    server._handlers.kind = kind
    weights = np.full(layout.size, 0.01, np.float32)
    await service.publish(0, 24, Model({Part.MODEL: weights}))
    context.address_book.announce(await server.start(settings["listen"]))
    try:
        yield
    finally:
        await server.stop()
        await client.close()


def folders_of(place: Path, count: int, strategy: str, every_seconds: float) -> list[Path]:
    """Return the folders of peers that each have their own pace, and go on until stopped."""
    changes = {
        "peers.count": count,
        "rounds": 1,
        "training.epochs": 1,
        "peers.train_size": 16,
        "shift.angles": [0, 90],
    }
    (config,) = find_preset("digits").runs([strategy], range(1), changes)
    folders = create_peer_folders(place, config, make_scenario(config), {}, aligned=False)[:count]
    for folder in folders:
        path = folder / "peer.yaml"
        own: dict[str, Any] = {"rounds": None, "roster": [], "every_seconds": every_seconds}
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | own))
    return folders


async def rounds_per_minute(count: int, kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return how many rounds honest peers do per minute after the first, on average."""
    with tempfile.TemporaryDirectory() as place:
        folders = folders_of(Path(place), count, options.strategy, options.every)
        num_hostile = SIZES[count]
        honest = folders[num_hostile:]
        async with contextlib.AsyncExitStack() as stack:
            for folder in folders[:num_hostile]:
                await stack.enter_async_context(hostile(folder, kind))
            running = [peer_processes.start(folder) for folder in honest]
            try:
                await _begun(honest)
                begin = _rounds(honest)
                await asyncio.sleep(options.first)
                after_first = _rounds(honest)
                begun_at = time.monotonic()
                await asyncio.sleep(options.seconds)
                minutes = (time.monotonic() - begun_at) / 60
                end = _rounds(honest)
            finally:
                await asyncio.to_thread(_end, running)
    first = [b - a for a, b in zip(begin, after_first, strict=True)]
    later = [b - a for a, b in zip(after_first, end, strict=True)]
    return {
        "first_minute": round(statistics.mean(first) / options.first * 60, 1),
        "later": round(statistics.mean(later) / minutes, 1),
        "slowest_peer": round(min(later) / minutes, 1),
    }


async def _begun(folders: Sequence[Path]) -> None:
    until = time.monotonic() + BEGIN_SECONDS
    while min(_rounds(folders)) < 0:
        if time.monotonic() > until:
            said = [peer_processes.last_error(folder) for folder in folders]
            raise TimeoutError(f"Some peers do not begin. What they said last: {said}")
        await asyncio.sleep(0.1)


def _rounds(folders: Sequence[Path]) -> list[int]:
    unknown = PeerStatus("", "", 0)
    return [(read_status(folder) or unknown).round for folder in folders]


def _end(running: Sequence[BaseProcess]) -> None:
    for process in running:
        process.kill()
    for process in running:
        process.join()


def compared(clean: Sequence[dict[str, Any]], attacked: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of attacked runs, and their ratio to clean ones."""
    usual = statistics.mean(each["later"] for each in clean)
    ratios = [each["later"] / usual for each in attacked]
    return {
        "rounds_per_minute": [each["later"] for each in attacked],
        "rounds_per_minute_clean": [each["later"] for each in clean],
        "rounds_in_the_first_minute": [each["first_minute"] for each in attacked],
        "slowest_peer": min(each["slowest_peer"] for each in attacked),
        "load": round(os.getloadavg()[0], 1),
        "ratio": round(statistics.mean(ratios), 3),
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of all kinds and sizes, clean and attacked runs in turn."""
    results: dict[str, Any] = {}
    for count in options.peers:
        for kind in options.kinds:
            clean, attacked = [], []
            for _ in range(options.times):
                clean.append(asyncio.run(rounds_per_minute(count, CLEAN, options)))
                attacked.append(asyncio.run(rounds_per_minute(count, kind, options)))
            name = f"{kind}, {SIZES[count]} of {count}"
            seconds = {"seconds_before": options.first, "seconds_counted": options.seconds}
            results[name] = compared(clean, attacked) | seconds
            print(f"{name}: {results[name]}", flush=True)
    return results


def kept_today() -> dict[str, Any]:
    """Return the results that were measured on the same day."""
    path = RESULTS / f"{describe_machine()['date']}-{NAME}.json"
    return dict(json.loads(path.read_text())["results"]) if path.exists() else {}


def main() -> None:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="once each, and half a minute each")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--peers", nargs="+", type=int, choices=sorted(SIZES), default=list(SIZES))
    parser.add_argument("--strategy", default="random")
    parser.add_argument("--every", type=float, default=EVERY_SECONDS, help="seconds between rounds")
    parser.add_argument("--first", type=float, help="seconds before it counts: 60")
    parser.add_argument("--seconds", type=float, help="seconds that count: 60, or 30 if quick")
    parser.add_argument("--times", type=int, help="repetitions: 3, or 1 if quick")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    logging.getLogger("coterie").addHandler(logging.NullHandler())  # what hostile peers refuse
    options.first = options.first or 60.0
    options.seconds = options.seconds or (30.0 if options.quick else 60.0)
    options.times = options.times or (1 if options.quick else 3)
    results = measure(options)
    if options.save:
        results = kept_today() | results
    barred = [results[name]["ratio"] for name in results if name.split(",")[0] in BARRED]
    figures = describe_machine() | {
        "strategy": options.strategy,
        "seconds_between_rounds": options.every,
        "bar": BAR,
        "is_met": bool(barred) and min(barred) > BAR,
        "results": results,
    }
    show(figures, NAME, save=options.save)


if __name__ == "__main__":
    main()
