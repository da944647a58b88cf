"""Many runs on a cluster: results as of the local engine, whatever dies or is interrupted."""

from __future__ import annotations

import os
import shutil
import signal

import pytest
from cluster_runs import (
    GATE_ROUND,
    configs_of,
    interrupt_this_process,
    results_of,
    scratch_of,
    wait_until_no_worker_is_left,
    worker_of,
)

from coterie.cluster import many_runs
from coterie.errors import ConfigError, Interrupted, StorageError, TrainingError
from coterie.experiments.experiment import Experiment

REACHED = GATE_ROUND - 1
"""The last round before runs wait."""


def test_files_are_those_of_the_local_engine(patience, engine):
    patience.open_gate()
    here, there = patience.create("here", 0, 1, 2), patience.create("there", 0, 1, 2)
    patience.run(here, None)
    heard = patience.run(there, engine)
    assert results_of(there) == results_of(here)
    assert heard.rounds == {run.folder.name: list(range(9)) for run in there.runs}
    assert sorted(heard.ends) == [run.folder.name for run in there.runs]
    assert there.summaries == here.summaries
    wait_until_no_worker_is_left()


def test_a_run_whose_worker_is_killed_continues(patience, engine):
    here, there = patience.create("here", 0), patience.create("there", 0)

    def kill(run, round_number):
        if round_number == REACHED and not patience.gate.exists():
            # What was computed is in the folder already, for whoever watches.
            assert list((run.folder / "checkpoints").iterdir())
            os.kill(worker_of(run), signal.SIGKILL)
            patience.open_gate()

    heard = patience.run(there, engine, kill)
    assert any("continues the run" in message for message in heard.messages)
    # The last checkpoint was written after round 4.
    assert heard.rounds["patient-seed0"] == [*range(REACHED + 1), *range(REACHED, 9)]
    patience.run(here, None)
    assert results_of(there) == results_of(here)


def test_a_node_dies_and_another_joins_late(patience, engine, nodes):
    here, there = patience.create("here", 0, 1), patience.create("there", 0, 1)
    reached, gone = set(), []

    def change_nodes(run, round_number):
        if gone and not patience.gate.exists():
            patience.open_gate()  # the interrupted run continues, though the other one still waits
        if round_number == REACHED:
            reached.add(run.folder.name)
        if len(reached) == 2 and not gone:
            gone.append(nodes.worker_nodes.copy().pop())
            nodes.remove_node(gone[0], allow_graceful=False)
            nodes.add_node(num_cpus=1)

    heard = patience.run(there, engine, change_nodes)
    assert sum("continues the run" in message for message in heard.messages) == 1
    assert sorted(len(rounds) for rounds in heard.rounds.values()) == [9, 10]
    patience.run(here, None)
    assert results_of(there) == results_of(here)


def test_a_node_that_cannot_write_is_left(patience, engine):
    here, there = patience.create("here", 0), patience.create("there", 0)

    def remove_scratch(run, round_number):
        if round_number == REACHED and not patience.gate.exists():
            shutil.rmtree(scratch_of(run).parent)
            patience.open_gate()

    heard = patience.run(there, engine, remove_scratch)
    assert any("cannot write its temporary files" in message for message in heard.messages)
    patience.run(here, None)
    assert results_of(there) == results_of(here)


def test_a_folder_that_cannot_be_written_is_an_error(patience, engine):
    there = patience.create("there", 0)

    def block(run, round_number):
        if round_number == REACHED:
            shutil.rmtree(run.folder / "checkpoints")
            (run.folder / "checkpoints").touch()
            patience.open_gate()

    with pytest.raises(StorageError, match="checkpoints") as caught:
        patience.run(there, engine, block)
    assert "coterie resume" in caught.value.__notes__[0]


def test_ctrl_c_saves_and_the_local_engine_continues(patience, engine):
    here, there = patience.create("here", 0), patience.create("there", 0)

    def interrupt(run, round_number):
        if round_number == REACHED:
            interrupt_this_process()
            patience.open_gate_later()

    with pytest.raises(Interrupted, match="all runs are saved"):
        patience.run(there, engine, interrupt)
    wait_until_no_worker_is_left()
    first = patience.run(there, None).rounds["patient-seed0"][0]
    assert first in (GATE_ROUND, GATE_ROUND + 1)  # no round is computed twice
    patience.run(here, None)
    assert results_of(there) == results_of(here)


def test_what_the_local_engine_began_continues_on_the_cluster(patience, engine):
    patience.open_gate()
    here, there = patience.create("here", 0), patience.create("there", 0)

    def stop(run, round_number):
        if round_number == 3:
            raise Interrupted("now")

    with pytest.raises(Interrupted):
        patience.run(there, None, stop)
    heard = patience.run(there, engine)
    assert heard.rounds["patient-seed0"][0] == 3
    patience.run(here, None)
    assert results_of(there) == results_of(here)


def test_a_second_ctrl_c_ends_at_once(patience, engine):
    there = patience.create("there", 0)

    def interrupt(run, round_number):
        if round_number == REACHED:
            interrupt_this_process()
            interrupt_this_process()

    with pytest.raises(Interrupted, match="at once"):
        patience.run(there, engine, interrupt)
    assert not (there.runs[0].folder / "summary.json").exists()
    wait_until_no_worker_is_left()  # though it still waits for the gate


def test_an_error_is_that_of_the_local_engine_and_stops_no_other_run(patience, engine):
    patience.open_gate()
    wild = {"training.learning_rate": 1e30, "training.optimizer": "sgd"}
    caught = []
    for name, chosen in (("here", None), ("there", engine)):
        configs = [*configs_of(0, **wild), *configs_of(1)]
        experiment = Experiment.create(patience.folder / name, configs)
        with pytest.raises(TrainingError) as error:
            patience.run(experiment, chosen)
        caught.append((str(error.value), [summary.seed for summary in experiment.summaries]))
    assert caught[0] == caught[1]
    assert "diverged in round 0" in caught[0][0]
    assert caught[0][1] == [1]


def test_nodes_with_other_versions_are_not_used(patience, engine, monkeypatch):
    monkeypatch.setattr(many_runs, "software_versions", lambda: {"torch": "1.0"})
    with pytest.raises(ConfigError, match=r"has torch .* instead of 1\.0"):
        patience.run(patience.create("there", 0), engine)
