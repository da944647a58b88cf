"""Gathers the records of a swarm's peers into one run folder, as a simulation leaves it behind.

While the peers run, the rounds that all of them have ended are there already: `coterie watch` shows
them. A peer that has died for good is offline in the rounds it did not take part in.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coterie.data.scenario import Scenario
from coterie.experiments.config import build_model
from coterie.experiments.execution import Run, finish
from coterie.learning.choice import Tell
from coterie.peer.peer_config import read_peer_config
from coterie.peer.peer_run import MODELS, RUN
from coterie.runtime.recorder import Recorder
from coterie.runtime.round import Round
from coterie.simulation.simulation import Simulation
from coterie.storage.tensor_files import map_tensor
from coterie.strategies import make_strategy
from coterie.swarm.merge_records import PeerRecords, Tables, join_records, to_round


class RecordCollector:
    """The run folder of a swarm, which grows along with the records of its peers."""

    def __init__(self, run: Run, world: Scenario, folders: Sequence[Path]) -> None:
        self._run = run
        self._world = world
        self._folders = folders
        self._ids = read_peer_config(folders[0]).roster
        self._recorder = Recorder(run.folder)
        self._start_over()

    def _start_over(self) -> None:
        # What peers have recorded is the source: nothing is lost by joining it once more.
        self._peers = [PeerRecords(folder, self._ids) for folder in self._folders]
        self._recorder.rewind(0)
        self.num_rounds = 0
        """How many rounds have been gathered."""
        self._tests = _LastTests(self._world)

    def collect(self, running: Collection[int]) -> None:
        """Take in the rounds that everybody of whom more is to come has ended."""
        for peer in self._peers:
            peer.refresh()
        ends = [peer.last_round for peer in self._peers]
        last = min((ends[number] for number in running), default=max(ends))
        if last < self.num_rounds:
            return
        for number, tables in join_records(self._peers, self.num_rounds, last).items():
            now = to_round(number, tables, self._world)
            self._tests.fill_in(now)
            self._recorder.add(now, _seconds(tables))
        self.num_rounds = last + 1
        self._recorder.flush()

    def collect_rest(self, *, from_start: bool) -> None:
        """Take in what there is when all peers have ended; `anew` joins everything once more.

        Whoever was killed did a round again that may have been gathered already; and at its own
        pace, a peer may merge a model rounds after it was pushed.
        """
        if from_start:
            self._start_over()
        self.collect(())

    def finish(self, tell: Tell) -> None:
        """Sum up the run when everybody has done all rounds: the last thing to do."""
        config, world = self._run.config, self._world
        self._recorder.finish()
        with Simulation(
            world,
            lambda: build_model(config, world.num_outputs),
            lambda: make_strategy(config.strategy["name"], config.strategy_options()),
            config,
            tell=tell,
        ) as simulation:
            # A simulation that has come to the same end, by the peers' own models.
            simulation.state.enter(config.rounds)
            for row, folder in zip(simulation.state.best, self._folders, strict=True):
                row[:] = map_tensor(folder / RUN / MODELS, "best")[0]
            finish(self._run, self._recorder, simulation)


class _LastTests:
    """The last test of each peer: who is gone still has the model that was tested then."""

    def __init__(self, world: Scenario) -> None:
        self._world = world
        self._step = 0
        self._known: dict[str, npt.NDArray[np.float64]] = {}
        self._forget()

    def _forget(self) -> None:
        nothing = np.full(self._world.num_peers, np.nan)
        self._known = {"test_loss": nothing, "test_accuracy": nothing.copy()}

    def fill_in(self, now: Round) -> None:
        """In a round with tests, the absent have theirs of before, unless the data have changed."""
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
    """Return how long a round took: the peers' mean, which adds up to the whole; and all CPU."""
    timings = tables["timings"]
    return float(np.mean(timings["wall_seconds"])), float(np.sum(timings["cpu_seconds"]))
