"""Executes one run by real peers: creates and supervises them, and collects their records."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from coterie.data.peer_datasets import PeerDatasets
from coterie.errors import CoterieError, Interrupted, StorageError, WorkerDied
from coterie.experiments.run_folder import RunFolder
from coterie.learning.trainer_choice import Tell
from coterie.processes.signals import StopRequest, stop_by_signal
from coterie.storage.files import lock_folder
from coterie.swarm.collect_records import RecordCollector
from coterie.swarm.peer_folders import clean_up, find_or_create_folders
from coterie.swarm.supervisor import Supervisor, SwarmPeer

LOOK_SECONDS = 0.25
GATHER_SECONDS = 2.0
"""How often records are collected while peers run."""
STOPPING = "Asking all peers to save and to leave."
Show = Callable[[RunFolder, Sequence[SwarmPeer]], None]


def execute_by_peers(
    run: RunFolder,
    scenario: Callable[[], PeerDatasets],
    *,
    tell: Tell,
    how_to_continue: str,
    show: Show = lambda run, peers: None,
    keep_peers: bool = False,
    **_: Any,
) -> None:
    """Execute or resume one run by real peers, unless it has finished; see `execution.execute`.

    A peer that fails does not end the others, but then the run does not finish.
    """
    with lock_folder(run.folder):
        if run.read_summary() is not None:
            return
        data = scenario()
        run.write_cluster_names(data.cluster_names)
        folders = find_or_create_folders(run.folder, run.config, data)
        collector = RecordCollector(run, data, folders)
        with stop_by_signal(tell, STOPPING) as asked_to_stop:
            with Supervisor(folders, tell) as swarm:
                _supervise(run, swarm, collector, show, asked_to_stop)
            collector.collect_rest(from_start=run.config.swarm.own_pace or swarm.num_restarts > 0)
            _raise_any(swarm, collector, asked_to_stop, how_to_continue)
            collector.finish(tell)
            if not keep_peers:
                clean_up(folders)


def _supervise(
    run: RunFolder,
    swarm: Supervisor,
    collector: RecordCollector,
    show: Show,
    asked_to_stop: Callable[[], bool],
) -> None:
    """Supervise the peers until all have ended."""
    gathered = time.monotonic()
    while swarm.running:
        if asked_to_stop() or swarm.has_failed_at_once:
            swarm.stop()
        swarm.supervise(LOOK_SECONDS)
        if time.monotonic() - gathered >= GATHER_SECONDS:
            collector.collect([peer.number for peer in swarm.running])
            gathered = time.monotonic()
        show(run, swarm.peers)


def _raise_any(
    swarm: Supervisor, collector: RecordCollector, asked_to_stop: StopRequest, how_to_continue: str
) -> None:
    """Raise if a peer has not finished, with advice for the user."""
    if all(peer.has_finished for peer in swarm.peers):
        return
    if asked_to_stop():
        last = collector.num_rounds - 1
        when = f" after round {last}" if last >= 0 else ""
        raise Interrupted(f"Stopped by {asked_to_stop.by}{when}.")
    error = _as_one(swarm.errors)
    # An error in a peer's settings or training would occur again.
    if collector.num_rounds and isinstance(error, StorageError | WorkerDied):
        error.add_note(how_to_continue)
    raise error


def _as_one(errors: Sequence[CoterieError]) -> CoterieError:
    """Return the first error, with the others as notes."""
    first = errors[0]
    for other in errors[1:]:
        first.add_note(str(other))
    return first
