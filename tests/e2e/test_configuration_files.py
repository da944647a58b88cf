"""`coterie run FILE.yaml`: what a configuration says, bit for bit, with changes on top."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml
from commands import Answer, contents, coterie, refused

from coterie.experiments.config import read_config
from coterie.experiments.experiment import Experiment

RUN = ("--peers", 8, "--rounds", 2, "--threads", 1, "--set", "strategy.fetches=2")
SAME = ("metrics.parquet", "exchanges.parquet", "neighbours.parquet", "models.safetensors")


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    """Return the folder of an experiment of two strategies with two seeds."""
    folder = tmp_path_factory.mktemp("original") / "out"
    seeds = ("--seed", 3, "--seeds", 2, "--strategy", "local,random")
    done = coterie("run", "digits-drift", *RUN, *seeds, "--set", "drift.every=1", "--out", folder)
    assert done.code == 0, done.err
    return folder


def again(what: Path, folder: Path, *more: object) -> Answer:
    return coterie("run", what, "--threads", 1, *more, "--out", folder)


def files(run: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(run).items() if name in SAME}


def test_a_run_is_repeated_bit_for_bit(original, tmp_path):
    run = original / "random-seed4"
    for name, what in {"file": run / "config.yaml", "folder": run}.items():
        done = again(what, tmp_path / name)
        assert done.code == 0, done.err
        (repeated,) = Experiment.open(tmp_path / name).runs
        assert repeated.folder.name == run.name
        assert repeated.config == read_config(run / "config.yaml")
        assert len(files(run)) == len(SAME)
        assert files(repeated.folder) == files(run)


def test_a_whole_experiment_is_repeated(original, tmp_path):
    done = again(original / "experiment.yaml", tmp_path / "out")
    assert done.code == 0, done.err
    there, repeated = Experiment.open(original).runs, Experiment.open(tmp_path / "out").runs
    assert [run.folder.name for run in repeated] == [run.folder.name for run in there]
    for run, other in zip(there, repeated, strict=True):
        assert run.config == other.config
        assert files(run.folder) == files(other.folder)


def test_changes_come_on_top(original, tmp_path):
    done = again(
        original / "random-seed4" / "config.yaml",
        tmp_path / "out",
        *("--rounds", 1, "--seed", 7, "--seeds", 2, "--set", "training.epochs=1"),
    )
    assert done.code == 0, done.err
    before = read_config(original / "random-seed4" / "config.yaml").model_dump()
    for seed, run in zip((7, 8), Experiment.open(tmp_path / "out").runs, strict=True):
        now = run.config.model_dump()
        assert (now.pop("rounds"), now.pop("seed")) == (1, seed)
        assert now["training"]["epochs"] == 1
        expected = {**before, "training": {**before["training"], "epochs": 1}}
        assert now == {key: expected[key] for key in now}


def test_other_strategies_can_be_compared_in_its_setting(original, tmp_path):
    what = original / "random-seed4" / "config.yaml"
    done = again(what, tmp_path / "out", "--strategy", "random,oracle")
    assert done.code == 0, done.err
    _, oracle = Experiment.open(tmp_path / "out").runs
    assert (oracle.config.label, oracle.config.seed) == ("oracle", 4)
    assert oracle.config.strategy["fetches"] == 2
    assert oracle.config.drift == read_config(what).drift


def test_what_a_user_wrote(tmp_path):
    """Most settings have defaults; what has no label is called by its strategy."""
    path = tmp_path / "mine.yml"
    strategy = {"name": "random", "fetches": 2}
    peers = {"count": 6, "train_size": 20, "validation_size": 10}
    path.write_text(yaml.safe_dump({"rounds": 1, "peers": peers, "strategy": strategy}))
    done = again(path, tmp_path / "out")
    assert done.code == 0, done.err
    assert "│ random" in done.out
    assert (tmp_path / "out" / "random-seed0" / "summary.json").exists()


def test_a_swept_configuration(original, tmp_path):
    what = original / "random-seed4" / "config.yaml"
    varied = ("--vary", "training.epochs=1,2", "--rounds", 0)
    done = coterie("sweep", what, *varied, "--threads", 1, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    refused(coterie("run", tmp_path / "out"), 2, "sweep", "training.epochs", "config.yaml")


@pytest.mark.parametrize(
    ("text", "code", "parts"),
    [
        (None, 4, ("There is no file", "config.yaml")),
        ("[1, 2]", 2, ("is not a configuration",)),
        ("a: [", 4, ("Cannot read the configuration",)),
        ("rounds: 3", 2, ("'peers' is missing",)),
        ("roundz: 3", 2, ("'roundz'", "Did you mean 'rounds'")),
    ],
)
def test_a_file_that_cannot_be_run(tmp_path, text, code, parts):
    path = tmp_path / "config.yaml"
    if text is not None:
        path.write_text(text)
    refused(coterie("run", path, "--out", tmp_path / "out"), code, path, *parts)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_no_run(tmp_path):
    refused(coterie("run", tmp_path), 4, tmp_path, "contains no run")


def test_a_preset_of_the_same_name_comes_first(original, tmp_path, monkeypatch):
    shutil.copytree(original, tmp_path / "digits")
    monkeypatch.chdir(tmp_path)
    done = coterie("run", "digits", *RUN, "--strategy", "random", "--out", "out")
    assert done.code == 0, done.err
    assert Experiment.open(tmp_path / "out").runs[0].config.preset == "digits"


def test_runs_of_different_settings_are_repeated_one_by_one(original, tmp_path):
    folder = shutil.copytree(original, tmp_path / "old")
    path = folder / "random-seed4" / "config.yaml"
    path.write_text(path.read_text().replace("test_every: 10", "test_every: 1"))
    refused(coterie("run", folder), 2, "experiment.yaml", "one of its runs")
