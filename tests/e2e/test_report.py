"""`coterie report` as a user meets it: whole folders, damaged ones, and those still running."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from commands import SMALL, coterie, refused


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "runs"
    options = ("--peers", 8, "--rounds", 2, "--threads", 1, "--strategy", "local,random")
    answer = coterie("run", *options, "--seeds", 2, "--out", folder)
    assert answer.code == 0, answer
    return folder


@pytest.fixture
def copied(experiment, tmp_path):
    return shutil.copytree(experiment, tmp_path / "runs")


def told(target):
    text = target.read_text(encoding="utf-8")
    inside = re.search(r'id="page-data">(.*?)</script>', text, re.S)
    return json.loads(inside[1])["groups"]


def test_one_page_about_all_runs(experiment, tmp_path):
    target = tmp_path / "report.html"
    answer = coterie("report", experiment, "-o", target)
    assert answer.code == 0, answer
    assert f"4 runs are in {target}" in answer.out
    [group] = told(target)
    assert group["title"] == "digits: local, random"
    problems = group["views"]["summary"]["problems"]
    assert all("no better than untrained" in each for each in problems), "after two rounds"
    assert len(group["views"]["gains"]["runs"]) == 2
    assert str(experiment) not in target.read_text(encoding="utf-8")


def test_the_same_runs_make_the_same_page(experiment, tmp_path):
    for name in ("one.html", "two.html"):
        assert coterie("report", experiment, "-o", tmp_path / name).code == 0
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_damaged_tables_cost_only_what_they_would_show(copied, tmp_path):
    (copied / "random-seed0" / "exchanges.parquet").write_bytes(b"no table")
    (copied / "random-seed1" / "metrics.parquet").write_bytes(b"no table")
    (copied / "local-seed1" / "config.yaml").write_text("rounds: [")
    target = tmp_path / "report.html"
    answer = coterie("report", copied, "-o", target)
    assert answer.code == 0, answer
    assert "metrics" in answer.err
    [group] = told(target)
    problems = "\n".join(group["views"]["summary"]["problems"])
    for part in ("'exchanges'", "'metrics'", "config.yaml"):
        assert part in problems
    assert str(copied) not in target.read_text(encoding="utf-8")
    assert "missing" in group["views"]["heatmap"]
    assert [each["seed"] for each in group["views"]["gains"]["runs"]] == [0]


def test_one_damaged_table_of_two_runs_leaves_the_other_in_the_figure(copied, tmp_path):
    (copied / "random-seed0" / "exchanges.parquet").write_bytes(b"no table")
    target = tmp_path / "report.html"
    assert coterie("report", copied, "-o", target).code == 0
    [group] = told(target)
    assert [each["seed"] for each in group["views"]["heatmap"]["runs"]] == [1]


def test_a_run_that_has_not_finished_is_shown_as_far_as_it_got(copied, tmp_path):
    (copied / "random-seed0" / "summary.json").unlink()
    target = tmp_path / "report.html"
    assert coterie("report", copied, "-o", target).code == 0
    problems = told(target)[0]["views"]["summary"]["problems"]
    assert "random with seed 0 has not finished: 2 of 2 rounds are shown." in problems


def test_a_folder_without_runs_is_refused(tmp_path):
    target = tmp_path / "report.html"
    refused(coterie("report", tmp_path, "-o", target), 4, "no run to look at", tmp_path)
    assert not target.exists()


def test_a_page_that_cannot_be_written_is_refused_first(experiment, tmp_path):
    refused(coterie("report", experiment, "-o", tmp_path), 4, "is a folder")
    refused(coterie("report", experiment, "-o", tmp_path / "a" / "b.html"), 4, "no folder")


def test_runs_of_several_folders_share_a_page(experiment, tmp_path):
    other = tmp_path / "other"
    assert coterie("run", *SMALL, "--rounds", 1, "--seed", 5, "--out", other).code == 0
    target = tmp_path / "report.html"
    assert coterie("report", experiment, other, "-o", target).code == 0
    [group] = told(target)
    labels = [each["label"] for each in group["views"]["settings"]["strategies"]]
    assert labels == ["local", f"random ({experiment.name})", "random (other)"]
