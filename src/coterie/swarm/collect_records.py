"""Collects the records of a swarm's peers into one run folder, as a simulation writes it.

While the peers run, the folder has the rounds that all of them have finished: `coterie watch` shows
them. A peer that failed for good is offline in the rounds it missed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coterie.data.peer_datasets import PeerDatasets
from coterie.experiments.execution import finish, simulation_of
from coterie.experiments.run_folder import RunFolder
from coterie.learning.trainer_choice import Tell
from coterie.peer.peer_config import read_peer_config
from coterie.peer.peer_run import MODELS, RUN
from coterie.runtime.recorder import Recorder
from coterie.runtime.round import Round
from coterie.storage.tensor_files import map_tensor
from coterie.swarm.merge_records import PeerRecords, Tables, join_records, to_round


class RecordCollector:
    """Fills the run folder of a swarm from the records of its peers, while they run."""

    def __init__(self, run: RunFolder, scenario: PeerDatasets, folders: Sequence[Path]) -> None:
        self._run = run
        self._scenario = scenario
        self._folders = folders
        self._ids = read_peer_config(folders[0]).roster
        self._recorder = Recorder(run.folder)
        self._start_over()

    def _start_over(self) -> None:
        # The peers' records are the source: joining them again loses nothing.
        self._peers = [PeerRecords(folder, self._ids) for folder in self._folders]
        self._recorder.rewind(0)
        self.num_rounds = 0
        """Number of collected rounds."""
        self._tests = _LastTests(self._scenario)

    def collect(self, running: Collection[int]) -> None:
        """Add the rounds that all running peers have finished."""
        for peer in self._peers:
            peer.refresh()
        ends = [peer.last_round for peer in self._peers]
        last = min((ends[number] for number in running), default=max(ends))
        if last < self.num_rounds:
            return
        for number, tables in join_records(self._peers, self.num_rounds, last).items():
            now = to_round(number, tables, self._scenario)
            self._tests.fill_in(now)
            self._recorder.add(now, _seconds(tables))
        self.num_rounds = last + 1
        self._recorder.flush()

    def collect_rest(self, *, from_start: bool) -> None:
        """Add all remaining rounds after all peers have ended; `from_start` joins all rounds again.

        That is needed after a restart, which may repeat a collected round, and with own pace, where
        a peer may merge a model rounds after it was pushed.
        """
        if from_start:
            self._start_over()
        self.collect(())

    def finish(self, tell: Tell) -> None:
        """Summarise the run after all peers have finished; the last step."""
        config, scenario = self._run.config, self._scenario
        self._recorder.finish()
        with simulation_of(config, scenario, tell=tell) as simulation:
            # A simulation in the same final state, with the peers' own models.
            simulation.state.load_data(config.rounds)
            for row, folder in zip(simulation.state.best, self._folders, strict=True):
                row[:] = map_tensor(folder / RUN / MODELS, "best")[0]
            finish(self._run, self._recorder, simulation)


class _LastTests:
    """The last test of each peer: a peer that has left keeps its last tested model."""

    def __init__(self, scenario: PeerDatasets) -> None:
        self._scenario = scenario
        self._step = 0
        self._known: dict[str, npt.NDArray[np.float64]] = {}
        self._forget()

    def _forget(self) -> None:
        nothing = np.full(self._scenario.num_peers, np.nan)
        self._known = {"test_loss": nothing, "test_score": nothing.copy()}

    def fill_in(self, now: Round) -> None:
        """In a round with tests, offline peers keep their last results, unless the data changed."""
        if now.step != self._step:
            self._step = now.step
            self._forget()
        if np.isnan(now.measures["test_loss"]).all():
            return
        for name, known in self._known.items():
            measured = now.measures[name]
            absent = ~now.online
            measured[absent] = known[absent]
            known[:] = measured


def _seconds(tables: Tables) -> tuple[float, float]:
    """Return wall and CPU seconds of a round: the peers' mean, which adds up, and their sum."""
    timings = tables["timings"]
    return float(np.mean(timings["wall_seconds"])), float(np.sum(timings["cpu_seconds"]))
