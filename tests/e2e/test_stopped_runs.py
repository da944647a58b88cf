"""Runs that end too early, by divergence, Ctrl-C or a full disk: nothing recorded is lost."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from commands import SMALL, Answer, coterie, end, refused, results, run_with, start
from watching_runs import create

from coterie.errors import Interrupted
from coterie.experiments.experiment import Experiment
from coterie.experiments.run_folder import RunFolder
from coterie.runtime.round_metrics import RoundMetrics
from coterie.runtime.run_tables import read_table

LONG = (*SMALL, "--rounds", 12, "--set", "checkpoint_every=1")


# Training


def test_training_diverges_at_once(tmp_path):
    answer = run_with(tmp_path, "training.learning_rate=1e30", "training.optimizer=sgd")
    refused(answer, 5, "diverged in round 0", "peer 0", "training.learning_rate", "1e+30")


@pytest.fixture(scope="module")
def diverged(tmp_path_factory) -> tuple[Path, Answer]:
    """Return the folder of a run that diverges after some rounds, and its message."""
    folder = tmp_path_factory.mktemp("diverged") / "out"
    answer = coterie(
        *("run", "friends-synthetic", *LONG, "--set", "training.learning_rate=0.05"),
        *("--out", folder),
    )
    return folder, answer


def last_round(folder: Path) -> int:
    """Return the last round recorded; there is a gap nowhere before it."""
    metrics = read_table(folder / "random-seed0", "metrics")
    rounds = np.unique(metrics["round"].to_numpy()).tolist()
    assert rounds == list(range(len(rounds)))
    assert np.isfinite(metrics["validation_loss_trained"].to_numpy()).all()
    return rounds[-1]


def test_training_diverges_later(diverged):
    """What was recorded before stays readable; to resume would only diverge again."""
    folder, answer = diverged
    assert last_round(folder) >= 2
    message = refused(answer, 5, f"diverged in round {last_round(folder) + 1}", "learning_rate")
    assert "coterie resume" not in message


def test_resuming_what_diverged_diverges_again(diverged, tmp_path):
    folder = shutil.copytree(diverged[0], tmp_path / "out")
    answer = coterie("resume", folder, "--threads", 1)
    refused(answer, 5, f"diverged in round {last_round(diverged[0]) + 1}")
    assert last_round(folder) == last_round(diverged[0])


def test_all_checkpoints_are_damaged(diverged, tmp_path):
    folder = shutil.copytree(diverged[0], tmp_path / "out")
    checkpoints = list((folder / "random-seed0" / "checkpoints").iterdir())
    assert len(checkpoints) == 2
    for path in checkpoints:
        path.write_bytes(path.read_bytes()[:-1])
    answer = coterie("resume", folder, "--threads", 1)
    message = refused(answer, 4, *checkpoints, "All 2 checkpoints", "another folder")
    assert "coterie resume" not in message
    assert last_round(folder) == last_round(diverged[0])


# Interruptions, in processes of their own


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, bytes]:
    """Return the tables and models of a longer run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed") / "out"
    assert coterie("run", *LONG, "--out", folder).code == 0
    return results(folder)


def wait_for(is_there: Callable[[], object], process) -> None:
    """Wait until something has happened in a process that goes on."""
    while not is_there():
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)


def first_checkpoint(folder: Path) -> Callable[[], object]:
    """Return whether a run has written its first checkpoint."""
    return lambda: list((folder / "random-seed0" / "checkpoints").glob("round-*.safetensors"))


def test_ctrl_c_and_resume(undisturbed, tmp_path):
    folder = tmp_path / "my run [old]"
    process = start("run", *LONG, "--out", folder)
    wait_for(first_checkpoint(folder), process)
    process.send_signal(signal.SIGINT)
    stopped = end(process)
    assert stopped.code == 130
    assert "Finishing this round" in stopped.err
    assert "Stopped by Ctrl-C after round" in stopped.err
    assert shlex.join(["coterie", "resume", str(folder)]) in stopped.err
    assert "Traceback" not in stopped.err
    assert stopped.out == ""
    resumed = coterie("resume", folder, "--threads", 1)
    assert resumed.code == 0, resumed.err
    assert "│ random" in resumed.out
    assert results(folder) == undisturbed


def test_ctrl_c_before_the_first_round(undisturbed, tmp_path):
    folder = tmp_path / "out"
    process = start("run", *LONG, "--out", folder)
    wait_for((folder / "experiment.yaml").exists, process)
    process.send_signal(signal.SIGINT)
    stopped = end(process)
    assert stopped.code == 130
    assert "Stopped by Ctrl-C" in stopped.err
    assert f"coterie resume {folder}" in stopped.err
    assert "Traceback" not in stopped.err
    assert coterie("resume", folder, "--threads", 1).code == 0
    assert results(folder) == undisturbed


def test_ctrl_c_during_start_up(tmp_path):
    """While torch is being imported, which takes longest."""
    process = start("run", *LONG, "--out", tmp_path / "out")
    maps = Path(f"/proc/{process.pid}/maps")
    wait_for(lambda: "libtorch_cpu" in maps.read_text(), process)
    process.send_signal(signal.SIGINT)
    stopped = end(process)
    assert stopped.code == 130
    assert "Stopped by Ctrl-C" in stopped.err
    assert "Traceback" not in stopped.err
    assert not (tmp_path / "out").exists()


def newest_checkpoint(folder: Path) -> str:
    """Return the name of a run's newest checkpoint; nothing if there is none."""
    there = (folder / "random-seed0" / "checkpoints").glob("round-*.safetensors")
    return max((path.name for path in there), default="")


@pytest.mark.parametrize(
    ("ignored", "sent"),
    [
        ((signal.SIGINT,), signal.SIGTERM),  # `command &` in a script
        ((signal.SIGINT, signal.SIGHUP), signal.SIGTERM),  # `nohup command &` in a script
        ((), signal.SIGHUP),  # a terminal is closed
    ],
)
def test_ignored_signals_stay_ignored_and_others_save(undisturbed, tmp_path, ignored, sent):
    folder = tmp_path / "out"
    process = start("run", *LONG, "--out", folder, ignored=ignored)
    wait_for(first_checkpoint(folder), process)
    for number in ignored:
        process.send_signal(number)
        before = newest_checkpoint(folder)
        wait_for(lambda before=before: newest_checkpoint(folder) > before, process)
    process.send_signal(sent)
    stopped = end(process)
    assert stopped.code == 130
    assert f"Stopped by {sent.name} after round" in stopped.err
    assert "Ctrl-C after" not in stopped.err
    assert f"coterie resume {folder}" in stopped.err
    assert "Traceback" not in stopped.err
    assert coterie("resume", folder, "--threads", 1).code == 0
    assert results(folder) == undisturbed


def test_sigterm_to_the_whole_group_saves_although_workers_train(tmp_path):
    """Schedulers send it so, and `timeout` sends it twice to the program itself."""
    folder = tmp_path / "out"
    torch = ("--threads", 2, "--set", "training.trainer=torch", "--rounds", 300)
    process = start("run", *LONG, *torch, "--out", folder, in_own_group=True)
    wait_for(first_checkpoint(folder), process)
    process.send_signal(signal.SIGTERM)
    os.killpg(process.pid, signal.SIGTERM)
    stopped = end(process)
    assert stopped.code == 130, stopped.err
    assert "after round" in stopped.err
    assert "Traceback" not in stopped.err
    assert newest_checkpoint(folder)


def test_the_disk_is_full(undisturbed, tmp_path):
    """Tables still fit but checkpoints do not, from the second one on."""
    folder = tmp_path / "out"
    process = start("run", *LONG, "--out", folder)
    wait_for(first_checkpoint(folder), process)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    stopped = end(process)
    checkpoints = folder / "random-seed0" / "checkpoints"
    refused(stopped, 4, f"write to {checkpoints}", "Free some space", f"coterie resume {folder}")
    kept = [path.name for path in checkpoints.iterdir()]
    assert kept
    assert all(name.endswith(".safetensors") for name in kept)
    assert read_table(folder / "random-seed0", "metrics").num_rows >= 2 * 8
    assert coterie("resume", folder, "--threads", 1).code == 0
    assert results(folder) == undisturbed


class TestCtrlCInTheLastRound:
    """The run is finished then, but whoever pressed it wants no other to begin."""

    def stop_in_last_round(self, experiment: Experiment, name: str, **how: int) -> None:
        def on_round(run: RunFolder, glimpse: RoundMetrics) -> None:
            if (run.folder.name, glimpse.round) == (name, run.config.rounds):
                os.kill(os.getpid(), signal.SIGINT)

        experiment.run(threads=1, on_round=on_round, tell=len, **how)

    def test_other_runs_do_not_begin(self, tmp_path):
        experiment = create(tmp_path / "out", ["local", "random"], [0], rounds=2)
        with pytest.raises(Interrupted, match="local-seed0 has finished"):
            self.stop_in_last_round(experiment, "local-seed0")
        assert [run.read_summary() is not None for run in experiment.runs] == [True, False]
        assert not (experiment.runs[1].folder / "timings").exists()
        assert len(experiment.run(threads=1)) == 2

    @pytest.mark.parametrize("side_by_side", [1, 2])
    def test_where_nothing_is_left_nothing_is_stopped(self, tmp_path, side_by_side):
        experiment = create(tmp_path / "out", ["random"], [0], rounds=2)
        self.stop_in_last_round(experiment, "random-seed0", side_by_side=side_by_side)
        assert all(run.read_summary() is not None for run in experiment.runs)
        assert experiment.was_asked_to_stop
        experiment.run(threads=1)
        assert not experiment.was_asked_to_stop
