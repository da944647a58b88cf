"""coterie sweep as a user meets it: tables, files, and what is refused before anything is there."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from commands import contents, coterie, plain, refused

SMALL = ("--peers", 8, "--strategy", "local,dac", "--set", "strategy.fetches=2")
TAUS = ("--vary", "strategy.tau=1,30", "--seeds", 2, *SMALL, "--rounds", 2)
RUNS = [
    "local-seed0", "dac-tau=1-seed0", "dac-tau=30-seed0",
    "local-seed1", "dac-tau=1-seed1", "dac-tau=30-seed1",
]  # fmt: skip


def rows(out: str) -> list[list[str]]:
    lines = [line for line in out.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open() as file:
        return list(csv.DictReader(file))


def comparable(folder: Path) -> dict[str, bytes]:
    """Return all files but those that tell of time, and the traces of processes."""
    different = ("timings.parquet", "started.json", ".lock")
    return {n: c for n, c in contents(folder).items() if not n.endswith(different)}


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Return the folder of a small sweep, run one after another, and what was printed."""
    folder = tmp_path_factory.mktemp("swept") / "out"
    done = coterie(
        "sweep", "digits", *TAUS, "--select", "--side-by-side", 1, "--threads", 1, "--out", folder
    )
    assert done.code == 0, done.err
    return folder, done.out


def test_one_folder_per_run_and_one_line_per_folder(swept):
    folder, _ = swept
    assert yaml.safe_load((folder / "experiment.yaml").read_text())["runs"] == RUNS
    assert [row["run"] for row in table(folder)] == RUNS
    assert [row["strategy.tau"] for row in table(folder)] == ["", "1", "30"] * 2
    for row in table(folder):
        summary = json.loads((folder / row["run"] / "summary.json").read_text())
        assert float(row["validation"]) == summary["validation"]
        assert float(row["test"]) == summary["mean"]
        assert 0 < summary["validation"] < 1
    taus = [read_config(folder / run)["strategy"]["tau"] for run in RUNS if "tau" in run]
    assert taus == [1.0, 30.0] * 2


def read_config(run: Path) -> dict:
    return yaml.safe_load((run / "config.yaml").read_text())


def test_the_table_shows_means_over_seeds(swept):
    folder, out = swept
    assert "accuracy % against strategy.tau" in out
    found = {(label, part): cells for label, part, *cells in rows(out)}
    assert list(found) == [(s, p) for s in ("local", "dac") for p in ("validation", "test")]
    for part in ("validation", "test"):
        for column, run in enumerate(("dac-tau=1", "dac-tau=30")):
            values = [float(r[part]) for r in table(folder) if r["run"].startswith(run + "-")]
            assert len(values) == 2
            assert found["dac", part][column].startswith(f"{sum(values) / 2 * 100:.2f} ± ")
        assert found["dac", part][2] == ""
        assert found["local", part][:2] == ["", ""]
        assert re.match(r"\d+\.\d\d ± \d", found["local", part][2])


def test_the_selected_setting_is_marked_and_can_be_run(swept, tmp_path):
    """The command that is printed gives the very same results."""
    folder, out = swept
    means = {
        tau: sum(float(r["validation"]) for r in table(folder) if r["strategy.tau"] == tau)
        for tau in ("1", "30")
    }
    best = max(means, key=lambda tau: (means[tau], tau == "1"))
    assert f"dac: best by validation with strategy.tau={best}." in out
    marked = {tuple(row[:2]): [n for n, c in enumerate(row[2:]) if "*" in c] for row in rows(out)}
    assert marked["dac", "validation"] == [["1", "30"].index(best)]
    assert marked["dac", "test"] == []
    (command,) = [line for line in out.splitlines() if "coterie run" in line and " dac " in line]
    assert shlex.split(command)[:2] == ["coterie", "run"]
    done = coterie(*shlex.split(command)[1:], "--threads", 1, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    for seed in (0, 1):
        again = tmp_path / "out" / f"dac-seed{seed}" / "metrics.parquet"
        assert (
            again.read_bytes()
            == (folder / f"dac-tau={best}-seed{seed}/metrics.parquet").read_bytes()
        )


def test_the_command_of_a_strategy_leaves_out_what_is_set_for_others(swept, tmp_path):
    """Local fetches nothing, so a run of it alone would refuse strategy.fetches."""
    _, out = swept
    (command,) = [line for line in out.splitlines() if "coterie run" in line and " local " in line]
    done = coterie(*shlex.split(command)[1:], "--threads", 1, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert "--set peers.count=8" in command


def test_side_by_side_gives_the_same_bits(swept, tmp_path):
    done = coterie(
        "sweep", "digits", *TAUS, "--select", "--side-by-side", 3, "--out", tmp_path / "out"
    )
    assert done.code == 0, done.err
    assert comparable(tmp_path / "out") == comparable(swept[0])
    assert done.out.replace(str(tmp_path), str(swept[0].parent)) == swept[1]


def test_resuming_what_has_finished_shows_the_same(swept):
    before = contents(swept[0])
    done = coterie("resume", swept[0])
    assert done.code == 0, done.err
    assert done.out == swept[1]
    assert contents(swept[0]) == before


def test_regression_is_judged_by_loss(tmp_path):
    done = coterie(
        *("sweep", "friends-synthetic", "--vary", "training.learning_rate=0.001,0.0000001"),
        *("--strategy", "local", "--rounds", 2, "--peers", 6, "--select", "--threads", 1),
        *("--out", tmp_path / "out"),
    )
    assert done.code == 0, done.err
    assert "MSE against training.learning_rate" in plain(done.out)
    low, high = sorted(table(tmp_path / "out"), key=lambda row: float(row["validation"]))
    assert low["training.learning_rate"] == "0.001"
    assert float(low["validation"]) < float(high["validation"])
    assert "best by validation with training.learning_rate=0.001" in done.out


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ((), ("--vary",)),
        (("--vary", "strategy.taw=1,2"), ("'taw'", "Did you mean 'tau'")),
        (("--vary", "training.epohcs=1,2"), ("'training.epohcs'", "Did you mean 'epochs'")),
        (("--vary", "strategy.tau="), ("no values",)),
        (("--vary", "strategy.tau=1,1.0"), ("are equal",)),
        (("--vary", "strategy.tau=1,many"), ("tau", "'many'")),
        (("--vary", "strategy.name=dac,random"), ("--strategy",)),
        (("--vary", "rounds=1,2"), ("'rounds' is varied and also set to 2",)),
        (("--vary", f"strategy.tau={','.join(map(str, range(600)))}"), ("1,202 runs", "1,000")),
        (("--vary", "peers.train_size=8,100000"), ("800,080 images", "peers.train_size")),
        (("--vary", "strategy.tau=1,2", "--scale", "2"), ("--scale 2",)),
        (("--vary", "strategy.tau=1,2", "--strategy", "random"), ("random", "'tau'")),
    ],
)
def test_mistakes_are_found_before_anything_is_written(arguments, parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = coterie("sweep", "digits", *SMALL, "--rounds", 2, "--seeds", 2, *arguments)
    refused(answer, 3 if "800,080 images" in parts else 2, *parts)
    assert not any(tmp_path.iterdir())


# Failures, interruptions and kills, with runs side by side


LONG = ("--set", "checkpoint_every=1", "--rounds", 40, "--set", "drift={kind: random, every: 10}")
SWEEP = ("sweep", "digits", "--vary", "strategy.tau=1,5,30", *SMALL, *LONG)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, bytes]:
    """Return the files of a sweep under drift that ran one after another."""
    folder = tmp_path_factory.mktemp("undisturbed") / "out"
    done = coterie(*SWEEP, "--side-by-side", 1, "--threads", 1, "--out", folder)
    assert done.code == 0, done.err
    return comparable(folder)


def begin(folder: Path, *more: object) -> subprocess.Popen[str]:
    """Start the sweep, two runs at a time, in a group of its own, until both have a checkpoint."""
    arguments = (*SWEEP, "--side-by-side", 2, *more, "--out", folder)
    process = subprocess.Popen(
        [sys.executable, "-m", "coterie", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while len({path.parent for path in folder.glob("*/checkpoints/round-*.safetensors")}) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    return process


def workers(process: subprocess.Popen[str]) -> list[int]:
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(number) for number in found.split()]


def wait_until_gone(group: int) -> None:
    """Wait until no process of a group is left."""
    deadline = time.monotonic() + 60
    while True:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        assert time.monotonic() < deadline, "worker processes survived"
        time.sleep(0.05)


def test_side_by_side_under_drift(undisturbed, tmp_path):
    """Data that change at a shift are not shared between runs that are in different rounds."""
    done = coterie(*SWEEP, "--side-by-side", 2, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert comparable(tmp_path / "out") == undisturbed


def test_ctrl_c_saves_all_runs(undisturbed, tmp_path):
    """Ctrl-C in a terminal goes to the whole group."""
    folder = tmp_path / "out"
    process = begin(folder)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert err.count("Finishing this round") == 1
    assert "Stopped by Ctrl-C" in err
    assert f"coterie resume {folder}" in err
    assert "Traceback" not in err
    wait_until_gone(process.pid)
    assert len(list(folder.glob("*/summary.json"))) < 4
    done = coterie("resume", folder, "--side-by-side", 2)
    assert done.code == 0, done.err
    assert comparable(folder) == undisturbed


def test_kill_9_and_resume(undisturbed, tmp_path):
    folder = tmp_path / "out"
    process = begin(folder)
    process.kill()
    process.communicate()
    wait_until_gone(process.pid)
    done = coterie("resume", folder)
    assert done.code == 0, done.err
    assert "against strategy.tau" in done.out
    assert comparable(folder) == undisturbed


def test_a_killed_worker_does_not_cost_the_others(undisturbed, tmp_path):
    """As when memory runs out: who runs goes on, nobody else is started."""
    folder = tmp_path / "out"
    process = begin(folder)
    os.kill(workers(process)[0], signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 5, err
    assert "was killed (SIGKILL)" in err
    assert "--side-by-side" in err
    assert err.count("Error") == 1
    assert f"Continue with: coterie resume {folder}" in err
    finished = len(list(folder.glob("*/summary.json")))
    assert finished >= 1
    assert f"{4 - finished - 1} other runs were not started" in err or finished == 3
    assert "against strategy.tau" in out
    done = coterie("resume", folder, "--side-by-side", 2)
    assert done.code == 0, done.err
    assert comparable(folder) == undisturbed


@pytest.mark.parametrize("side_by_side", [1, 2])
def test_a_run_that_diverges_leaves_the_others_alone(tmp_path, side_by_side):
    """Those that follow are run too, and what they reached is shown."""
    folder = tmp_path / "out"
    done = coterie(
        *("sweep", "digits", "--vary", "training.learning_rate=1.0e+30,0.001,0.01"),
        *("--peers", 8, "--rounds", 1, "--set", "training.optimizer=sgd", "--strategy", "local"),
        "--select",
        *("--side-by-side", side_by_side, "--threads", side_by_side, "--out", folder),
    )
    assert done.code == 5
    assert "local-learning_rate=1.0e+30-seed0: Training diverged in round 0" in done.err
    assert done.err.count("Error") == 1
    assert "Traceback" not in done.err
    numbers = [row["validation"] for row in table(folder)]
    assert [bool(number) for number in numbers] == [False, True, True]
    assert rows(done.out)[0][2] == "–"
    assert "best by validation with training.learning_rate=0.0" in done.out
