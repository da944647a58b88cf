"""Runs several runs at the same time, each by a worker on a node of a Ray cluster.

A worker executes one run after another, because starting one takes seconds. As many workers are
asked for as there are runs, so that nodes that join later get work too. A run whose worker or node
dies is continued by another worker, from what has arrived in its folder.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.cluster.run_files import FileGone, FilePiece, FolderCopy
from coterie.cluster.run_worker import (
    Assignment,
    Ended,
    Message,
    NodeFailed,
    RunWorker,
    WorkerNode,
)
from coterie.cluster.shipping import describe_difference, pack_run, software_versions
from coterie.cluster.worker_needs import WorkerNeeds
from coterie.errors import ConfigError, CoterieError, Interrupted, StorageError, TrainingError
from coterie.experiments.engine import OnMessage, OnRunEnd
from coterie.experiments.failures import how_to_continue
from coterie.experiments.run_folder import RunFolder
from coterie.learning.trainer_choice import Tell
from coterie.runtime.round_metrics import RoundMetrics
from coterie.storage.files import explain_errors, lock_folder

WAIT_SECONDS = 0.2
"""The longest time until a request to stop is noticed."""
COLLECT_SECONDS = 30.0
"""How long a worker waits for messages of its run before it answers that there are none."""
CLOSE_SECONDS = 2.0
"""How long workers may take to delete their temporary files."""
MAX_DEATHS = 3
"""A run fails after this many deaths of its workers without a new checkpoint."""
NODE_IS_GONE = "is gone, because its node has died or was removed."
CALLS_AT_ONCE = 4
"""A worker answers while its run goes on: to collect, to stop and to close."""


@dataclass
class _Task:
    """A run that has started and not ended."""

    run: RunFolder
    copy: FolderCopy
    lock: ExitStack
    num_deaths: int = 0
    """Deaths of workers since the last checkpoint."""
    num_checkpoints: int = 0
    """How many had arrived when a worker last died."""

    @property
    def name(self) -> str:
        return self.run.folder.name


@dataclass(eq=False)
class _Worker:
    actor: Any
    node: str = ""
    """Empty until the worker has started."""
    task: _Task | None = None


@dataclass
class _Unusable:
    """Why workers could not be used, for the error when none is left."""

    reasons: dict[str, None] = field(default_factory=dict)

    def add(self, reason: str, tell: Tell) -> None:
        """Record a reason, and show it the first time."""
        if reason not in self.reasons:
            self.reasons[reason] = None
            tell(reason)


class ManyRuns:
    """Executes runs on the nodes of a cluster, at most `count` at a time."""

    def __init__(
        self,
        count: int,
        *,
        needs: WorkerNeeds,
        folder: Path,
        tell: Tell,
        on_message: OnMessage,
        on_end: OnRunEnd,
    ) -> None:
        self._count = count
        self._needs = needs
        self._folder = folder
        self._tell = tell
        self._on_message = on_message
        self._on_end = on_end
        self._workers: list[_Worker] = []
        self._owed: dict[Any, _Worker] = {}
        """The workers by the reference of the answer that each of them owes."""
        self._interrupted: deque[_Task] = deque()
        """Runs whose workers have died."""
        self._unusable = _Unusable()
        self._is_stopping = False
        self._worker_class: Any = None

    def run(self, work: Iterator[tuple[str, RunFolder]], asked_to_stop: Callable[[], bool]) -> None:
        """Run all work; once asked to stop, start nothing more, and let runs save and end.

        When this returns or raises, no worker is left.
        """
        import ray

        options = {**self._needs.options(), "max_concurrency": CALLS_AT_ONCE}
        # Once for all workers, because Ray exports the class at each call of `remote`.
        self._worker_class = ray.remote(RunWorker).options(**options)
        try:
            for _ in range(self._count):
                self._request_worker()
            while self._workers:
                if asked_to_stop() and not self._is_stopping:
                    self._ask_to_stop()
                answered, _ = ray.wait(list(self._owed), timeout=WAIT_SECONDS)
                for reference in answered:
                    self._receive(reference, work)
            if not self._is_stopping and (self._interrupted or next(work, None)):
                raise ConfigError("\n".join(["No node can be used.", *self._unusable.reasons]))
        finally:
            self._close_all()

    def _request_worker(self) -> None:
        worker = _Worker(self._worker_class.remote())
        self._workers.append(worker)
        self._owed[worker.actor.describe.remote()] = worker

    def _receive(self, reference: Any, work: Iterator[tuple[str, RunFolder]]) -> None:
        import ray

        worker = self._owed.pop(reference, None)
        if worker is None:  # it was closed meanwhile
            return
        try:
            answer = ray.get(reference)
        except ray.exceptions.RayError as error:
            self._bury(worker, _why_died(error))
            return
        if isinstance(answer, WorkerNode):
            self._welcome(worker, answer, work)
        else:
            self._take(worker, answer, work)

    def _welcome(
        self, worker: _Worker, found: WorkerNode, work: Iterator[tuple[str, RunFolder]]
    ) -> None:
        """Give a worker that has started its first run, unless its node cannot be used."""
        worker.node = found.node
        expected = software_versions()
        if found.versions != expected:
            difference = describe_difference(found.versions, expected)
            self._unusable.add(
                f"The node {found.node} is not used, because it has {difference}. Install the same "
                "versions on all nodes.",
                self._tell,
            )
            self._kill(worker)
            return
        self._assign(worker, work)

    def _assign(self, worker: _Worker, work: Iterator[tuple[str, RunFolder]]) -> None:
        """Give a worker the next run; without one, end it and all that have not started."""
        while not self._is_stopping:
            task = self._interrupted.popleft() if self._interrupted else self._next_task(work)
            if task is None:
                break
            try:
                assignment = self._describe(task)
            except CoterieError as error:
                self._end(task, error)
                continue
            worker.task = task
            worker.actor.start.remote(assignment)
            self._collect(worker)
            return
        self._close([worker, *self._starting()])

    def _next_task(self, work: Iterator[tuple[str, RunFolder]]) -> _Task | None:
        for name, run in work:
            lock = ExitStack()
            try:
                lock.enter_context(lock_folder(run.folder))
                return _Task(run, FolderCopy(run.folder), lock)
            except CoterieError as error:
                lock.close()
                self._on_end(name, error)
        return None

    def _describe(self, task: _Task) -> Assignment:
        """Return what a worker needs to begin or continue a run."""
        folder = task.copy.folder
        return Assignment(
            folder=folder,
            parcel=pack_run(task.run.config),
            files=[(name, _put_file(folder / name)) for name in task.copy.list_files()],
            threads=self._needs.cpus,
            how_to_continue=how_to_continue(self._folder),
        )

    def _collect(self, worker: _Worker) -> None:
        self._owed[worker.actor.collect.remote(COLLECT_SECONDS)] = worker

    def _take(
        self, worker: _Worker, messages: list[Message], work: Iterator[tuple[str, RunFolder]]
    ) -> None:
        """Handle the messages of a run; then wait for more, or give the worker another run."""
        task = worker.task
        if task is None:  # only workers with a run are asked for messages
            return
        end = messages[-1] if messages else None
        if isinstance(end, Ended):
            worker.task = None
            if end.error is None:
                # Before files are written here, so that the worker need not wait for that.
                self._assign(worker, work)
        try:
            self._apply(task, messages)
        except StorageError as error:
            error.add_note(how_to_continue(self._folder))
            if worker.task is task or (isinstance(end, Ended) and end.error is not None):
                self._kill(worker)
            self._end(task, error)
            return
        match end:
            case Ended():
                self._end(task, end.error)
                if end.error is not None:
                    self._assign(worker, work)
            case NodeFailed():
                why = f"cannot write its temporary files: {end.why}"
                self._bury(worker, why, StorageError)
            case _:
                self._collect(worker)

    def _apply(self, task: _Task, messages: list[Message]) -> None:
        """Write what has arrived of a run, and report its rounds and messages.

        Files come first, so that what is reported is in the folder.
        """
        task.copy.apply(each for each in messages if isinstance(each, FilePiece | FileGone))
        for message in messages:
            if isinstance(message, RoundMetrics | str):
                self._on_message(task.name, message)

    def _bury(self, worker: _Worker, reason: str, kind: type[CoterieError] = TrainingError) -> None:
        """Continue the run of a dead worker with another one, unless too many have died."""
        self._close([worker])
        task, worker.task = worker.task, None
        why = f"The worker{f' on the node {worker.node}' if worker.node else ''} {reason}"
        if task is None:
            self._unusable.add(why, self._tell)
            if reason == NODE_IS_GONE and not self._is_stopping:
                self._request_worker()
            return
        task.copy.discard_partial()
        if task.copy.num_checkpoints > task.num_checkpoints:
            task.num_deaths, task.num_checkpoints = 0, task.copy.num_checkpoints
        task.num_deaths += 1
        if self._is_stopping:
            self._end(task, Interrupted(why))
        elif task.num_deaths >= MAX_DEATHS:
            self._end(task, _fail_repeatedly(kind, why))
        else:
            self._tell(f"{task.name}: {why} Another one continues the run.")
            self._interrupted.append(task)
            self._request_worker()

    def _end(self, task: _Task, error: BaseException | None) -> None:
        task.copy.discard_partial()
        task.lock.close()
        self._on_end(task.name, error)

    def _ask_to_stop(self) -> None:
        """Let runs finish their round; end workers without a run."""
        self._is_stopping = True
        self._close(self._starting())
        for worker in self._workers:
            worker.actor.stop.remote()
        while self._interrupted:
            self._end(self._interrupted.popleft(), Interrupted("It had no worker."))

    def _starting(self) -> list[_Worker]:
        return [worker for worker in self._owed.values() if worker.task is None]

    def _close(self, workers: list[_Worker]) -> None:
        """End workers, after they have deleted their temporary files."""
        import ray

        answers = [worker.actor.close.remote() for worker in workers if worker.node]
        if answers:
            ray.wait(answers, num_returns=len(answers), timeout=CLOSE_SECONDS)
        for worker in workers:
            self._kill(worker)

    def _kill(self, worker: _Worker) -> None:
        import ray

        if worker in self._workers:
            self._workers.remove(worker)
        self._owed = {key: each for key, each in self._owed.items() if each is not worker}
        with suppress(ray.exceptions.RayError, ValueError):  # it is dead already
            ray.kill(worker.actor)

    def _close_all(self) -> None:
        tasks = [worker.task for worker in self._workers if worker.task is not None]
        self._close(list(self._workers))
        for task in (*tasks, *self._interrupted):
            task.copy.discard_partial()
            task.lock.close()


def _put_file(path: Path) -> Any:
    """Put the content of a file into the object store."""
    import numpy as np
    import ray

    with explain_errors(f"read {path}"):
        return ray.put(np.fromfile(path, np.uint8))


def _why_died(error: Exception) -> str:
    text = str(error)
    last = text.strip().rpartition("\n")[2]
    if "ModuleNotFoundError" in text or "ImportError" in text:
        return f"cannot load Coterie ({last}). Install the same versions on all nodes."
    if "creation task" in text:
        return f"could not start: {last}"
    if "node has died" in text:
        return NODE_IS_GONE
    if "OUT_OF_MEMORY" in text:
        return "was ended by Ray, because memory ran out."
    return "died, most likely because memory ran out."


def _fail_repeatedly(kind: type[CoterieError], why: str) -> CoterieError:
    return kind(
        f"{why} This has happened {MAX_DEATHS} times without a new checkpoint. Use nodes with more "
        "memory and disk space, or fewer or smaller peers, then resume: the run continues from its "
        "last checkpoint."
    )
