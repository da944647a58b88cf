"""Good use of the command line: what is printed, and what is in the folder afterwards."""

from __future__ import annotations

import json
import re
import signal
import time
from importlib import metadata

import numpy as np
import pytest
import yaml
from commands import contents, coterie, end, start
from safetensors import safe_open

from coterie.data.cifar import CIFAR10
from coterie.data.dataset_catalogue import DATASETS
from coterie.experiments.config import RunConfig, config_to_yaml, read_config
from coterie.experiments.presets import PRESETS, find_preset
from coterie.models.architectures import ARCHITECTURES
from coterie.runtime.run_tables import read_table
from coterie.strategies import STRATEGIES

SMALL = ("--peers", 8, "--rounds", 2, "--threads", 1)
ONE = (*SMALL, "--strategy", "random", "--set", "strategy.fetches=2")


def rows(out: str) -> dict[str, list[str]]:
    """Return the cells of a printed table by their row's first cell."""
    lines = [line for line in out.splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]
    return {first: rest for first, *rest in cells}


def test_run_compares_five_strategies(tmp_path):
    done = coterie("run", "digits", *SMALL, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    table = rows(done.out)
    assert list(table) == ["local", "random", "dac", "oracle", "kin"]
    for title in ("test accuracy %", "0°", "90°", "180°", "270°", "mean", "models", "MB", "seeds"):
        assert title in done.out
    assert all(0 < float(cells[4]) < 100 for cells in table.values())
    # Local exchanges nothing; Random and Kin fetch 5 models a round, and 5 are fetched from them.
    assert table["local"][5] == "0"
    assert table["random"][5] == table["kin"][5] == "20"
    assert f"All files are in {tmp_path / 'out'}" in done.out
    assert "±" not in done.out


def test_several_seeds_give_confidence_intervals(tmp_path):
    """One line for each strategy also where no terminal limits the width."""
    done = coterie("run", *ONE, "--seed", 3, "--seeds", 2, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    cells = rows(done.out)["random"]
    assert all(re.fullmatch(r"\d+\.\d\d ± \d+\.\d\d", cell) for cell in cells[:5])
    assert cells[-1] == "2"
    runs = sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_dir())
    assert runs == ["random-seed3", "random-seed4"]
    files = [contents(tmp_path / "out" / name)["metrics.parquet"] for name in runs]
    assert files[0] != files[1]


def test_without_out_every_run_gets_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        done = coterie("run", *ONE, "--rounds", 0)
        assert done.code == 0, done.err
    folders = list((tmp_path / "runs").iterdir())
    assert len(folders) == 2
    assert all((folder / "random-seed0" / "summary.json").exists() for folder in folders)


def test_an_option_reaches_the_strategies_that_have_it(tmp_path):
    """Local has no number of fetches, but the digits preset compares with it by default."""
    done = coterie("run", *SMALL, "--set", "strategy.fetches=1", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert [rows(done.out)[name][5] for name in ("local", "random", "oracle")] == ["0", "4", "4"]


def test_all_the_other_strategies_run(tmp_path):
    done = coterie("run", *SMALL, "--strategy", "gossip, fedavg,central", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert list(rows(done.out)) == ["gossip", "fedavg", "central"]
    assert rows(done.out)["central"][5] == "0"


def test_list_names_everything():
    done = coterie("list")
    assert done.code == 0
    for names in (PRESETS, STRATEGIES, ARCHITECTURES, DATASETS):
        assert names
        for name in names:
            assert re.search(rf"^ *{re.escape(name)} ", done.out, re.MULTILINE), name


def test_data_says_what_is_here(tmp_path, monkeypatch):
    monkeypatch.setenv("COTERIE_OFFLINE", "1")
    (tmp_path / "cifar-100-binary").mkdir()
    done = coterie("data", "--data-root", tmp_path)
    assert done.code == 0
    here = {name: cells[0] for name, cells in rows(done.out).items() if name in DATASETS}
    assert here == {name: "yes" if name in ("digits", "cifar100") else "no" for name in DATASETS}


def test_data_gives_addresses_in_full(tmp_path):
    """An address that ends in … cannot be used."""
    done = coterie("data", "--data-root", tmp_path)
    lines = [line for line in done.out.splitlines() if line.startswith("│")]
    last_column = "".join(line.strip("│").split("│")[-1].strip() for line in lines)
    assert CIFAR10.binary.archive.url in last_column


@pytest.mark.parametrize(
    "drift", [("drift.kind=random", "drift.every=1"), ("drift.every=1", "drift.kind=random")]
)
def test_set_changes_single_settings_and_whole_groups(tmp_path, drift):
    changes = (
        "training.epochs=1",
        "training.learning_rate=3e-4",
        "shift={kind: labels, groups: [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]}",
        "peers.sizes={kind: skewed, exponent: 1}",
        "peers.clusters=[1, 3]",
        "patience=",
        *drift,
    )
    options = [part for change in changes for part in ("--set", change)]
    done = coterie("run", *ONE, *options, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    config = read_config(tmp_path / "out" / "random-seed0" / "config.yaml")
    assert (config.training.epochs, config.training.learning_rate) == (1, 3e-4)
    assert config.shift.groups == ((0, 1, 2, 3, 4), (5, 6, 7, 8, 9))
    assert config.peers.sizes.exponent == 1
    assert (config.drift.kind, config.drift.every) == ("random", 1)
    assert (config.peers.count, config.rounds, config.strategy["fetches"]) == (8, 2, 2)
    first = read_table(tmp_path / "out" / "random-seed0", "metrics").slice(0, 8)
    assert np.bincount(first["cluster"].to_numpy()).tolist() == [2, 6]


def test_the_number_of_threads_does_not_change_a_byte(tmp_path):
    for threads in (1, 2):
        done = coterie("run", *ONE, "--threads", threads, "--out", tmp_path / str(threads))
        assert done.code == 0, done.err
    one, two = (contents(tmp_path / name / "random-seed0") for name in ("1", "2"))
    assert one.keys() == two.keys()
    for name in ("metrics", "exchanges", "neighbours"):
        assert one[f"{name}.parquet"] == two[f"{name}.parquet"]
    assert one["models.safetensors"] == two["models.safetensors"]


def test_what_a_run_folder_holds(tmp_path):
    assert coterie("run", *ONE, "--out", tmp_path / "out").code == 0
    folder = tmp_path / "out" / "random-seed0"
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert names == {
        "config.yaml",
        "clusters.json",
        "score.json",
        "software.json",
        "started.json",
        "metrics.parquet",
        "exchanges.parquet",
        "neighbours.parquet",
        "timings.parquet",
        "models.safetensors",
        "summary.json",
    }
    versions = json.loads((folder / "software.json").read_text())
    for package in ("coterie", "torch", "numpy", "pyarrow"):
        assert versions[package] == metadata.version(package)
    assert versions["python"]
    with safe_open(folder / "models.safetensors", framework="numpy") as file:
        models = file.get_tensor("best")
    assert models.shape == (8, ARCHITECTURES["digits-cnn"].num_parameters)
    assert np.isfinite(models).all()
    assert read_table(folder, "metrics").num_rows == 3 * 8


def test_the_saved_configuration_is_complete(tmp_path):
    assert coterie("run", *ONE, "--seed", 5, "--out", tmp_path / "out").code == 0
    path = tmp_path / "out" / "random-seed5" / "config.yaml"
    changes = {"peers.count": 8, "rounds": 2, "strategy.fetches": 2}
    [expected] = find_preset("digits").runs(["random"], [5], changes)
    assert read_config(path) == expected
    assert yaml.safe_load(path.read_text()) == expected.model_dump(mode="json")
    assert set(yaml.safe_load(path.read_text())) == set(RunConfig.model_fields)
    assert config_to_yaml(read_config(path)) == path.read_text()


def test_regression_prints_errors_and_the_oracle_wins(tmp_path):
    done = coterie(
        *("run", "friends-synthetic", "--peers", 9, "--rounds", 8, "--threads", 1),
        *("--strategy", "random,oracle", "--set", "strategy.fetches=2", "--out", tmp_path / "out"),
    )
    assert done.code == 0, done.err
    assert "test MSE" in done.out
    mean = {name: float(cells[3]) for name, cells in rows(done.out).items()}
    assert mean["oracle"] < mean["random"] / 3
    models = tmp_path / "out" / "oracle-seed0" / "models.safetensors"
    with safe_open(models, framework="numpy") as file:
        assert file.get_tensor("best").shape == (9, 11)


def test_drift_moves_peers_to_other_clusters(tmp_path):
    done = coterie(
        *("run", "digits-drift", *ONE, "--rounds", 4, "--set", "drift.every=2"),
        *("--out", tmp_path / "out"),
    )
    assert done.code == 0, done.err
    metrics = read_table(tmp_path / "out" / "random-seed0", "metrics")
    steps = metrics["step"].to_numpy().reshape(5, 8)
    clusters = metrics["cluster"].to_numpy().reshape(5, 8)
    assert steps[:, 0].tolist() == [0, 0, 0, 1, 1]
    assert np.array_equal(clusters[0], clusters[2])
    assert not np.array_equal(clusters[2], clusters[3])
    assert np.array_equal(np.sort(clusters[2]), np.sort(clusters[3]))


def test_tables_can_be_read_and_nothing_be_disturbed_while_a_run_goes_on(tmp_path):
    folder = tmp_path / "out"
    process = start("run", *ONE, "--rounds", 15, "--set", "checkpoint_every=1", "--out", folder)
    run = folder / "random-seed0"
    seen = 0
    while seen < 16 and process.poll() is None:
        seen = read_table(run, "metrics").num_rows
        time.sleep(0.01)
    process.send_signal(signal.SIGSTOP)  # else it might end before the second one begins
    still_running = process.poll() is None
    second = coterie("resume", folder, "--threads", 1)
    process.send_signal(signal.SIGCONT)
    done = end(process)
    assert done.code == 0, done.err
    assert still_running
    assert seen % 8 == 0
    assert read_table(run, "metrics").num_rows == 16 * 8
    # A second process on the same run would mix up its files.
    assert second.code == 4
    assert str(run) in second.err


def test_an_output_folder_with_brackets_is_named_as_it_is(tmp_path):
    """Square brackets are markup to the library that prints."""
    for name in ("run[old]", "run[", "x]"):
        (tmp_path / name).mkdir()
    for folder in (tmp_path / "run[old]", tmp_path / "run[" / "x]"):
        done = coterie("run", *ONE, "--rounds", 0, "--out", folder)
        assert done.code == 0, done.err
        assert f"All files are in {folder}" in done.out
    assert (
        "All files are in " + str(tmp_path / "run[old]")
        in coterie("resume", tmp_path / "run[old]").out
    )


def test_help_names_the_exit_codes():
    done = coterie("--help")
    assert done.code == 0
    for word in ("run", "resume", "list", "data", "130 Ctrl-C"):
        assert word in " ".join(done.out.split())


def test_the_version_is_that_of_the_package():
    done = coterie("--version")
    assert done.code == 0
    assert done.out == f"coterie {metadata.version('coterie')}\n"
