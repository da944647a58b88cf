"""Serves the live view on this computer only, until it is asked to stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import uvicorn

from coterie.errors import ConfigError
from coterie.reports.live.follower import Follower
from coterie.reports.live.hub import Hub
from coterie.reports.live.page_updates import Teller
from coterie.reports.live.web_app import make_app

LOCALHOST = "127.0.0.1"
NICENESS = 5
"""Watching takes what the run leaves: the moments in which its workers wait for each other."""
GOODBYE_SECONDS = 2
"""How long viewers have to take in the last that is told to them."""


def open_port(port: int = 0) -> socket.socket:
    """Return a socket that listens on this computer only; port 0: any that is free."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOCALHOST, port))
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"Cannot listen on port {port}: {error.strerror}. Choose another with --port, or leave "
            "it out to take one that is free."
        ) from None
    listening.listen()
    return listening


def address(listening: socket.socket) -> str:
    """Return where to look."""
    return f"http://{LOCALHOST}:{listening.getsockname()[1]}/"


def serve(
    folder: Path, listening: socket.socket, on_ready: Callable[[], None] = lambda: None
) -> None:
    """Show what is in a folder to whoever asks, until SIGINT or SIGTERM.

    It is ready as soon as those signals end it properly and whoever connects is answered.
    """
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    asyncio.run(_serve(folder, listening, on_ready))


async def _serve(folder: Path, listening: socket.socket, on_ready: Callable[[], None]) -> None:
    hub = Hub(Teller(Follower(folder)))
    config = uvicorn.Config(
        make_app(hub),
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=GOODBYE_SECONDS,
    )
    server = _Server(config)
    asked_to_stop = asyncio.Event()

    async def stop() -> None:
        await asked_to_stop.wait()
        await hub.finish()
        server.should_exit = True

    with _on_signal(asyncio.get_running_loop(), asked_to_stop.set):
        ending = asyncio.create_task(stop())
        on_ready()
        await server.serve([listening])
        ending.cancel()


class _Server(uvicorn.Server):
    """A server whose signals are answered by whoever runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def _on_signal(loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> Iterator[None]:
    """Act on Ctrl-C and SIGTERM, within the loop; a SIGINT that is ignored stays so."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread only
        return

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(act)

    previous = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)}
    for kind, handler in previous.items():
        if handler != signal.SIG_IGN:
            signal.signal(kind, handle)
    try:
        yield
    finally:
        for kind, handler in previous.items():
            signal.signal(kind, handler)
