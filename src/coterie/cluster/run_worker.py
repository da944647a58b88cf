"""The worker on a node of a cluster: it executes one run after another.

A run is executed in a folder of the node's temporary files. All that it writes is collected by the
command, as well as its progress and its messages.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
import threading
import traceback
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from coterie.cluster.run_files import ChangeSender, FileChange
from coterie.cluster.shipping import RunParcel, software_versions
from coterie.data.peer_datasets import PeerDatasets
from coterie.errors import CoterieError, Interrupted, StorageError, TrainingError
from coterie.experiments.config import scenario_key
from coterie.experiments.execution import execute
from coterie.experiments.run_folder import RunFolder
from coterie.runtime.round_metrics import RoundMetrics
from coterie.storage.files import follow_changes, make_folder, write_bytes, write_temporary_files

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from ray import ObjectRef

WAITING_BYTES = 64 * 2**20
"""A run waits while its messages of this size have not been collected."""
MESSAGE_BYTES = 1000
"""The assumed size of a message that is no part of a file."""
GATHER_SECONDS = 0.2
"""How long messages are gathered, because collecting each by itself costs more."""
SCRATCH = "coterie-run-"
"""The folders of temporary files begin with this, and the number of their process."""


@dataclass(frozen=True)
class WorkerNode:
    """Where a worker runs, and with which software."""

    node: str
    versions: dict[str, str]


@dataclass(frozen=True)
class Assignment:
    """A run that a worker executes or continues."""

    folder: Path
    """The folder of the run beside the command."""
    parcel: RunParcel
    files: list[tuple[str, ObjectRef[npt.NDArray[np.uint8]]]]
    """The files that are needed to continue the run; the worker removes what it has written."""
    threads: int
    how_to_continue: str


@dataclass(frozen=True)
class Ended:
    """The last message of a run."""

    error: BaseException | None


@dataclass(frozen=True)
class NodeFailed:
    """The last message of a run that can continue on another node."""

    why: str


Message = RoundMetrics | str | FileChange | Ended | NodeFailed


class Outbox:
    """The messages of a run, until they are collected."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._messages: deque[Message] = deque()
        self._size = 0

    def put(self, message: Message) -> None:
        """Add a message; wait if too much has not been collected yet."""
        with self._changed:
            self._changed.wait_for(lambda: self._size < WAITING_BYTES)
            self._messages.append(message)
            self._size += _size_of(message)
            self._changed.notify_all()

    def take(self, seconds: float) -> list[Message]:
        """Return all messages; wait for the first one, but not longer than `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self._messages, seconds)
            if not self._has_end():
                self._changed.wait_for(self._has_end, GATHER_SECONDS)
            taken = list(self._messages)
            self._messages.clear()
            self._size = 0
            self._changed.notify_all()
            return taken

    def _has_end(self) -> bool:
        return bool(self._messages) and isinstance(self._messages[-1], Ended | NodeFailed)


class RunWorker:
    """A Ray actor that executes runs; its methods are called by `many_runs`."""

    def __init__(self) -> None:
        self._outbox = Outbox()
        self._stop = threading.Event()
        self._scenario: tuple[str, PeerDatasets] | None = None
        _remove_leftovers()
        self._scratch = Path(tempfile.mkdtemp(prefix=f"{SCRATCH}{os.getpid()}-"))

    def describe(self) -> WorkerNode:
        """Return where this worker runs."""
        return WorkerNode(platform.node(), software_versions())

    def start(self, work: Assignment) -> None:
        """Start a run in a thread of its own; `collect` returns what it sends."""
        threading.Thread(target=self._run, args=(work,), daemon=True).start()

    def collect(self, seconds: float) -> list[Message]:
        """Return what the run has sent since the last call; wait for it at most `seconds`."""
        return self._outbox.take(seconds)

    def stop(self) -> None:
        """Let the run finish its round, save it and end."""
        self._stop.set()

    def close(self) -> None:
        """Delete the temporary files."""
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _run(self, work: Assignment) -> None:
        scratch = self._scratch / work.folder.name
        error: BaseException | None = None
        try:
            self._execute(work, scratch)
        except (CoterieError, Interrupted) as failure:
            error = _with_folder(failure, scratch, work.folder)
        except MemoryError:
            error = TrainingError(
                f"Memory ran out on the node {platform.node()}. Use nodes with more memory, or "
                "fewer or smaller peers. The run continues from its last checkpoint."
            )
        except BaseException:
            # A bug, or a user's code that exits: the command shows it with its traceback.
            error = RuntimeError(traceback.format_exc())
        shutil.rmtree(scratch, ignore_errors=True)
        is_disk = isinstance(error, StorageError) and isinstance(error.__cause__, OSError)
        self._outbox.put(NodeFailed(str(error)) if is_disk else Ended(error))

    def _execute(self, work: Assignment, scratch: Path) -> None:
        import torch

        torch.set_num_threads(1)
        parcel = work.parcel.open_on_node(self._scratch)
        sender = ChangeSender(scratch, self._outbox.put, [name for name, _ in work.files])
        _fill_folder(scratch, work)
        with follow_changes(sender), write_temporary_files():
            try:
                execute(
                    RunFolder(scratch, parcel.config),
                    lambda: self._scenario_of(parcel),
                    threads=work.threads,
                    on_round=self._outbox.put,
                    tell=lambda text: self._outbox.put(_beside(text, scratch, work.folder)),
                    asked_to_stop=self._stop.is_set,
                    how_to_continue=work.how_to_continue,
                )
            finally:
                sender.send_rest()

    def _scenario_of(self, parcel: RunParcel) -> PeerDatasets:
        """Return the data of a run; they are reused if the last run had the same."""
        key = scenario_key(parcel.config)
        if self._scenario is None or self._scenario[0] != key:
            self._scenario = None  # free the old one before the new one is made
            self._scenario = (key, parcel.make_datasets())
        return self._scenario[1]


def _fill_folder(folder: Path, work: Assignment) -> None:
    """Create the folder of a run with the files that are needed to continue it."""
    import ray

    make_folder(folder)
    while work.files:
        # Without its reference, the object store can free a file.
        name, content = work.files.pop()
        path = folder / name
        make_folder(path.parent)
        write_bytes(path, ray.get(content).data, durable=False)


def _with_folder(error: Any, scratch: Path, folder: Path) -> Any:
    """Return an error that names the folder beside the command; those of a node's disk stay."""
    if isinstance(error.__cause__, OSError):
        return error
    error.args = tuple(
        _beside(each, scratch, folder) if isinstance(each, str) else each for each in error.args
    )
    return error


def _beside(text: str, scratch: Path, folder: Path) -> str:
    return text.replace(str(scratch), str(folder))


def _size_of(message: Message) -> int:
    return len(getattr(message, "content", b"")) + MESSAGE_BYTES


def _remove_leftovers() -> None:
    """Delete the temporary files of workers that were killed on this node."""
    for folder in Path(tempfile.gettempdir()).glob(f"{SCRATCH}*"):
        owner = re.match(rf"{SCRATCH}(\d+)-", folder.name)
        if owner and not psutil.pid_exists(int(owner[1])):
            with suppress(OSError):
                shutil.rmtree(folder, ignore_errors=True)
