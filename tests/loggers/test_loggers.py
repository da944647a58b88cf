"""Loggers write what the tables have, read back with the programs' own readers, offline."""

from __future__ import annotations

import math

import numpy as np
import pytest
from commands import coterie as command
from commands import plain
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn

import coterie
from coterie import loggers

RNG = np.random.default_rng(0)
PEERS = [(RNG.normal(size=(20, 3)).astype(np.float32), np.arange(20) % 2) for _ in range(3)]
DIGITS = ("run", "digits", "--rounds", 2, "--peers", 6, "--strategy", "local,random")


def simulate(*followers, **more) -> coterie.Result:
    return coterie.simulate(
        lambda: nn.Linear(3, 2), PEERS, "random", {"rounds": 3}, callbacks=followers, **more
    )


def scalars(folder) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder)).Reload()
    return {
        name: [(each.step, each.value) for each in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def means(result: coterie.Result, column: str) -> list[float]:
    table = result.metrics.group_by("round", use_threads=False).aggregate([(column, "mean")])
    return table[f"{column}_mean"].to_pylist()


def test_tensorboard_has_the_means_of_the_tables(tmp_path):
    result = simulate(loggers.TensorBoardLogger(tmp_path))
    found = scalars(tmp_path)
    for column in ("validation_score_trained", "validation_loss_merged", "train_loss"):
        rounds, values = zip(*found[column], strict=True)
        expected = [mean for mean in means(result, column) if not math.isnan(mean)]
        assert list(rounds) == [0, 1, 2, 3][-len(expected) :]
        assert values == pytest.approx(expected, rel=1e-6)
    assert [step for step, _ in found["models_per_peer"]] == [0, 1, 2, 3]
    assert found["models_per_peer"][-1][1] == pytest.approx(
        sum(means(result, f"models_{side}")[-1] for side in ("received", "sent"))
    )


def test_tensorboard_writes_into_the_folder_of_a_run(tmp_path):
    simulate(loggers.TensorBoardLogger(), out=tmp_path / "run")
    assert "test_score" in scalars(tmp_path / "run" / "tensorboard")


@pytest.fixture
def mlflow_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlflow").as_uri())
    return tmp_path / "mlflow"


@pytest.mark.filterwarnings("ignore")
def test_mlflow_has_settings_and_means(mlflow_folder):
    import mlflow

    result = simulate(loggers.MlflowLogger("mine"))
    client = mlflow.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["rounds"] == "3"
    assert run.data.params["strategy.name"] == "random"
    history = client.get_metric_history(run.info.run_id, "validation_loss_trained")
    assert [each.step for each in history] == [0, 1, 2, 3]
    assert [each.value for each in history] == means(result, "validation_loss_trained")


@pytest.mark.filterwarnings("ignore")
def test_a_failed_run_is_marked_as_such(mlflow_folder):
    import mlflow

    class Stop(coterie.Callback):
        def on_round(self, now):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(loggers.MlflowLogger("mine"), Stop())
    client = mlflow.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    assert run.info.status == "KILLED"


@pytest.mark.filterwarnings("ignore")
def test_wandb_writes_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    simulate(loggers.WandbLogger("mine"), out=tmp_path / "run")
    (written,) = (tmp_path / "run").glob("wandb/offline-run-*/run-*.wandb")
    content = written.read_bytes()
    for text in (b"validation_score_trained", b"strategy.name", b"random"):
        assert text in content


def test_each_run_of_a_command_has_its_own_log(tmp_path):
    out = tmp_path / "out"
    assert command(*DIGITS, "--log", "tensorboard", "--out", out).code == 0
    for name in ("local-seed0", "random-seed0"):
        found = scalars(out / name / "tensorboard")
        run = coterie.load_run(out / name)
        last = run.summary.mean
        assert found["test_score"][-1] == (2, pytest.approx(last, rel=1e-6))


def test_an_unknown_logger_is_refused(tmp_path):
    answer = command(*DIGITS, "--log", "excel", "--out", tmp_path / "out")
    assert answer.code == 2
    assert "tensorboard" in plain(answer.err)


@pytest.mark.parametrize(
    ("module", "name", "extra"),
    [
        ("wandb", "WandbLogger", "coterie[wandb]"),
        ("mlflow", "MlflowLogger", "coterie[mlflow]"),
        ("tensorboardX", "TensorBoardLogger", "coterie[tensorboard]"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, module, name, extra):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(coterie.CoterieError) as caught:
        getattr(loggers, name)()
    assert f"pip install '{extra}'" in str(caught.value)
