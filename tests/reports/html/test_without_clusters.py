"""Pages and tables about peers without known clusters."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import coterie, plain
from own_tables import write_farms

from coterie.reports.html.run_groups import RunGroup, group_runs
from coterie.reports.html.views.curves_view import build_curves
from coterie.reports.html.views.recovery_view import build_recovery
from coterie.reports.html.views.settings_view import build_settings
from coterie.reports.html.views.summary_view import build_summary
from coterie.results.read_runs import read_runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("farms")
    table = write_farms(place / "farms.csv")
    words = ("--peers-by", "farm", "--label", "crop", "--features", "rain,soil")
    quick = ("--rounds", 3, "--strategy", "local,kin", "--threads", 1)
    done = coterie("run", table, *words, *quick, "--out", place / "out")
    assert done.code == 0, done.err
    return place / "out"


@pytest.fixture(scope="module")
def group(folder) -> RunGroup:
    (found,) = group_runs(read_runs([folder]))
    return found


def test_the_summary_says_that_peers_have_their_own_data(group):
    view = build_summary(group)
    assert "3 peers with data of their own trained small-mlp" in " ".join(view["sentences"])
    assert view["table"]["head"] == ["strategy", "mean", "models", "MB", "seeds"]


def test_there_is_one_curve_per_strategy(group):
    lines = build_curves(group)["curves"]["test"]
    assert [len(each) for each in lines] == [1, 1]


def test_no_clusters_are_invented(group):
    assert "not known which of these peers are similar" in build_recovery(group)["missing"]


def test_the_settings_say_whose_data_they_are(group):
    facts = dict(build_settings(group)["facts"])
    assert "peers_by: farm, label: crop, features: rain, soil" in facts["whose data"]
    assert "how clusters differ" not in facts


def test_analyses_that_need_clusters_say_why_they_are_missing(folder):
    shown = coterie("analyse", folder)
    assert shown.code == 0, shown.err
    assert "clusters: It is not known which of these peers are similar" in plain(shown.out)
    assert "merges" in shown.out
    assert "all peers" not in shown.out


def test_a_comparison_has_one_column_of_results(folder):
    shown = plain(coterie("compare", folder).out)
    assert "mean" in shown
    assert "all peers" not in shown
