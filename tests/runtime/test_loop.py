"""Runs end cleanly, however they end, and go on as if nothing had happened."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from coterie.errors import Interrupted, StorageError
from coterie.learning.settings import TrainingSettings
from coterie.processes.signals import SIGNAL_NAMES
from coterie.runtime.checkpoints import Checkpoints
from coterie.runtime.loop import run_to_end
from coterie.runtime.recorder import Recorder
from coterie.runtime.round import Round
from coterie.runtime.run_tables import parts_of, read_table
from coterie.simulation.simulation import Simulation
from coterie.strategies.gossip import Gossip
from coterie.strategies.local import Local
from coterie.strategies.random import Random

ROUNDS = 5
TABLES = ("metrics", "exchanges", "neighbours")
"""The tables without clock times: the same in every run."""


class MishapError(Exception):
    """Something that goes wrong in the middle of a run."""


@pytest.fixture
def start(make_simulation) -> Callable[..., tuple[Simulation, Recorder, Checkpoints]]:
    """Return a maker of a simulation that records and saves in a folder."""

    def make(folder: Path, strategy: Callable = Gossip, **settings: object) -> tuple:
        simulation = make_simulation(
            strategy,
            rounds=ROUNDS,
            test_every=2,
            network={"offline_probability": 0.2, "loss_probability": 0.2},
            **settings,
        )
        return simulation, Recorder(folder), Checkpoints(folder / "checkpoints")

    return make


def interrupt_in(round_number: int, kind: int = signal.SIGINT, times: int = 1):
    def on_round(now: Round) -> None:
        if now.number == round_number:
            for _ in range(times):
                os.kill(os.getpid(), kind)

    return on_round


def fail_in(round_number: int):
    def on_round(now: Round) -> None:
        if now.number == round_number:
            raise MishapError(f"in round {now.number}")

    return on_round


def silent(message: str) -> None:
    pytest.fail(f"There was nothing to tell: {message}")


def rounds_of(run: Path) -> list[int]:
    return read_table(run, "timings")["round"].to_pylist()


def contents(run: Path) -> dict[str, bytes]:
    return {name: (run / f"{name}.parquet").read_bytes() for name in TABLES}


def next_rounds(folder: Path) -> list[int]:
    """Return the rounds at which the checkpoints would go on."""
    return sorted(int(path.name.split("-")[1]) for path in folder.glob("checkpoints/round-*"))


def uninterrupted(start, folder: Path, **settings: object) -> tuple[dict[str, bytes], np.ndarray]:
    simulation, recorder, checkpoints = start(folder, **settings)
    run_to_end(simulation, recorder, checkpoints, tell=silent)
    return contents(folder), simulation.best_models()


def test_runs_every_round_once_and_joins_the_tables(start, tmp_path):
    simulation, recorder, checkpoints = start(tmp_path)
    seen = []
    run_to_end(
        simulation, recorder, checkpoints, on_round=lambda n: seen.append(n.number), tell=silent
    )
    assert seen == rounds_of(tmp_path) == list(range(ROUNDS + 1))
    assert simulation.finished
    assert next_rounds(tmp_path) == [ROUNDS, ROUNDS + 1]
    assert not (tmp_path / "metrics").exists()


def test_runs_without_a_folder(make_simulation):
    recorder = Recorder()
    run_to_end(make_simulation(Gossip), recorder, tell=silent)
    assert recorder.table("timings")["round"].to_pylist() == [0, 1, 2, 3]


@pytest.mark.parametrize("every", [1, 2, 3, 100])
def test_checkpoints_are_written_every_so_many_rounds_and_at_the_end(start, tmp_path, every):
    simulation, recorder, checkpoints = start(tmp_path)
    written = set()
    run_to_end(
        simulation,
        recorder,
        checkpoints,
        checkpoint_every=every,
        on_round=lambda _: written.update(next_rounds(tmp_path)),
        tell=silent,
    )
    written.update(next_rounds(tmp_path))
    expected = {number + 1 for number in range(ROUNDS + 1) if number % every == 0}
    assert written == expected | {ROUNDS + 1}


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("every", [1, 100])
def test_ctrl_c_finishes_the_round_and_saves(start, tmp_path, kind, every):
    simulation, recorder, checkpoints = start(tmp_path)
    messages = []
    with pytest.raises(Interrupted, match=f"by {SIGNAL_NAMES[kind]} after round 2"):
        run_to_end(
            simulation,
            recorder,
            checkpoints,
            checkpoint_every=every,
            on_round=interrupt_in(2, kind),
            tell=messages.append,
        )
    assert simulation.next_round == 3
    assert next_rounds(tmp_path)[-1] == 3
    assert rounds_of(tmp_path) == [0, 1, 2]
    assert len(messages) == 1
    assert "Finishing this round" in messages[0]


@pytest.mark.parametrize("strategy", [Gossip, lambda: Random(fetches=2)])
@pytest.mark.parametrize("schedule", ["synchronous", "sequential"])
@pytest.mark.slow
def test_an_interrupted_run_ends_like_an_uninterrupted_one(start, tmp_path, strategy, schedule):
    settings = {"strategy": strategy, "schedule": schedule}
    expected, models = uninterrupted(start, tmp_path / "steady", **settings)
    folder = tmp_path / "interrupted"
    for number in (0, 2, 3):
        with pytest.raises(Interrupted):
            run_to_end(*start(folder, **settings), on_round=interrupt_in(number), tell=len)
    simulation, recorder, checkpoints = start(folder, **settings)
    run_to_end(simulation, recorder, checkpoints, tell=silent)
    assert contents(folder) == expected
    assert simulation.best_models().tobytes() == models.tobytes()
    assert rounds_of(folder) == list(range(ROUNDS + 1))


def test_stopped_peers_stay_stopped(start, tmp_path):
    expected, models = uninterrupted(start, tmp_path / "steady", patience=1)
    folder = tmp_path / "interrupted"
    first = start(folder, patience=1)
    with pytest.raises(Interrupted):
        run_to_end(*first, on_round=interrupt_in(2), tell=len)
    stopped = first[0].state.progress.stopped
    assert stopped.any()
    assert not stopped.all()
    second = start(folder, patience=1)
    run_to_end(*second, tell=silent)
    assert contents(folder) == expected
    assert second[0].best_models().tobytes() == models.tobytes()


def test_rounds_after_the_last_checkpoint_are_computed_again(start, tmp_path):
    """Failures lose what came after the checkpoint of round 3, from the records too."""
    expected, models = uninterrupted(start, tmp_path / "steady")
    folder = tmp_path / "failed"
    with pytest.raises(MishapError):
        run_to_end(*start(folder), checkpoint_every=3, on_round=fail_in(5), tell=silent)
    assert rounds_of(folder) == [0, 1, 2, 3, 4, 5]
    assert next_rounds(folder) == [1, 4]
    seen = []
    simulation, recorder, checkpoints = start(folder)
    run_to_end(
        simulation, recorder, checkpoints, on_round=lambda n: seen.append(n.number), tell=silent
    )
    assert seen == [4, 5]
    assert contents(folder) == expected
    assert simulation.best_models().tobytes() == models.tobytes()


def test_a_damaged_checkpoint_costs_a_round_and_nothing_else(start, tmp_path):
    expected, models = uninterrupted(start, tmp_path / "steady")
    folder = tmp_path / "damaged"
    with pytest.raises(Interrupted):
        run_to_end(*start(folder), on_round=interrupt_in(3), tell=len)
    newest = max(folder.glob("checkpoints/round-*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    messages = []
    simulation, recorder, checkpoints = start(folder)
    run_to_end(simulation, recorder, checkpoints, tell=messages.append)
    assert len(messages) == 1
    assert "damaged" in messages[0]
    assert contents(folder) == expected
    assert simulation.best_models().tobytes() == models.tobytes()


def test_a_run_whose_checkpoints_are_all_damaged_is_left_as_it_is(start, tmp_path):
    with pytest.raises(Interrupted):
        run_to_end(*start(tmp_path), on_round=interrupt_in(3), tell=len)
    for path in tmp_path.glob("checkpoints/round-*"):
        path.write_bytes(b"")
    with pytest.raises(StorageError, match="damaged"):
        run_to_end(*start(tmp_path), tell=len)
    assert rounds_of(tmp_path) == [0, 1, 2, 3]


def test_a_run_without_checkpoints_starts_anew(start, tmp_path):
    """Records of rounds that no checkpoint promises are dropped, finished files included."""
    expected, _ = uninterrupted(start, tmp_path)
    for path in tmp_path.glob("checkpoints/round-*"):
        path.unlink()
    again, _ = uninterrupted(start, tmp_path)
    assert again == expected
    assert rounds_of(tmp_path) == list(range(ROUNDS + 1))


def test_a_finished_run_can_be_run_again_without_effect(start, tmp_path):
    expected, models = uninterrupted(start, tmp_path)
    simulation, recorder, checkpoints = start(tmp_path)
    run_to_end(
        simulation, recorder, checkpoints, on_round=lambda _: pytest.fail("a round"), tell=silent
    )
    assert contents(tmp_path) == expected
    assert simulation.best_models().tobytes() == models.tobytes()


def test_ctrl_c_in_the_last_round_just_ends_the_run(start, tmp_path):
    simulation, recorder, checkpoints = start(tmp_path)
    run_to_end(simulation, recorder, checkpoints, on_round=interrupt_in(ROUNDS), tell=len)
    assert simulation.finished
    assert (tmp_path / "metrics.parquet").exists()


def test_ctrl_c_without_checkpoints_records_what_was_done(start, tmp_path):
    simulation, recorder, _ = start(tmp_path)
    with pytest.raises(Interrupted, match="after round 1"):
        run_to_end(simulation, recorder, on_round=interrupt_in(1), tell=len)
    assert rounds_of(tmp_path) == [0, 1]


def test_a_second_ctrl_c_ends_at_once(start, tmp_path):
    simulation, recorder, checkpoints = start(tmp_path)
    with pytest.raises(Interrupted, match="at once"):
        run_to_end(simulation, recorder, checkpoints, on_round=interrupt_in(2, times=2), tell=len)
    assert next_rounds(tmp_path) == [1, 2]
    assert rounds_of(tmp_path) == [0, 1, 2]


def end_normally(start, folder: Path) -> None:
    run_to_end(*start(folder), tell=silent)


def end_interrupted(start, folder: Path) -> None:
    with pytest.raises(Interrupted):
        run_to_end(*start(folder), on_round=interrupt_in(1), tell=len)


def end_with_a_failure(start, folder: Path) -> None:
    with pytest.raises(MishapError):
        run_to_end(*start(folder), on_round=fail_in(1), tell=silent)


@pytest.mark.parametrize("end", [end_normally, end_interrupted, end_with_a_failure])
def test_signal_handlers_are_restored(start, tmp_path, end):
    def mine(number: int, frame: object) -> None:
        pytest.fail("no process sent this")

    kinds = (signal.SIGINT, signal.SIGTERM)
    before = {kind: signal.signal(kind, mine) for kind in kinds}
    try:
        end(start, tmp_path)
        assert [signal.getsignal(kind) for kind in kinds] == [mine, mine]
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def test_works_outside_the_main_thread(start, tmp_path):
    expected, _ = uninterrupted(start, tmp_path / "main")
    parts = start(tmp_path / "thread")
    handler = signal.getsignal(signal.SIGINT)
    failures = []

    def work() -> None:
        try:
            run_to_end(*parts, tell=silent)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert failures == []
    assert contents(tmp_path / "thread") == expected
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_failure_in_the_middle_leaves_records_on_disk(start, tmp_path):
    simulation, recorder, checkpoints = start(tmp_path)
    with pytest.raises(MishapError, match="in round 3"):
        run_to_end(
            simulation,
            recorder,
            checkpoints,
            checkpoint_every=100,
            on_round=fail_in(3),
            tell=silent,
        )
    assert rounds_of(tmp_path) == [0, 1, 2, 3]
    assert len(parts_of(tmp_path, "metrics")) == 2


def test_a_storage_error_is_reported_as_such(start, tmp_path):
    """A table that cannot be written ends the run with that message, not with one about Arrow."""
    simulation, recorder, checkpoints = start(tmp_path)
    (tmp_path / "neighbours").rmdir()
    with pytest.raises(StorageError, match="neighbours: No such file or directory"):
        run_to_end(simulation, recorder, checkpoints, tell=silent)


def test_early_stopping_ends_the_run_before_its_last_round(make_simulation, tmp_path):
    simulation = make_simulation(Gossip, rounds=200, patience=2, training={"learning_rate": 1e-9})
    run_to_end(simulation, Recorder(tmp_path), Checkpoints(tmp_path / "c"), tell=silent)
    last = read_table(tmp_path, "metrics")["round"].to_numpy().max()
    assert last < 200
    assert simulation.state.progress.stopped.all()


def test_going_on_with_another_trainer_is_told(make_simulation, capsys):
    with make_simulation(Local, training=TrainingSettings(trainer="torch")) as by_torch:
        by_torch.advance()
        saved = by_torch.save()
        by_torch.restore(saved)
    assert capsys.readouterr().out == ""
    saved["trainer"] = "native v9"
    with make_simulation(Local, training=TrainingSettings(trainer="torch")) as other:
        other.restore(saved)
        assert other.next_round == 1
    assert (
        "started with the trainer 'native v9' and continues with 'torch'" in capsys.readouterr().out
    )
