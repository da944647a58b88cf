"""Runs of several folders are found, told apart, and named alike wherever they lie."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from commands import coterie

from coterie.errors import StorageError
from coterie.results.read_runs import read_runs
from coterie.runtime.recorder import Recorder
from coterie.tasks.score import ACCURACY

OPTIONS = ("--peers", 8, "--rounds", 4, "--threads", 1, "--set", "strategy.fetches=2")


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("gathering") / "out"
    options = (*OPTIONS, "--set", "test_every=2", "--strategy", "random,local", "--seeds", 2)
    done = coterie("run", "digits", *options, "--out", folder)
    assert done.code == 0, done.err
    return folder


@pytest.fixture
def runs(original, tmp_path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(original, tmp_path / "out"))


def stop(run: Path, next_round: int) -> None:
    """Make a run one that was stopped before a round."""
    (run / "summary.json").unlink()
    Recorder(run).rewind(next_round)


def test_runs_come_in_order_and_by_label(runs):
    found = read_runs([runs])
    assert [(run.label, run.seed) for run in found] == [
        ("random", 0),
        ("local", 0),
        ("random", 1),
        ("local", 1),
    ]
    assert {label: len(same) for label, same in found.by_label().items()} == {
        "random": 2,
        "local": 2,
    }
    assert found.problems == ()


def test_an_unfinished_run_has_what_it_had_at_its_last_test(runs):
    whole = read_runs([runs])[0]
    stop(runs / "random-seed0", 4)
    run = read_runs([runs])[0]
    assert (run.finished, run.last_tested, run.last_round) == (None, 2, 3)
    assert run.score == ACCURACY
    assert run.cluster_names == whole.cluster_names == ("0°", "90°", "180°", "270°")
    tested = [row for row in whole.table("metrics").to_pylist() if row["round"] == 2]
    assert run.summary.mean == pytest.approx(sum(row["test_score"] for row in tested) / 8)
    assert run.summary.models_per_peer == 8


def test_an_unfinished_run_names_its_clusters(runs):
    stop(runs / "random-seed0", 4)
    (run,) = read_runs([runs / "random-seed0"])
    assert run.cluster_names == ("0°", "90°", "180°", "270°")


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text('{"no": "list"}')])
def test_clusters_that_nobody_names_are_numbered(runs, damage):
    stop(runs / "random-seed0", 4)
    damage(runs / "random-seed0" / "clusters.json")
    run = read_runs([runs / "random-seed0"])[0]
    assert run.cluster_names == ("cluster 0", "cluster 1", "cluster 2", "cluster 3")


def test_of_two_runs_with_one_seed_the_finished_one_counts(runs, tmp_path):
    other = Path(shutil.copytree(runs, tmp_path / "other"))
    stop(runs / "random-seed0", 4)
    found = read_runs([runs / "random-seed0", other / "random-seed0"])
    (run,) = found
    assert run.folder == other / "random-seed0"
    assert str(runs / "random-seed0") in found.problems[0]


def test_a_folder_that_is_named_twice_counts_once(runs):
    found = read_runs([runs, runs / "local-seed0", runs / ".." / runs.name])
    assert len(found) == 4
    assert found.problems == ()


def test_what_changes_no_result_does_not_tell_runs_apart(runs):
    config = runs / "random-seed1" / "config.yaml"
    config.write_text(config.read_text().replace("test_every: 2", "test_every: 1"))
    assert list(read_runs([runs]).by_label()) == ["random", "local"]
    config.write_text(config.read_text().replace("epochs: ", "epochs: 1"))
    assert list(read_runs([runs]).by_label()) == ["random (out)", "local", "random (out 2)"]


def test_a_folder_of_output_folders_has_all_their_runs(original, tmp_path):
    study = tmp_path / "study"
    for name, preset in (("first", "digits"), ("second", "digits"), ("third", "digits-methods")):
        shutil.copytree(original, study / name)
        for config in study.glob(f"{name}/*/config.yaml"):
            text = config.read_text().replace("preset: digits\n", f"preset: {preset}\n")
            text = text.replace("rounds: 4\n", "rounds: 5\n") if name == "second" else text
            config.write_text(text)
    found = read_runs([study])
    assert found.problems == ()
    labels = {run.folder.parent.name: run.label for run in found if run.seed == 0}
    assert len(found) == 12
    # Only where two of a name would stand in one table are they told apart.
    assert labels == {"first": "local (first)", "second": "local (second)", "third": "local"}


def test_runs_without_a_round_are_told(runs):
    stop(runs / "random-seed0", 0)
    found = read_runs([runs])
    assert len(found) == 3
    assert "random-seed0 has not recorded a round yet" in found.problems[0]
    with pytest.raises(StorageError, match="no run to read"):
        read_runs([runs / "random-seed0"])


def test_a_sweep_names_what_varies(tmp_path):
    options = ("--strategy", "random", "--vary", "strategy.fetches=1,2", "--peers", 8)
    coterie("sweep", "digits", *options, "--rounds", 1, "--threads", 1, "--out", tmp_path / "out")
    labels = list(read_runs([tmp_path / "out"]).by_label())
    assert labels == ["random strategy.fetches=1", "random strategy.fetches=2"]
