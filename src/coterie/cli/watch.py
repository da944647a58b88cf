"""`coterie watch`: follow a run live, in a browser or on a terminal; and `run --watch`."""

from __future__ import annotations

import os
import signal
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from coterie.cli import console
from coterie.errors import ConfigError
from coterie.processes.worker_process import become_worker, hold_signals

if TYPE_CHECKING:
    import socket

STOP_SECONDS = 30.0
"""How long the process that shows a run may take to end after it, on a busy computer."""
OpenBrowser = Annotated[bool, typer.Option("--open", help="Open a browser.")]
Watch = Annotated[
    bool, typer.Option("--watch", help="Show the run live, on a page of this computer.")
]


def watch(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="The output folder of `coterie run`, or one run.")
    ],
    terminal: Annotated[
        bool, typer.Option("--terminal", help="Show it here instead of in a browser.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port of the page; 0: any that is free.")
    ] = 0,
    open_browser: OpenBrowser = False,
) -> None:
    """Follow a run live: how far it is, how well peers do, who learns from whom."""
    from coterie.reports.live.local_server import open_port, serve
    from coterie.reports.live.progress_text import describe_missing_folder
    from coterie.reports.live.run_follower import RunFollower
    from coterie.reports.live.terminal_view import show_in_terminal
    from coterie.results.read_runs import output_folders

    if inside := output_folders(folder):
        # More may follow, such as in a study, so nobody could say how far all of it is.
        raise ConfigError(
            f"{folder} holds several output folders, which are watched one by one: "
            f"{', '.join(map(str, inside))}."
        )
    if terminal:
        show_in_terminal(RunFollower(folder), console.out)
        return
    listening = open_port(port)

    def begin() -> None:
        # Not before Ctrl-C is answered: who reads the address may already wish to stop.
        _say_where(folder, listening)
        if not folder.exists():
            words = describe_missing_folder(folder)
            console.errors.print(words, soft_wrap=True, highlight=False, markup=False)
        console.errors.print("Press Ctrl-C to stop watching; the run goes on.", highlight=False)
        if open_browser:
            _show(listening)

    serve(folder, listening, begin)


@contextmanager
def watched(folder: Path, wanted: bool) -> Iterator[None]:
    """Show what happens in a folder meanwhile, if wanted, by a process of its own."""
    if not wanted:
        yield
        return
    from coterie.learning.parallel_trainer import can_fork
    from coterie.reports.live.local_server import open_port

    if not can_fork():
        raise ConfigError(
            "--watch: this system cannot do it from within a run. Watch from a second terminal "
            f"instead: coterie watch {folder}"
        )
    listening = open_port()
    child = _start(folder, listening)
    _say_where(folder, listening)
    listening.close()
    try:
        yield
    finally:
        _end(child)


def _start(folder: Path, listening: socket.socket) -> int:
    """Fork the process that serves; it ends with this one."""
    # Forked before there are threads. Not one of multiprocessing: its time is not the run's.
    parent = os.getpid()
    with hold_signals():
        child = os.fork()
        if child == 0:
            _serve(folder, listening, parent)
    return child


def _serve(folder: Path, listening: socket.socket, parent: int) -> NoReturn:
    """Serve in a process of its own until the end."""
    try:
        from coterie.reports.live.local_server import serve

        become_worker(parent, sigterm_from="all")
        serve(folder, listening)
    finally:
        os._exit(0)


def _end(child: int) -> None:
    """Let the process tell its viewers the last and end."""
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(child, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.02)


def _say_where(folder: Path, listening: socket.socket) -> None:
    from coterie.reports.live.local_server import page_address

    where = f"Watch {folder} at {page_address(listening)}"
    console.errors.print(where, soft_wrap=True, highlight=False, markup=False)


def _show(listening: socket.socket) -> None:
    from coterie.reports.live.local_server import page_address

    webbrowser.open(page_address(listening))
