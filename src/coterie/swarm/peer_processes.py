"""Peers as processes of this computer, forked from a server that has loaded all they need."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType

from coterie.errors import CoterieError, Interrupted
from coterie.storage.files import explain_errors

LOG = "output.log"
ERROR = "Error: "
"""Prefix of the message of a peer that ended with an error."""
LAST_BYTES = 10_000
PRELOADED = "coterie.swarm.preload"


def start(folder: Path) -> BaseProcess:
    """Start the peer of a folder; it ends with this process at the latest."""
    process = _context().Process(target=_run, args=(str(folder),), daemon=True)  # type: ignore[attr-defined]
    with _without_main(), _terminal_kept_away():
        process.start()
    return process  # type: ignore[no-any-return]


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide the main module: peers do not need it, yet each would load it again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _terminal_kept_away() -> Iterator[None]:
    """Start processes inside this context that ignore Ctrl-C and a closed terminal.

    These signals go to the whole process group, and the server that forks peers would die of them
    while it loads. The new processes inherit the block; this process handles the signals later.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        resource_tracker.ensure_running()  # not later: starting it unblocks SIGINT
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def last_error(folder: Path) -> str:
    """Return the error that ended the peer of a folder, or the last line of its output."""
    with explain_errors(f"read the output of the peer in {folder}"):
        text = (folder / LOG).read_bytes()[-LAST_BYTES:].decode(errors="replace").strip()
    *_, error = f"\n{text}".rpartition(f"\n{ERROR}")
    return error if ERROR in text else text.rpartition("\n")[2]


def _context() -> BaseContext:
    """Return the start method: 64 peers that each load torch would take minutes."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOADED])
    return context


def _run(folder: str) -> None:
    """Run a peer; its output goes to a file in its folder."""
    # Ignored whatever started this process: the process that started the peers ends them.
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    log = os.open(Path(folder) / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(log, stream)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from coterie.peer.stop_request import stoppable

    def tell(message: str) -> None:
        print(message, flush=True)

    code = 0
    try:
        with stoppable(Path(folder), tell) as request:
            with request.loading():
                from coterie.peer.process import run_peer

            run_peer(Path(folder), tell, request)
    except (CoterieError, Interrupted) as error:
        print(f"{ERROR}{error}", flush=True)
        code = error.exit_code
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    os._exit(code)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
