"""Runs in notebooks: `coterie.load_run` and `coterie.load_runs`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import coterie as command
from docstrings import check, examples

import coterie
import coterie.api.saved_runs
from coterie.experiments.config import make_scenario
from coterie.runtime.recorder import Recorder
from coterie.runtime.run_tables import SCHEMAS, read_table

OPTIONS = ("--peers", 8, "--rounds", 3, "--threads", 1, "--set", "strategy.fetches=2")


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("loading") / "out"
    done = command("run", "digits", *OPTIONS, "--strategy", "dac,local", "--out", folder)
    assert done.code == 0, done.err
    return folder


@pytest.fixture
def folder(original, tmp_path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(original, tmp_path / "out"))


def test_everything_a_run_has(folder):
    run = coterie.load_run(folder / "dac-seed0")
    assert (run.label, run.seed, run.last_round, run.is_finished) == ("dac", 0, 3, True)
    assert run.config.peers.count == 8
    assert run.cluster_names == ("0°", "90°", "180°", "270°")
    assert run.summary.mean == json.loads((run.folder / "summary.json").read_text())["mean"]
    assert run.software["coterie"] == coterie.__version__
    for name in SCHEMAS:
        assert getattr(run, name) is run.table(name)
        assert run.table(name).schema == SCHEMAS[name]
        assert run.table(name).num_rows == read_table(run.folder, name).num_rows
    assert run.beliefs.num_rows > 0


@pytest.mark.parametrize(
    "test",
    [each for each in examples(coterie.api.saved_runs) if "load_run" in each.name],
    ids=lambda test: test.name,
)
def test_examples_of_docstrings_run(original, tmp_path, monkeypatch, test):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "mine").symlink_to(original)
    monkeypatch.chdir(tmp_path)
    check(test)


def test_a_table_that_is_not_there_is_empty(folder):
    (folder / "dac-seed0" / "beliefs.parquet").unlink()
    assert coterie.load_run(folder / "dac-seed0").beliefs.num_rows == 0


def test_models_are_mapped_and_safe_from_changes(folder):
    run = coterie.load_run(folder / "dac-seed0")
    assert isinstance(run.models, np.memmap)
    assert run.models.shape == (8, run.layout.size)
    with pytest.raises(ValueError, match="read-only"):
        run.models[0, 0] = 1.0


def test_a_model_reaches_the_accuracy_that_was_recorded(folder):
    run = coterie.load_run(folder / "dac-seed0")
    scenario = make_scenario(run.config)
    last = run.metrics.to_pylist()[-8:]
    for peer, samples in enumerate(scenario.load_step(0)):
        pool = scenario.pools[samples.test.pool]
        module = run.load_into(run.build_model(), peer).eval()
        rows = samples.test.rows()
        with torch.no_grad():
            guessed = module(torch.as_tensor(pool.inputs[rows])).argmax(dim=1).numpy()
        assert (guessed == pool.targets[rows]).mean() == pytest.approx(last[peer]["test_score"])


def test_an_unfinished_run(folder):
    run = folder / "dac-seed0"
    (run / "summary.json").unlink()
    (run / "models.safetensors").unlink()
    Recorder(run).rewind(2)
    loaded = coterie.load_run(run)
    assert (loaded.last_round, loaded.is_finished) == (1, False)
    assert loaded.metrics.num_rows == 2 * 8
    assert "round 1 of 3, not finished" in repr(loaded)
    with pytest.raises(coterie.CoterieError, match="when a run has finished"):
        _ = loaded.models


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:100],
        lambda data: data[:-4],
        lambda data: (2**60).to_bytes(8, "little") + data[8:],
        lambda data: data.replace(b'"best"', b'"bets"'),
        lambda data: data.replace(b"[8, ", b"[4, "),
        lambda data: data.replace(b'"F32"', b'"F64"'),
    ],
)
def test_damaged_models_are_an_error_for_people(folder, damage):
    path = folder / "dac-seed0" / "models.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(coterie.CoterieError, match=r"models\.safetensors"):
        _ = coterie.load_run(folder / "dac-seed0").models


def test_models_of_another_architecture_are_refused(folder):
    config = folder / "dac-seed0" / "config.yaml"
    config.write_text(config.read_text().replace("name: digits-cnn", "name: cifar-cnn"))
    with pytest.raises(coterie.CoterieError, match="no 'cifar-cnn' has"):
        _ = coterie.load_run(folder / "dac-seed0").layout


def test_runs_of_a_folder_side_by_side(folder):
    runs = coterie.load_runs(folder)
    assert [run.label for run in runs] == ["dac", "local"]
    table = runs.table("metrics")
    assert table.column_names[:3] == ["strategy", "seed", "round"]
    assert table.num_rows == 2 * 4 * 8
    assert [run.label for run in runs[1:]] == ["local"]
    assert repr(runs).startswith("<2 runs>")


def test_what_cannot_be_read_is_left_out_and_told(folder):
    (folder / "dac-seed0" / "metrics.parquet").write_bytes(b"nonsense")
    runs = coterie.load_runs(folder)
    assert [run.label for run in runs] == ["local"]
    assert "metrics" in runs.problems[0]
    with pytest.raises(coterie.CoterieError, match="metrics"):
        coterie.load_run(folder / "dac-seed0")


def test_one_run_has_to_be_named(folder, tmp_path):
    with pytest.raises(coterie.CoterieError, match="has 2 runs: dac-seed0, local-seed0"):
        coterie.load_run(folder)
    with pytest.raises(coterie.CoterieError, match="no folder"):
        coterie.load_run(tmp_path / "nothing")
    with pytest.raises(coterie.CoterieError, match="no table 'metric'"):
        coterie.load_run(folder / "dac-seed0").table("metric")
