"""A model of a user's own file on the command line: run, resumed, and refused without its file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import coterie, refused
from own_tables import write_farms

from coterie.models.fitting_models import OWN_MODELS

MODEL = """
from torch import nn

def build():
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))

def fitted(input_shape, num_outputs):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(3) if False else nn.Linear(64, num_outputs))

def wrong():
    return 7

def broken():
    raise LookupError("luck")

number = 3
"""
RUN = ("--peers-by", "farm", "--label", "crop", "--features", "rain,soil")
QUICK = ("--rounds", 2, "--threads", 1, "--strategy", "local")


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    path = list(sys.path)
    yield
    forget()
    sys.path[:] = path


def forget() -> None:
    OWN_MODELS.clear()
    sys.modules.pop("my_model", None)


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_farms(tmp_path / "farms.csv")
    path = tmp_path / "my_model.py"
    path.write_text(MODEL)
    return path


def test_a_model_is_trained_and_its_file_is_recorded(file, tmp_path):
    done = coterie("run", "farms.csv", *RUN, "--model", f"{file}:build", *QUICK, "--out", "o")
    assert done.code == 0, done.err
    assert "Model: my_model.py:build (a model of your own), 37 parameters." in done.err
    saved = json.loads((tmp_path / "o" / "local-seed0" / "model.json").read_text())
    assert saved["file"] == str(file)
    assert saved["qualified_name"] == "build"
    assert len(saved["sha256"]) == 64


def test_a_function_gets_the_shape_and_the_number_of_outputs(file):
    words = ("--peers", 4, "--rounds", 1, "--threads", 1, "--strategy", "local", "--out", "o")
    done = coterie("run", "digits", "--model", f"{file}:fitted", *words)
    assert done.code == 0, done.err


def test_a_run_says_how_to_name_its_model_again(file, tmp_path):
    assert (
        coterie("run", "farms.csv", *RUN, "--model", f"{file}:build", *QUICK, "--out", "o").code
        == 0
    )
    (tmp_path / "o" / "local-seed0" / "summary.json").unlink()
    forget()
    error = refused(coterie("resume", "o"), 2)
    assert f"coterie resume o --model {file}:build" in error
    file.write_text(MODEL + "# changed\n")
    done = coterie("resume", "o", "--model", f"{file}:build", "--threads", 1)
    assert done.code == 0, done.err
    assert "has changed since local-seed0 was started" in done.err


def test_reports_need_no_model(file):
    assert (
        coterie("run", "farms.csv", *RUN, "--model", f"{file}:build", *QUICK, "--out", "o").code
        == 0
    )
    forget()
    file.unlink()
    for command in ("report", "compare", "analyse"):
        shown = coterie(command, "o")
        assert shown.code == 0, shown.err


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("mlpp", "Did you mean 'mlp'?"),
        ("other.py:build", "does not exist"),
        ("my_model.py", "name the function"),
        ("my_model.py:bild", "has no function 'bild'"),
        ("my_model.py:number", "has no function 'number'"),
        ("my_model.py:wrong", "returned a int, but must return a new torch module"),
        ("my_model.py:fitted", "fails on a sample of shape"),
    ],
)
def test_models_that_cannot_be_used_are_refused(file, model, message):
    assert message in refused(coterie("run", "farms.csv", *RUN, "--model", model, *QUICK), 2)


def test_a_function_that_fails_is_named_with_its_error(file):
    answer = coterie("run", "farms.csv", *RUN, "--model", "my_model.py:broken", *QUICK)
    assert answer.code == 2
    assert "LookupError: luck" in answer.err
    assert "Traceback" not in answer.err
