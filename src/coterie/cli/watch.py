"""`coterie watch`: follow a run live, in a browser or on a terminal; also `run --watch`."""

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
"""The longest time that the process of the page may take to end after the run."""
OpenBrowser = Annotated[bool, typer.Option("--open", help="Open a browser.")]
Watch = Annotated[bool, typer.Option("--watch", help="Show the run live, on a local web page.")]


def watch(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="The output folder of `coterie run`, or one run.")
    ],
    terminal: Annotated[
        bool, typer.Option("--terminal", help="Show it in this terminal instead of a browser.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port of the page; 0: any free port.")
    ] = 0,
    open_browser: OpenBrowser = False,
) -> None:
    """Follow a run live: its progress, the accuracy of the peers, and their exchanges."""
    from coterie.reports.live.local_server import open_port, page_address, serve
    from coterie.reports.live.progress_text import describe_missing_folder
    from coterie.reports.live.run_follower import RunFollower
    from coterie.reports.live.terminal_view import show_in_terminal
    from coterie.results.read_runs import output_folders

    if inside := output_folders(folder):
        # More may follow, such as in a study, so the progress of all is unknown.
        raise ConfigError(
            f"{folder} has several output folders, but only one can be watched at a time. Choose "
            f"one of: {', '.join(map(str, inside))}."
        )
    if terminal:
        show_in_terminal(RunFollower(folder), console.out)
        return
    listening = open_port(port)

    def begin() -> None:
        # Only now, when Ctrl-C works: readers of the address may want to stop at once.
        console.print_message(f"Watch {folder} at {page_address(listening)}")
        if not folder.exists():
            console.print_message(describe_missing_folder(folder))
        console.print_message("Press Ctrl-C to stop watching. The run continues.")
        if open_browser:
            webbrowser.open(page_address(listening))

    serve(folder, listening, begin)


@contextmanager
def show_live(folder: Path, wanted: bool) -> Iterator[None]:
    """Show a folder live from another process in the meantime, if wanted."""
    if not wanted:
        yield
        return
    from coterie.learning.parallel_trainer import can_fork
    from coterie.reports.live.local_server import open_port, page_address

    if not can_fork():
        raise ConfigError(
            "--watch does not work on this system. Watch from a second terminal instead: "
            f"coterie watch {folder}"
        )
    listening = open_port()
    child = _start(folder, listening)
    console.print_message(f"Watch {folder} at {page_address(listening)}")
    listening.close()
    try:
        yield
    finally:
        _end(child)


def _start(folder: Path, listening: socket.socket) -> int:
    """Fork the process that serves the page; it ends with this one."""
    # Forked before there are threads. Without multiprocessing, so that its time is not the run's.
    parent = os.getpid()
    with hold_signals():
        child = os.fork()
        if child == 0:
            _serve(folder, listening, parent)
    return child


def _serve(folder: Path, listening: socket.socket, parent: int) -> NoReturn:
    """Serve the page in the forked process."""
    try:
        from coterie.reports.live.local_server import serve

        become_worker(parent, sigterm_from="all")
        serve(folder, listening)
    finally:
        os._exit(0)


def _end(child: int) -> None:
    """Let the process send its last update and end."""
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(child, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.02)
