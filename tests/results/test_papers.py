"""Published numbers beside ours: which count as met, and what `coterie papers` prints."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from commands import coterie, refused

from coterie.experiments.presets import PRESETS
from coterie.experiments.published import published_figures, published_tables
from coterie.experiments.run_summary import RunSummary
from coterie.reports.papers_tables import build_summary_table, move_reasons_below
from coterie.results.read_reproductions import read_reproductions
from coterie.results.reproduction import (
    ReproducedNumber,
    ReproducedRun,
    Reproduction,
    as_data,
    count_judgements,
    judge_figures,
    judge_numbers,
)
from coterie.results.statistics import confidence_interval
from coterie.studies.papers import PAPERS
from coterie.tasks.score import ACCURACY, MSE

LABELS5 = "friends-cifar-labels5"


def run(label: str, mean: float, seed: int = 0, **others: object) -> ReproducedRun:
    """Return a run with a mean in percent."""
    names = others.pop("clusters", {})
    outcome = RunSummary(
        label=label,
        seed=seed,
        cluster_names=tuple(names),
        cluster_means=tuple(value / 100 for value in names.values()),
        mean=mean / 100,
        models_per_peer=0.0,
        megabytes_per_peer=0.0,
        score=ACCURACY,
    )
    return ReproducedRun(outcome, **others)


def experiment(preset: str, *runs: ReproducedRun, **others: object) -> Reproduction:
    """Return the runs of an experiment as long as its preset."""
    known = {"name": "mine", "rounds": PRESETS[preset].config.rounds, "departures": ()}
    return Reproduction(preset=preset, runs=runs, **{**known, **others})


def row(
    preset: str, label: str, *experiments: Reproduction, part: str = "mean"
) -> ReproducedNumber:
    """Return how one published number is judged."""
    [found] = [
        each
        for each in judge_numbers(experiments)
        if (each.preset, each.strategy, each.part) == (preset, label, part)
    ]
    return found


@pytest.mark.parametrize(
    ("preset", "label", "mean", "judgement"),
    [
        (LABELS5, "random", 82.73 + 1.49, "met"),
        (LABELS5, "random", 82.73 - 1.51, "unexplained"),
        ("pens-cifar-iid", "random", 46.0 - 0.99, "met"),
        ("pens-cifar-iid", "random", 46.0 + 1.01, "unexplained"),
        ("pens-cifar-rotation2", "oracle", 43.7 + 1.7, "met"),  # its published interval is 1.8
        ("friends-cifar-labels2", "panm-cosine-gradients", 60.0, "explained"),
    ],
)
def test_a_small_difference_is_met(preset, label, mean, judgement):
    found = row(preset, label, experiment(preset, run(label, mean)))
    assert found.judgement == judgement
    assert found.reached == pytest.approx(mean)
    assert bool(found.why) == (judgement == "explained")


@pytest.mark.parametrize(("factor", "judgement"), [(1.014, "met"), (1.016, "unexplained")])
def test_points_of_a_squared_error_are_percent_of_it(factor, judgement):
    outcome = replace(run("random", 0).summary, mean=1494.84 * factor, score=MSE)
    mine = experiment("friends-synthetic", ReproducedRun(outcome))
    assert row("friends-synthetic", "random", mine).judgement == judgement


@pytest.mark.parametrize(("num_seeds", "judgement"), [(2, "unexplained"), (3, "met")])
def test_an_interval_counts_from_three_seeds_on(num_seeds, judgement):
    means = [78.0, 84.0, 81.0][:num_seeds]
    runs = [run("random", mean, seed) for seed, mean in enumerate(means)]
    found = row(LABELS5, "random", experiment(LABELS5, *runs))
    assert found.num_seeds == num_seeds
    assert found.interval == pytest.approx(confidence_interval(means)[1])
    assert found.judgement == ("met" if num_seeds == 3 else "unexplained") == judgement


def test_the_published_setting_is_preferred_then_more_seeds():
    short = experiment(LABELS5, run("random", 50), rounds=3, departures=("shortened",), name="a")
    one = experiment(LABELS5, run("random", 60), name="b")
    two = experiment(LABELS5, run("random", 70), run("random", 72, 1), name="c")
    assert row(LABELS5, "random", short, one, two).experiment == "c"
    assert row(LABELS5, "random", short, one).experiment == "b"
    found = row(LABELS5, "random", short)
    assert (found.judgement, found.why, found.reached) == ("other setting", "shortened", 50)
    assert row(LABELS5, "oracle", short).judgement == "not run"


def test_clusters_are_found_by_name_and_means_formed_as_published():
    preset = "dac-cifar-labels"
    clusters = {"labels 2,3,4,5,6,7": 35.0, "labels 0,1,8,9": 55.0}
    mine = experiment(preset, run("dac", 40.0, clusters=clusters))
    assert row(preset, "dac", mine, part="labels 0,1,8,9").reached == pytest.approx(55.0)
    assert row(preset, "dac", mine).reached == pytest.approx(45.0)


def test_neighbours_need_the_first_stage_alone():
    preset = "pens-cifar-rotation2-50"
    found = {"precision": 1.0, "recall": 0.8}
    first = experiment(
        preset, run("pens", 30, **found), rounds=20, departures=("shortened: 20 of 333 rounds",)
    )
    assert row(preset, "pens", first, part="recall").judgement == "met"
    shorter = experiment(
        preset, run("pens", 30, **found), rounds=19, departures=("shortened: 19 of 333 rounds",)
    )
    assert row(preset, "pens", shorter, part="recall").judgement == "other setting"


def test_every_number_is_counted_once_in_its_table():
    rows = judge_numbers([experiment(LABELS5, run("random", 82.73), run("local", 0))])
    tables = count_judgements(rows)
    assert sum(each.num_rows for each in tables) == sum(row.is_headline for row in rows)
    [labels5] = [each for each in tables if each.preset == LABELS5]
    num_rows = len(published_tables()[LABELS5].results)
    counts = {"met": 1, "explained": 0, "unexplained": 1, "other setting": 0}
    assert labels5.counts == {**counts, "not run": num_rows - 2}
    assert {each.source for each in tables if each.preset == "pens-cifar-rotation2"} == {
        "Onoszko & Karlsson 2021, table 4.2",
        "Onoszko & Karlsson 2021, table 4.3",
    }


@pytest.mark.parametrize(
    ("hast", "rounds", "judgement"),
    [(0.6, 500, "met"), (0.4, 500, "unexplained"), (0.6, 499, "not run")],
)
def test_a_figure_is_judged_by_the_order_over_time(hast, rounds, judgement):
    levels = {"hast": hast, "dac": 0.5, "random": 0.45}
    runs = [run(label, 10, over_time=level) for label, level in levels.items()]
    mine = experiment("hast-cifar-labels2", *runs, rounds=rounds)
    [found] = [
        each
        for each in judge_figures([mine])
        if each.experiment == "hast-cifar-labels2" and "above" in each.shows
    ]
    assert found.judgement == judgement


@pytest.mark.parametrize("figure", published_figures(), ids=lambda figure: figure.source)
def test_counterparts_of_figures_are_settings_of_the_study(figure):
    settings = {setting.name: setting for setting in PAPERS.settings}
    assert bool(figure.experiments) != bool(figure.not_run)
    for name, rounds in figure.experiments.items():
        [config, *_] = settings[name].runs(None, [0], {})
        assert config.rounds >= rounds
        assert {figure.best, *figure.below} - {""} <= {*settings[name].labels}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "mine"
    asked = ("friends-synthetic", "--strategy", "local,random", "--seeds", 3, "--rounds", 2)
    assert coterie("run", *asked, "--peers", 12, "--threads", 1, "--out", folder).code == 0
    return folder


def test_the_command_prints_every_number_as_data(finished):
    done = coterie("papers", finished, "--json")
    assert done.code == 0
    data = json.loads(done.out)
    assert data == json.loads(json.dumps(as_data(*_judged(finished)), ensure_ascii=False))
    [local] = [
        each
        for each in data["numbers"]
        if (each["preset"], each["strategy"]) == ("friends-synthetic", "local")
    ]
    means = [json.loads(path.read_text()) for path in sorted(finished.glob("local-*/summary.json"))]
    assert local["reached"] == pytest.approx(sum(each["mean"] for each in means) / 3)
    assert (local["published"], local["num_seeds"]) == (30.26, 3)
    assert local["judgement"] == "other setting"
    assert "shortened: 2 of 50 rounds" in local["why"]


def _judged(folder):
    problems: list[str] = []
    found = read_reproductions([folder], problems)
    assert not problems
    return judge_numbers(found), judge_figures(found)


def test_the_command_prints_tables(finished):
    done = coterie("papers", finished)
    assert done.code == 0
    assert "friends-synthetic" in done.out
    assert "table 4.3" in done.out
    assert "Not run: " in done.out


def test_reasons_move_below_the_table_of_a_terminal(finished):
    sheet = build_summary_table(*_judged(finished))
    below = move_reasons_below(sheet)
    assert sheet.header == (*below.header, "why")
    assert any(note.startswith("Hagander") and "shortened" in note.lower() for note in below.notes)


def test_folders_without_a_paper_are_refused(tmp_path):
    refused(coterie("papers", tmp_path), 4, "no finished run of a paper's preset")


def test_nan_is_no_number():
    nothing = experiment(LABELS5, run("random", math.nan))
    assert row(LABELS5, "random", nothing).judgement == "not run"
