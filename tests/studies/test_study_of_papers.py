"""The study of the papers holds every published table, as the presets have it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import coterie

from coterie.experiments.config import RunConfig, check_sizes
from coterie.experiments.presets import find_preset
from coterie.experiments.published import published_tables
from coterie.experiments.run_folder import RunFolder
from coterie.results.published_comparison import list_departures
from coterie.runtime.run_tables import SCHEMAS
from coterie.studies.base import plan
from coterie.studies.estimate import seconds_left, work
from coterie.studies.study_list import find_study

PAPERS = find_study("papers")
BY_NAME = {setting.name: setting for setting in PAPERS.settings}
NEEDS_A_FILE = "friends-cifar100-pretrained"
"""Its ImageNet weights are nowhere to be downloaded by a study."""


@pytest.mark.parametrize("preset", sorted(published_tables().keys() - {NEEDS_A_FILE}))
def test_every_published_row_is_run(preset):
    labels = {
        label for setting in PAPERS.settings if setting.preset == preset for label in setting.labels
    }
    assert published_tables()[preset].results.keys() <= labels


@pytest.mark.parametrize("name", [name for name in BY_NAME if name in published_tables()])
def test_a_setting_with_a_presets_name_is_the_published_setting(name):
    for config in BY_NAME[name].runs(None, [0], {}):
        assert list_departures(config, find_preset(name)) == []


def test_everything_is_valid():
    parts = plan(PAPERS.settings, None, [0], {})
    check_sizes([config for part in parts for config in part.configs])
    assert len({part.folder_name for part in parts}) == len(PAPERS.settings)


@pytest.mark.parametrize("name", [n for n in BY_NAME if n.startswith("hast-") and "iid" not in n])
def test_hast_has_all_its_steps(name):
    config = BY_NAME[name].runs(None, [0], {})[0]
    published = find_preset(BY_NAME[name].preset).config
    assert config.rounds / config.drift.every == published.rounds / published.drift.every
    assert config.drift.every >= 50


def test_all_settings_are_run_with_one_seed_before_the_next(tmp_path):
    listed = coterie("study", "papers", "--list", "--only", "friends", "--out", tmp_path / "out")
    assert listed.code == 0, listed.err
    places = [line.split("│")[1].strip() for line in listed.out.splitlines() if "│" in line]
    places = [place for place in places if place]
    once = places[: len(places) // 3]
    assert places == once * 3
    assert len(set(once)) == len(once) > 5


def test_results_stand_beside_the_published_ones(tmp_path):
    short = ("--scale", 0.1, "--rounds", 2, "--seeds", 1, "--threads", 1)
    only = ("--only", "friends-synthetic", "--strategy", "local,oracle")
    done = coterie("study", "papers", *only, *short, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert "Hagander & Ihre-Thomason 2024, table 4.3" in done.out
    assert "9.43" in done.out
    assert "left for all" in done.err
    assert (tmp_path / "out" / "results.csv").read_text().count("friends-synthetic") == 2


def test_the_estimate_grows_with_the_work():
    short, long = (digits(rounds) for rounds in (99, 199))
    assert work(long) == 2 * work(short)
    expected = seconds_left([short], [], threads=1)
    assert expected > 0
    assert seconds_left([long, short], [], threads=2) == pytest.approx(1.5 * expected)


def test_the_estimate_learns_from_finished_runs(tmp_path):
    run = finished(tmp_path, digits(9_999), seconds=500_000.0)
    assert seconds_left([digits(19_999)], [run], threads=1) == pytest.approx(1_000_000, rel=0.02)


def test_runs_of_a_tiny_model_do_not_make_large_ones_slow(tmp_path):
    tiny, large = (find_preset(name).config for name in ("friends-synthetic", "dac-cifar-labels"))
    before = seconds_left([large], [], threads=1)
    run = finished(tmp_path, tiny, seconds=30.0)
    assert seconds_left([large], [run], threads=1) == pytest.approx(before, rel=0.5)


def digits(rounds: int) -> RunConfig:
    return find_preset("digits").config.model_copy(update={"rounds": rounds})


def finished(folder: Path, config: RunConfig, seconds: float) -> RunFolder:
    timings = {"round": [0], "wall_seconds": [seconds], "cpu_seconds": [seconds]}
    table = pa.table(timings, schema=SCHEMAS["timings"])
    pq.write_table(table, folder / "timings.parquet")
    return RunFolder(folder, config)
