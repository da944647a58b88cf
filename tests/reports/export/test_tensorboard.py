"""`coterie export --tensorboard`, read back with TensorBoard's own reader."""

from __future__ import annotations

import math
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from commands import coterie, refused

from coterie.reports.export.run_curves import clean_names
from coterie.runtime.run_tables import read_table

OPTIONS = ("--peers", 8, "--rounds", 4, "--threads", 1, "--set", "strategy.fetches=2")


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("exporting") / "out"
    options = (*OPTIONS, "--set", "test_every=2", "--strategy", "random,local")
    done = coterie("run", "digits", *options, "--out", folder)
    assert done.code == 0, done.err
    return folder


@pytest.fixture
def runs(original, tmp_path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(original, tmp_path / "out"))


def read(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the curves of an event folder: (round, value) each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reader's own imports
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
        events.Reload()
        return {
            tag: [(event.step, event.value) for event in events.Scalars(tag)]
            for tag in events.Tags()["scalars"]
        }


def expected(run: Path, column: str, cluster: int | None = None) -> list[tuple[int, float]]:
    rows = [
        row
        for row in read_table(run, "metrics").to_pylist()
        if cluster in (None, row["cluster"]) and not math.isnan(row[column])
    ]
    rounds = sorted({row["round"] for row in rows})
    return [(n, np.mean([row[column] for row in rows if row["round"] == n])) for n in rounds]


def assert_curve(found: list[tuple[int, float]], wanted: list[tuple[int, float]]) -> None:
    assert wanted
    assert [step for step, _ in found] == [step for step, _ in wanted]
    assert [value for _, value in found] == pytest.approx([v for _, v in wanted], rel=1e-6)


def test_curves_come_back(runs, tmp_path):
    done = coterie("export", runs, "--tensorboard", tmp_path / "events")
    assert done.code == 0, done.err
    assert "tensorboard --logdir" in done.out
    run, found = runs / "random-seed0", read(tmp_path / "events" / "digits" / "random-seed0")
    for column in (
        "train_loss", "validation_loss_before", "validation_score_merged",
        "validation_score_trained", "test_score", "test_loss",
    ):  # fmt: skip
        assert_curve(found[f"{column}/mean"], expected(run, column))
        assert_curve(found[f"{column}/90"], expected(run, column, cluster=1))
    assert [step for step, _ in found["test_score/mean"]] == [0, 2, 4]
    timings = read_table(run, "timings").to_pylist()
    for name in ("wall_seconds", "cpu_seconds"):
        assert_curve(found[f"time/{name}"], [(row["round"], row[name]) for row in timings])
    # Two fetched and, on average, two given away in each of four rounds.
    assert [value for _, value in found["communication/models_per_peer"]] == [0, 4, 8, 12, 16]
    assert found["communication/megabytes_per_peer"][-1][1] == pytest.approx(16 * 5130 * 4 / 1e6)
    local = read(tmp_path / "events" / "digits" / "local-seed0")
    assert local["communication/models_per_peer"][-1] == (4, 0)


def test_a_second_export_replaces_the_first_and_nothing_else(runs, tmp_path):
    target = tmp_path / "events" / "digits" / "random-seed0"
    coterie("export", runs, "--tensorboard", tmp_path / "events")
    (target / "mine.txt").write_text("keep me")
    (target / "events.out.tfevents.1.mine").write_bytes(b"")
    coterie("export", runs, "--tensorboard", tmp_path / "events")
    assert len(list(target.glob("*.coterie"))) == 1
    assert len(list(target.iterdir())) == 3


def test_a_configuration_cannot_choose_where_files_go(runs, tmp_path):
    config = runs / "local-seed0" / "config.yaml"
    config.write_text(config.read_text().replace("preset: digits", "preset: ../../outside"))
    coterie("export", runs / "local-seed0", "--tensorboard", tmp_path / "deep" / "events")
    (written,) = (tmp_path / "deep").rglob("*.coterie")
    assert written.is_relative_to(tmp_path / "deep" / "events")


def test_a_damaged_run_is_named_and_the_others_are_exported(runs, tmp_path):
    (runs / "local-seed0" / "metrics.parquet").write_bytes(b"nonsense")
    done = coterie("export", runs, "--tensorboard", tmp_path / "events")
    assert done.code == 0
    assert "metrics" in done.err
    assert [path.parent.name for path in tmp_path.rglob("*.coterie")] == ["random-seed0"]


def test_regression_has_no_accuracies(tmp_path):
    small = ("--rounds", 1, "--scale", 0.1, "--threads", 1, "--strategy", "local")
    coterie("run", "friends-synthetic", *small, "--out", tmp_path / "out")
    coterie("export", tmp_path / "out", "--tensorboard", tmp_path / "events")
    found = read(tmp_path / "events" / "friends-synthetic" / "local-seed0")
    assert "test_loss/linear-0" in found
    assert not [tag for tag in found if "accuracy" in tag]


def test_without_the_package_it_says_what_to_install(runs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    answer = coterie("export", runs, "--tensorboard", tmp_path / "events")
    refused(answer, 2, "pip install 'coterie[tensorboard]'")
    assert not (tmp_path / "events").exists()


def test_names_that_would_become_the_same_are_numbered():
    assert clean_names(["0°", "labels 0,1"]) == ["0", "labels_0_1"]
    assert clean_names(["a b", "a,b"]) == ["cluster_0", "cluster_1"]
    assert clean_names(["mean", "x"]) == ["cluster_0", "cluster_1"]
    assert clean_names(["°"]) == ["cluster_0"]
