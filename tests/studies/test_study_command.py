"""coterie study as a user meets it: continued, grown, refused, skipped; and what it writes."""

from __future__ import annotations

import csv
import math
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from commands import contents, coterie, end, plain, refused, start

from coterie.errors import Interrupted
from coterie.experiments.presets import find_preset
from coterie.runtime.run_tables import read_table
from coterie.studies.base import Setting, Study, plan
from coterie.studies.run_study import run_parts
from coterie.studies.study_list import STUDIES

DIGITS = find_preset("digits")
STARTED = ("--seeds", 2, "--rounds", 3, "--threads", 1, "--side-by-side", 1)


def small(changes: dict) -> dict:
    """Return the changes of a small setting."""
    return {"peers.count": 8, "peers.train_size": 12, **changes}


@pytest.fixture(autouse=True, scope="module")
def tiny():
    """Put a study in the catalogue that takes seconds, with one setting that lacks its data."""
    two = {"shift": {"kind": "rotation", "angles": [0, 180]}}
    variants = tuple(DIGITS.compared(["local", "random", "kin"]))
    stale = {"poison.kind": "stale", "poison.count": 3, "poison.cluster": 0}
    poisoned = replace(variants[2], label="kin-stale", changes=stale)
    drift = {"drift": {"kind": "random", "every": 2}}
    study = Study(
        "tiny",
        "Three small settings",
        (
            Setting("calm", "first", "digits", variants, small({})),
            Setting("calm-again", "second", "digits", variants[1:], small({}), "calm"),
            Setting("drifting", "second", "digits", variants[::2], small(drift)),
            Setting("ill", "poison", "digits", (variants[2], poisoned), small(two), "two"),
            Setting("lost", "lost", "digits", variants, small({"data.datasets": ["none.npz"]})),
        ),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STUDIES, "tiny", study)
        yield


@pytest.fixture(scope="module")
def finished(tiny, tmp_path_factory):
    """Return the folder of a study that has been run, and what was printed."""
    folder = tmp_path_factory.mktemp("finished") / "out"
    answer = run("--only", "first,second", "--out", folder)
    assert answer.code == 0, answer.err
    return folder, answer.out


@pytest.fixture
def folder(finished, tmp_path):
    """Return a copy of it, to be changed."""
    return Path(shutil.copytree(finished[0], tmp_path / "out"))


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open() as file:
        return list(csv.DictReader(file))


def listed(folder: Path) -> list[str]:
    return yaml.safe_load((folder / "experiment.yaml").read_text())["runs"]


def run(*options: object) -> object:
    return coterie("study", "tiny", *STARTED, *options)


def test_results_of_a_small_study(finished):
    folder, out = finished
    assert "first: test accuracy %" in out
    assert "second: test accuracy %" in out
    found = rows(folder)
    assert [(row["setting"], row["strategy"], row["seed"]) for row in found[:3]] == [
        ("calm", "local", "1"),
        ("calm", "local", "2"),
        ("calm", "random", "1"),
    ]
    assert len(found) == 6 + 4 + 4
    for row in found:
        assert 0 < float(row["test"]) < 1
        assert 0 < float(row["test_other"]) < 1
        assert (row["rounds"], row["peers"]) == ("3", "8")
        assert (row["harmed"] == "") == (row["strategy"] == "local")
        assert (row["over_time"] == "") == (row["setting"] != "drifting")
        assert (row["never_fetched"] == "") == (row["strategy"] == "local")
        assert float(row["cpu_seconds"]) > 0
    text = (folder / "study.md").read_text()
    for title in ("test accuracy % at the end", "advantage of kin", "over time"):
        assert title in text


def test_settings_of_one_folder_share_its_runs(finished):
    """Also Local, which only one of them compares, is what harm is measured by in both."""
    folder, _ = finished
    first, second = (
        [dict(row, setting="", group="") for row in rows(folder) if row["setting"] == name]
        for name in ("calm", "calm-again")
    )
    assert second == first[2:]
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["calm", "drifting"]


def test_what_honest_peers_lose(tmp_path):
    """Of those in the poisoned cluster, peer by peer, against the same seed without poison."""
    folder = tmp_path / "out"
    assert run("--only", "ill", "--seeds", 1, "--out", folder).code == 0
    clean, poisoned = (
        read_table(folder / "two" / f"{name}-seed1", "metrics").to_pylist()[-8:]
        for name in ("kin", "kin-stale")
    )
    honest = [row["peer"] for row in poisoned if not math.isnan(row["test_score"])]
    assert len(honest) == 5
    (peer,) = (peer for peer in honest if clean[peer]["cluster"] == 0)
    lost = clean[peer]["test_score"] - poisoned[peer]["test_score"]
    found = {row["strategy"]: row["lost"] for row in rows(folder)}
    assert found["kin"] == ""
    assert float(found["kin-stale"]) == pytest.approx(lost, abs=1e-5)


def test_a_study_grows_and_nothing_is_run_twice(folder):
    before = contents(folder / "calm")
    runs = listed(folder / "calm")
    assert run("--only", "calm", "--strategy", "kin", "--seeds", 3, "--out", folder).code == 0
    assert listed(folder / "calm") == [*runs, "kin-seed3"]
    after = contents(folder / "calm")
    assert {name for name in after if after[name] != before.get(name)} == {
        name for name in after if name.startswith("kin-seed3/") or name == "experiment.yaml"
    }
    grown = [
        row["seed"] for row in rows(folder) if (row["setting"], row["strategy"]) == ("calm", "kin")
    ]
    assert grown == ["1", "2", "3"]


def test_what_is_not_asked_for_is_not_run(folder):
    """A run that has not finished waits until it is asked for."""
    waiting = folder / "calm" / "random-seed1" / "summary.json"
    summary = waiting.read_bytes()
    waiting.unlink()
    only = ("--only", "calm", "--out", folder)
    assert run("--strategy", "kin", *only).code == 0
    listing = run(*only, "--list")
    assert listing.code == 0
    assert "5 of 6" in listing.out
    assert not waiting.exists()
    assert run(*only).code == 0
    assert waiting.read_bytes() == summary


def test_other_settings_than_those_that_are_there_are_refused(folder):
    only = ("--only", "calm", "--strategy", "local", "--out", folder)
    before = contents(folder)
    refused(run(*only, "--rounds", 4), 2, "calm/local-seed1", "rounds 4 instead of 3", "--out")
    answer = run(*only, "--set", "training.learning_rate=0.5")
    refused(answer, 2, "training.learning_rate 0.5 instead of 0.001")
    assert contents(folder) == before
    # How often is saved changes no result.
    assert run(*only, "--set", "checkpoint_every=1").code == 0


def test_settings_without_data_are_skipped_and_the_others_run(tmp_path):
    folder = tmp_path / "out"
    only = ("--only", "lost,calm", "--strategy", "local", "--seeds", 1)
    answer = run(*only, "--out", folder)
    assert answer.code == 3
    assert "lost is skipped: none.npz was not found." in answer.err
    assert "1 of 2 settings are not finished." in answer.err
    assert "first: test accuracy %" in plain(answer.out)
    assert {row["setting"] for row in rows(folder)} == {"calm"}


def test_a_list_needs_no_folder_and_writes_nothing(tmp_path):
    answer = coterie("study", "tiny", "--list", "--out", tmp_path / "out")
    assert answer.code == 0
    assert "0 of 9" in answer.out
    assert "calm, calm-again" in answer.out
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("scale", "fetches"), [(1.0, 5), (0.4, 2)])
def test_a_list_says_how_many_models_are_fetched(tmp_path, scale, fetches):
    """Fewer peers fetch fewer models, which changes results: better seen before hours of runs."""
    only = ("--only", "labels2", "--strategy", "local,kin", "--scale", scale)
    answer = coterie("study", "kin", "--list", *only, "--out", tmp_path / "out")
    (row,) = (line for line in answer.out.splitlines() if "friends-cifar-labels2" in line)
    assert [cell.strip() for cell in row.split("│")[5:7]] == [f"{100 * scale:.0f}", str(fetches)]


def test_folders_of_something_else_are_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    refused(run("--out", tmp_path), 4, "it is not empty and holds no study")
    other = tmp_path / "other"
    other.mkdir()
    (other / "study.yaml").write_text("study: another")
    refused(run("--out", other), 4, "does not hold the study tiny")
    refused(coterie("study", "tinny"), 2, "Did you mean 'tiny'?")


@pytest.mark.parametrize("pressed_in", [1, 2])
def test_ctrl_c_in_the_last_round_of_a_setting(tmp_path, pressed_in):
    """What has finished has finished, but no other setting begins."""
    chosen = STUDIES["tiny"].chosen(["first", "second"])
    parts = plan(chosen, ["random", "kin"], [1], {"rounds": 1})
    begun = []

    def run(experiment):
        begun.append(experiment.folder.name)
        experiment.run(threads=1, tell=len)
        experiment.was_asked_to_stop = len(begun) == pressed_in

    if pressed_in == 1:
        with pytest.raises(Interrupted, match="calm has finished"):
            run_parts(tmp_path, parts, run, len)
    else:
        run_parts(tmp_path, parts, run, len)
    assert begun == ["calm", "drifting"][:pressed_in]


def test_ctrl_c_keeps_what_was_run_and_says_how_to_go_on(tmp_path):
    folder = tmp_path / "out"
    asked = ("--only", "ablation-digits", "--strategy", "kin", "--seeds", 1, "--scale", 0.2)
    process = start("study", "kin", *asked, "--rounds", 100_000, "--threads", 1, "--out", folder)
    while process.poll() is None and not list(folder.glob("digits/kin-seed1/metrics/*.parquet")):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    answer = end(process)
    assert answer.code == 130, answer.err
    assert f"Continue with the same command and --out {folder}" in plain(answer.err)
    assert "1 of 1 to run" in answer.err
    assert list(folder.glob("digits/kin-seed1/checkpoints/*"))
