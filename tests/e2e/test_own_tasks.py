"""A task of a user's own file on the command line: run, resumed, and refused without its file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import coterie, plain, refused
from own_tables import write_farms

from coterie.tasks.task_settings import DEFINED_IN, OWN_TASKS

TASK = """
import torch
import coterie

def careful(outputs, targets):
    losses = torch.nn.functional.cross_entropy(outputs, targets, reduction="none")
    return losses * (1 + 4 * targets)

def found(outputs, targets):
    return (outputs.argmax(dim=1)[targets == 1] == 1).float().mean()

task = coterie.Task(careful, score=(coterie.TaskScore("recall", is_share=True), found))

def by_area():
    return coterie.Task("cross-entropy", score="auc")

number = 3
"""
RUN = ("run", "farms.csv", "--peers-by", "farm", "--label", "crop", "--features", "rain,soil")
QUICK = ("--rounds", 2, "--threads", 1, "--strategy", "local,kin")


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    path = list(sys.path)
    yield
    forget()
    sys.path[:] = path


def forget() -> None:
    OWN_TASKS.clear()
    DEFINED_IN.clear()
    sys.modules.pop("my_task", None)


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_farms(tmp_path / "farms.csv")
    path = tmp_path / "my_task.py"
    path.write_text(TASK)
    return path


@pytest.mark.parametrize(("name", "score"), [("task", "recall"), ("by_area", "AUC")])
def test_models_are_compared_by_the_score_of_the_task(file, name, score):
    done = coterie(*RUN, "--task", f"{file}:{name}", *QUICK, "--out", "o")
    assert done.code == 0, done.err
    assert f"test {score} %" in done.out
    saved = json.loads(Path("o/kin-seed0/task.json").read_text())
    assert saved["file"] == str(file)
    assert len(saved["sha256"]) == 64
    assert json.loads(Path("o/kin-seed0/score.json").read_text())["name"] == score


def test_a_run_says_how_to_name_its_task_again(file):
    assert coterie(*RUN, "--task", f"{file}:task", *QUICK, "--out", "o").code == 0
    before = json.loads(Path("o/kin-seed0/summary.json").read_text())
    Path("o/kin-seed0/summary.json").unlink()
    forget()
    answer = coterie("resume", "o")
    assert answer.code == 2
    assert f"coterie resume o --task {file}:task" in plain(answer.err)
    file.write_text(TASK + "# changed\n")
    done = coterie("resume", "o", "--task", f"{file}:task", "--threads", 1)
    assert done.code == 0, done.err
    assert "has changed since kin-seed0 was started" in done.err
    assert json.loads(Path("o/kin-seed0/summary.json").read_text()) == before


def test_reports_need_no_task(file):
    assert coterie(*RUN, "--task", f"{file}:task", *QUICK, "--out", "o").code == 0
    forget()
    file.unlink()
    for command in ("report", "compare", "analyse"):
        shown = coterie(command, "o")
        assert shown.code == 0, shown.err


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("mse", "For a loss or score by name use --set task.loss=NAME"),
        ("other.py:task", "does not exist"),
        ("my_task.py", "name the task: my_task.py:NAME"),
        ("my_task.py:tusk", "the file has no 'tusk'"),
        ("my_task.py:number", "no coterie.Task, nor a function that returns one, as 'number'"),
    ],
)
def test_tasks_that_cannot_be_used_are_refused(file, task, message):
    assert message in refused(coterie(*RUN, "--task", task, *QUICK), 2)
