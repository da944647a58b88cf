"""One peer as a process: starts everything, runs the rounds in a thread, and shuts down."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from asyncio import FIRST_COMPLETED
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from coterie.errors import ConfigError, Interrupted
from coterie.learning.trainer_choice import Tell
from coterie.models.exchanged_part import ExchangedPart
from coterie.models.shared_builder import SharedBuilder
from coterie.peer.discovery.address_book import AddressBook
from coterie.peer.discovery.discovery import Discovery
from coterie.peer.event_loop_bridge import EventLoopBridge
from coterie.peer.json_log import log_event, write_log
from coterie.peer.model_scoring import ModelScorer
from coterie.peer.network_runtime import NetworkRuntime
from coterie.peer.peer_config import EVERYWHERE, PeerConfig, read_peer_config
from coterie.peer.peer_data import model_builder, read_local_data
from coterie.peer.peer_run import PeerRun
from coterie.peer.prometheus import serve_metrics
from coterie.peer.refusals import RefusalCounts
from coterie.peer.security.identity import Identity, load_identity
from coterie.peer.security.trust import TrustStore
from coterie.peer.service import PeerService
from coterie.peer.stop_request import AT_FIRST, PeerStopRequest
from coterie.peer.transport.context import PeerContext
from coterie.peer.transport.peer_client import PeerClient
from coterie.peer.transport.peer_server import PeerServer
from coterie.peer.wire.model import Phase
from coterie.randomness import Key
from coterie.runtime.check_task import check_task
from coterie.runtime.loop import advance_to_end, resume
from coterie.runtime.round import Round
from coterie.runtime.round_runner import RoundRunner
from coterie.storage.files import lock_folder

STOP_SECONDS = 10.0
"""How long local training may continue after a request to stop."""
GRACE_SECONDS = 1.0
"""How long other peers may finish their transfers when this peer leaves."""
MEET_SECONDS = 0.05
"""Interval for checking whether enough other peers are there."""
_log = logging.getLogger(__name__)


def run_peer(path: Path, tell: Tell, request: PeerStopRequest) -> None:
    """Run the peer of a peer.yaml, or of the folder with it, until it has finished."""
    config = read_peer_config(path)
    folder = path if path.is_dir() else path.parent
    identity = load_identity(folder)
    with lock_folder(folder), write_log(folder):
        asyncio.run(RunningPeer(folder, config, identity, tell, request).run())


class RunningPeer:
    """All parts of one peer, and the order in which they start and end."""

    def __init__(
        self,
        folder: Path,
        config: PeerConfig,
        identity: Identity,
        tell: Tell,
        request: PeerStopRequest,
    ) -> None:
        self._request = request
        self._config = config
        self._identity = identity
        self._tell = tell
        self._data = read_local_data(config, folder)
        build = model_builder(config.model, self._data, folder)
        self._build = SharedBuilder(build, config.seed)
        self._strategy = config.make_strategy()
        check_task(self._data, self._strategy)
        trust = TrustStore(folder)
        others = [peer for peer in config.roster if peer != identity.peer_id]
        self._address_book = AddressBook(identity, trust, others, config.network.breaker)
        self._exchanged = ExchangedPart(
            self._build.layout, has_local_buffers=config.training.has_local_buffers
        )
        self._context = PeerContext(
            identity,
            trust,
            self._address_book,
            self._exchanged.layout,
            config.network,
            frozen_digest=self._build.frozen.digest,
            report_range=self._strategy.report_range,
            table_ranges=self._strategy.table_ranges,
        )
        self._peer_run = PeerRun(folder, self._address_book, config.rounds, self._data.task.score)
        self._stop = threading.Event()

    async def run(self) -> None:
        """Run until all rounds are done or the peer is asked to stop."""
        with self._stoppable() as stopped:
            await self._take_part(stopped)

    async def _take_part(self, stopped: asyncio.Future[None]) -> None:
        scorer = ModelScorer(
            self._data, self._build, self._config.training, self._tell, self._exchanged
        )
        service = PeerService(
            scorer,
            answers_scores=self._strategy.asks_for_scores(),
            receives_models=self._strategy.receives_models,
            receives_reports=self._strategy.receives_reports,
            largest_inbox=self._config.network.limits.inbox_models,
        )
        client = PeerClient(self._context)
        deadlines = self._config.network.deadlines
        synchronous = self._config.synchronous
        bridge = EventLoopBridge(
            client, self._address_book, service, deadlines, synchronous=synchronous
        )
        metrics = serve_metrics(
            self._config.metrics_port, self._context, lambda: self._peer_run.status
        )
        try:
            with metrics, self._make_run(bridge) as run:
                await _in_thread(partial(self._resume, run))
                if stopped.done():
                    self._raise_stopped(run)
                async with self._serving(service, client, bridge) as discovery:
                    await self._advance(run, bridge, discovery, stopped)
        finally:
            await client.close()
            scorer.close()

    def _make_run(self, bridge: EventLoopBridge) -> RoundRunner:
        return RoundRunner(
            self._data,
            self._build,
            self._strategy,
            self._config.simulation_settings(),
            lambda state: NetworkRuntime(
                state,
                self._strategy,
                bridge,
                self._config.every_seconds,
                self._config.network.limits.samples_ratio,
            ),
            keys=[_key(self._config, self._identity)],
            tell=self._tell,
        )

    def _resume(self, run: RoundRunner) -> None:
        resume(run, self._peer_run.recorder, self._peer_run.checkpoints, self._tell)
        if run.next_round > 0:
            self._tell(f"Continuing after round {run.next_round - 1}.")

    @asynccontextmanager
    async def _serving(
        self, service: PeerService, client: PeerClient, bridge: EventLoopBridge
    ) -> AsyncIterator[asyncio.Task[None]]:
        """Answer other peers and search for them inside this context."""
        server = PeerServer(self._context, service, client)
        try:
            bound = await server.start(self._config.listen)
            async with self._discovering(client, bridge, bound) as discovery:
                yield discovery
        finally:
            await server.stop(GRACE_SECONDS)

    @asynccontextmanager
    async def _discovering(
        self, client: PeerClient, bridge: EventLoopBridge, bound: str
    ) -> AsyncIterator[asyncio.Task[None]]:
        """Announce this peer and search for others inside this context; say goodbye at the end."""
        self._address_book.announce(self._config.advertise or advertised_address(bound))
        rng = np.random.default_rng()  # which peers are asked for addresses changes no result
        known = self._config.known
        searching = Discovery(client, self._address_book, known, rng, parts=lambda: bridge.parts)
        discovery = asyncio.create_task(searching.run())
        self._peer_run.update_status(address=self._address_book.my_address)
        self._tell(f"{self._identity.name} listens at {self._address_book.my_address}.")
        log_event(
            _log, "serving", address=self._address_book.my_address, peer=self._identity.peer_id
        )
        try:
            yield discovery
        finally:
            discovery.cancel()
            await asyncio.gather(discovery, return_exceptions=True)
            await client.goodbye()

    async def _advance(
        self,
        run: RoundRunner,
        bridge: EventLoopBridge,
        discovery: asyncio.Task[None],
        stopped: asyncio.Future[None],
    ) -> None:
        """Run the rounds in a thread until they end, or the peer is asked to stop."""
        await self._wait_for_company(discovery, stopped)
        if stopped.done():
            self._raise_stopped(run)
        rounds = _in_thread(partial(self._run_rounds, run))
        await _first_of(rounds, discovery, stopped)
        if rounds.done() and not stopped.done():
            rounds.result()
            self._finish(run)
            await self._linger(bridge, discovery, stopped)
            return
        self._stop.set()
        bridge.stop()
        await asyncio.wait({rounds}, timeout=STOP_SECONDS)
        if not rounds.done():
            _log.warning("local training did not end in time and is abandoned")
        elif not isinstance(rounds.exception(), Interrupted):
            rounds.result()
        if discovery.done():
            self._note_stopped(run)
            discovery.result()
        self._raise_stopped(run)

    def _run_rounds(self, run: RoundRunner) -> None:
        advance_to_end(
            run,
            self._peer_run.recorder,
            self._peer_run.checkpoints,
            on_round=self._note,
            tell=self._tell,
            asked_to_stop=self._stop.is_set,
            records_in_checkpoints=True,
        )

    def _note(self, now: Round) -> None:
        self._peer_run.record_round(
            now,
            num_known=len(self._address_book.reachable()),
            refused=_by_reason(self._context.refused),
            failures=_by_reason(self._context.failures),
        )
        status = self._peer_run.status
        log_event(
            _log,
            "round",
            round=now.number,
            validation_score=status.validation_score,
            validation_loss=status.validation_loss,
            num_known=status.num_known,
            num_fetched=status.num_fetched,
        )

    def _finish(self, run: RoundRunner) -> None:
        self._peer_run.keep_models(run)
        self._peer_run.update_status(state="finished")

    async def _wait_for_company(
        self, discovery: asyncio.Task[None], stopped: asyncio.Future[None]
    ) -> None:
        """Wait for enough other peers, up to the deadline of a round."""
        wanted = max(len(self._config.roster) - 1, 0) or self._config.begin_with
        deadline = time.monotonic() + self._config.network.deadlines.round_seconds
        while len(self._address_book.reachable()) < wanted and not (
            stopped.done() or discovery.done()
        ):
            if time.monotonic() > deadline:
                here = len(self._address_book.reachable())
                self._tell(f"Starting with {here} other peers instead of {wanted}.")
                return
            await asyncio.sleep(MEET_SECONDS)

    async def _linger(
        self,
        bridge: EventLoopBridge,
        discovery: asyncio.Task[None],
        stopped: asyncio.Future[None],
    ) -> None:
        """Offer the last model until the other peers are as far."""
        last = self._config.rounds or 0
        waiting = asyncio.create_task(
            bridge.wait_until_reached(last, Phase.PUBLISHED, self._config.linger_seconds)
        )
        await _first_of(waiting, discovery, stopped)
        waiting.cancel()

    @contextmanager
    def _stoppable(self) -> Iterator[asyncio.Future[None]]:
        """Yield a future that is done when the process is asked to stop."""
        loop = asyncio.get_running_loop()
        stopped: asyncio.Future[None] = loop.create_future()

        def stop() -> None:
            if not stopped.done():
                stopped.set_result(None)
                with suppress(OSError):  # the terminal may be closed
                    self._tell("Stopping. Press Ctrl-C again to quit immediately.")

        def wake() -> None:
            loop.call_soon_threadsafe(stop)

        with self._request.answered_by(wake):
            yield stopped

    def _note_stopped(self, run: RoundRunner) -> None:
        self._peer_run.update_status(state="stopped")
        log_event(_log, "stopped", round=run.next_round - 1)

    def _raise_stopped(self, run: RoundRunner) -> NoReturn:
        """Raise what was saved; the process adds how to continue."""
        self._note_stopped(run)
        if run.next_round == 0:
            raise Interrupted(AT_FIRST)
        raise Interrupted(f"Stopped after round {run.next_round - 1}, which is saved.")


def advertised_address(bound: str) -> str:
    """Return the address for others; a peer that listens everywhere is found by its host name."""
    host, _, port = bound.rpartition(":")
    return f"{socket.gethostname()}:{port}" if host in EVERYWHERE else bound


def _key(config: PeerConfig, identity: Identity) -> Key:
    """Return the key of all draws: the position in the roster, or the id if there is no roster."""
    if not config.roster:
        return identity.peer_id
    if identity.peer_id not in config.roster:
        raise ConfigError(
            "The roster in peer.yaml does not list this peer's own id. Add it: coterie peer id"
        )
    return config.roster.index(identity.peer_id)


def _by_reason(rejections: RefusalCounts) -> dict[str, int]:
    return {reason.value: count for reason, count in rejections.total().items()}


async def _first_of(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=FIRST_COMPLETED)


def _in_thread(work: Callable[[], None]) -> asyncio.Future[None]:
    """Run a function in a thread that does not keep the process alive."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def set_result(error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:  # any exception is passed on to the caller
            error = raised
        with suppress(RuntimeError):  # the loop may be closed already
            loop.call_soon_threadsafe(set_result, error)

    threading.Thread(target=run, name="rounds", daemon=True).start()
    return done
