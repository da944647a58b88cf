"""Serves the live page to this computer only, until SIGINT or SIGTERM."""

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
from coterie.reports.live.broadcaster import Broadcaster
from coterie.reports.live.page_updates import PageUpdates
from coterie.reports.live.run_follower import RunFollower
from coterie.reports.live.web_app import make_app

LOCALHOST = "127.0.0.1"
NICENESS = 5
"""The live view has a lower priority than the run."""
SHUTDOWN_SECONDS = 2
"""Time for viewers to receive the last updates."""


def open_port(port: int = 0) -> socket.socket:
    """Return a socket that listens on this computer only; port 0 means any free port."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOCALHOST, port))
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"Cannot listen on port {port}: {error.strerror}. Choose another port with --port, or "
            "omit --port to use any free port."
        ) from None
    listening.listen()
    return listening


def page_address(listening: socket.socket) -> str:
    """Return the address of the live page."""
    return f"http://{LOCALHOST}:{listening.getsockname()[1]}/"


def serve(
    folder: Path, listening: socket.socket, on_ready: Callable[[], None] = lambda: None
) -> None:
    """Serve the live page of a folder until SIGINT or SIGTERM.

    `on_ready` is called when connections are accepted and these signals stop the server cleanly.
    """
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    asyncio.run(_serve(folder, listening, on_ready))


async def _serve(folder: Path, listening: socket.socket, on_ready: Callable[[], None]) -> None:
    broadcaster = Broadcaster(PageUpdates(RunFollower(folder)))
    config = uvicorn.Config(
        make_app(broadcaster),
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    server = _Server(config)
    stop_requested = asyncio.Event()

    async def finish() -> None:
        await stop_requested.wait()
        await broadcaster.finish()
        server.should_exit = True

    with _call_on_signal(asyncio.get_running_loop(), stop_requested.set):
        ending = asyncio.create_task(finish())
        on_ready()
        await server.serve([listening])
        ending.cancel()


class _Server(uvicorn.Server):
    """A server that leaves signals to its caller."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def _call_on_signal(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> Iterator[None]:
    """Call a function in the loop on SIGINT and SIGTERM; an ignored signal stays ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread only
        return

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(call)

    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in previous.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
