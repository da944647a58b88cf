"""The page of naturally divided data is written from what is kept, and is up to date."""

from __future__ import annotations

import numpy as np
import pytest
from commands import coterie
from own_tables import write_farms
from pages import ROOT
from scripts import script

from coterie.errors import ConfigError

PAGE = ROOT / "docs" / "natural.md"


@pytest.fixture(scope="module", name="script")
def page_script():
    return script("write_natural_page")


def test_the_page_is_that_of_what_is_kept(script):
    assert PAGE.read_text() == script.page(script.read()), (
        "run: .venv/bin/python tools/write_natural_page.py"
    )


def test_what_is_kept_says_which_seeds_and_peers(script):
    for each in script.read():
        for label in each.strategies:
            scores = each.scores(label)
            assert len(scores) == len(each.seeds)
            assert len(each.seeds) >= 5
            assert np.isfinite(scores).all()


def test_runs_are_kept_as_their_tables_say(script, tmp_path):
    table = write_farms(tmp_path / "farms.csv")
    columns = ("--peers-by", "farm", "--label", "crop", "--features", "soil,rain")
    small = ("--rounds", 2, "--seeds", 2, "--strategy", "local,kin", "--out", tmp_path / "out")
    assert coterie("run", table, *columns, *small).code == 0
    script.keep(tmp_path / "out", tmp_path)
    (path,) = tmp_path.glob("*.json")
    (found,) = [script.KEPT_FORMAT.validate_json(path.read_bytes())]
    runs = script.read_runs([tmp_path / "out"])
    assert found.seeds == [0, 1]
    for label in ("local", "kin"):
        means = [run.summary.mean for run in runs if run.label == label]
        assert found.mean(label)[0] == pytest.approx(100 * np.mean(means), abs=1e-3)
    assert found.gains("local").num_better == 0
    assert found.gains("kin").num_peers == 3


def test_runs_without_local_are_refused(script, tmp_path):
    table = write_farms(tmp_path / "farms.csv")
    columns = ("--peers-by", "farm", "--label", "crop", "--features", "soil,rain")
    done = coterie(
        "run", table, *columns, "--rounds", 1, "--strategy", "kin", "--out", tmp_path / "out"
    )
    assert done.code == 0
    with pytest.raises(ConfigError, match="local among them"):
        script.keep(tmp_path / "out", tmp_path)
