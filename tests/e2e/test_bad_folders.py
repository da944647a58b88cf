"""Folders to write to or to resume that cannot be used: one clear message, nothing lost."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from commands import SMALL, contents, coterie, refused, results, run_with


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """Return the folder of a finished experiment; tests work on copies."""
    folder = tmp_path_factory.mktemp("finished") / "out"
    assert coterie("run", *SMALL, "--out", folder).code == 0
    return folder


# Output folders


def test_the_output_folder_is_a_file(tmp_path):
    (tmp_path / "out").write_text("mine")
    message = refused(run_with(tmp_path), 4, tmp_path / "out", "file", "another")
    assert "empty" not in message
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize("place", ["file/out", "/proc/nobody/out", "x" * 300])
def test_the_output_folder_cannot_be_made(tmp_path, place):
    (tmp_path / "file").write_text("mine")
    answer = coterie("run", *SMALL, "--out", tmp_path / place)
    refused(answer, 4, tmp_path / place, "--out")


def test_the_output_folder_holds_another_run(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "my run")
    before = contents(folder)
    answer = coterie("run", *SMALL, "--out", folder)
    message = refused(answer, 4, folder, "holds another run", "choose another")
    assert shlex.join(["coterie", "resume", str(folder)]) in message
    assert contents(folder) == before


def test_the_output_folder_holds_something_else(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("mine")
    message = refused(run_with(tmp_path), 4, tmp_path / "out", "not empty", "another")
    assert "resume" not in message
    assert contents(tmp_path / "out") == {"thesis.tex": b"mine"}


# Resuming


def test_resuming_what_is_finished_prints_the_table_again(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "out")
    before = contents(folder)
    first, second = coterie("resume", folder), coterie("resume", folder / "random-seed0")
    assert (first.code, second.code) == (0, 0)
    assert "│ random" in first.out
    assert first.out.splitlines()[:-1] == second.out.splitlines()[:-1]
    assert contents(folder) == before


def test_resuming_no_run(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("mine")
    for name in ("empty", "file"):
        answer = coterie("resume", tmp_path / name)
        refused(answer, 4, tmp_path / name, "experiment.yaml", "config.yaml")
    assert not any((tmp_path / "empty").iterdir())


@pytest.mark.parametrize("name", ["nothing", "x" * 300])
def test_resuming_a_folder_that_does_not_exist(tmp_path, name):
    """To say what it lacks would send the user looking in a folder that is not there."""
    answer = coterie("resume", tmp_path / name)
    message = refused(answer, 4, tmp_path / name)
    assert "neither" not in message
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"{", 4),
        (b"\xff\xfe\x00", 4),
        (b"5", None),
        (b"", None),
        (b"peers: {count: 8}", None),
        (b"peers: {count: 8, train_size: 1, validation_size: 1}\nroundz: 3", None),
    ],
)
def test_resuming_with_a_broken_configuration(finished, tmp_path, content, code):
    """Whether it counts as a setting or as a file, the message names the file."""
    folder = shutil.copytree(finished, tmp_path / "out")
    path = folder / "random-seed0" / "config.yaml"
    path.write_bytes(content)
    before = contents(folder)
    answer = coterie("resume", folder)
    assert answer.code in ((code,) if code else (2, 4))
    refused(answer, answer.code, path)
    assert contents(folder) == before


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"\xff\xfe\x00",
        b"",
        b"[]",
        b"runs: 5",
        b"runs: random-seed0",
        b"runs: []",
        b"runs: [../elsewhere]",
        b"runs: [..]",
        b"runs: ['']",
    ],
)
def test_resuming_with_a_broken_list_of_runs(finished, tmp_path, content):
    shutil.copytree(finished / "random-seed0", tmp_path / "elsewhere")
    shutil.copy(finished / "random-seed0" / "config.yaml", tmp_path)
    folder = shutil.copytree(finished, tmp_path / "out")
    (folder / "experiment.yaml").write_bytes(content)
    before = contents(tmp_path)
    refused(coterie("resume", folder), 4, folder / "experiment.yaml")
    assert contents(tmp_path) == before


def test_resuming_with_a_run_that_is_not_there(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "out")
    (folder / "experiment.yaml").write_text("runs: [random-seed0, random-seed7]")
    refused(coterie("resume", folder), 4, folder / "random-seed7")


def test_resuming_with_a_broken_summary(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "out")
    path = folder / "random-seed0" / "summary.json"
    path.write_text("{")
    refused(coterie("resume", folder), 4, path, "Delete it")
    path.unlink()
    assert coterie("resume", folder, "--threads", 1).code == 0
    assert results(folder) == results(finished)
