"""`coterie compare` on real runs: right numbers, in every format, whatever state runs are in."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from commands import coterie, plain, refused
from recorded_tables import recorded as table_of

from coterie.reports.comparison_tables import TextRow, TextTable, format_duration
from coterie.reports.table_formats import (
    escape_latex,
    format_comparisons,
    render_latex,
    render_markdown,
)
from coterie.results.comparison import compare
from coterie.results.measures import measure_run
from coterie.results.read_runs import read_runs
from coterie.results.statistics import confidence_interval
from coterie.runtime.recorder import Recorder
from coterie.runtime.run_tables import read_table

SETTINGS = ("--peers", 8, "--rounds", 4, "--threads", 1, "--side-by-side", 1)
FETCHES = ("--set", "strategy.fetches=2")


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    """Three strategies with three seeds each."""
    folder = tmp_path_factory.mktemp("compare") / "three"
    strategies = ("--strategy", "local,random,oracle", "--set", "test_every=2")
    done = coterie("run", "digits", *SETTINGS, *FETCHES, *strategies, "--seeds", 3, "--out", folder)
    assert done.code == 0, done.err
    return folder


@pytest.fixture
def runs(original, tmp_path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(original, tmp_path / "three"))


def summaries(folder: Path, label: str) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob(f"{label}-*/summary.json"))]


def lines(*arguments: object) -> list[dict[str, str]]:
    """Return the lines of a comparison as CSV."""
    done = coterie("compare", *arguments, "--format", "csv")
    assert done.code == 0, done.err
    return list(csv.DictReader(io.StringIO(done.out)))


def line(found: list[dict[str, str]], strategy: str, part: str = "mean") -> dict[str, str]:
    (one,) = [each for each in found if (each["strategy"], each["part"]) == (strategy, part)]
    return one


def unfinish(run: Path) -> None:
    """Make a run one that was stopped before its last round."""
    (run / "summary.json").unlink()
    Recorder(run).rewind(4)


def test_means_and_intervals_are_those_of_the_summaries(runs):
    found = lines(runs)
    for label in ("local", "random", "oracle"):
        reached = summaries(runs, label)
        mean, width = confidence_interval([each["mean"] for each in reached])
        one = line(found, label)
        assert float(one["mean"]) == pytest.approx(mean)
        assert float(one["interval"]) == pytest.approx(width)
        assert (one["seeds"], one["unfinished"], one["measure"]) == ("3", "0", "test-score")
        for number, name in enumerate(reached[0]["cluster_names"]):
            mean, _ = confidence_interval([each["cluster_means"][number] for each in reached])
            assert float(line(found, label, name)["mean"]) == pytest.approx(mean)
        assert float(one["models"]) == reached[0]["models_per_peer"]


def test_differences_are_paired_by_seed(runs):
    found = lines(runs, "--baseline", "random")
    ours, theirs = (
        [each["mean"] for each in summaries(runs, label)] for label in ("oracle", "random")
    )
    mean, width = confidence_interval(
        [one - other for one, other in zip(ours, theirs, strict=True)]
    )
    oracle = line(found, "oracle")
    assert float(oracle["difference"]) == pytest.approx(mean)
    assert float(oracle["difference_interval"]) == pytest.approx(width)
    assert oracle["common_seeds"] == "3"
    assert float(oracle["p_value"]) <= float(oracle["p_value_holm"]) <= 1
    assert line(found, "random")["difference"] == ""


def test_yardsticks_are_named(runs):
    said = coterie("compare", runs).out
    assert "Yardsticks, not competitors: oracle (uses the true clusters)." in said
    alone = coterie("compare", runs / "local-seed0", runs / "random-seed0").out
    assert "Yardsticks" not in alone


def test_runs_of_several_folders_pool_their_seeds(runs, tmp_path):
    other = tmp_path / "more"
    options = ("--strategy", "random", "--seed", 3, "--set", "test_every=2")
    coterie("run", "digits", *SETTINGS, *FETCHES, *options, "--out", other)
    assert line(lines(runs, other / "random-seed3", runs), "random")["seeds"] == "4"


def test_other_settings_are_another_strategy(runs, tmp_path):
    other = tmp_path / "longer"
    options = ("--strategy", "random", "--set", "training.epochs=1", "--set", "strategy.fetches=3")
    coterie("run", "digits", *SETTINGS, *options, "--out", other)
    labels = {each["strategy"] for each in lines(runs, other)}
    assert labels == {"local", "oracle", "random (three)", "random (longer)"}


def test_a_seed_counts_once(runs, tmp_path):
    copy = shutil.copytree(runs, tmp_path / "copy")
    done = coterie("compare", runs, copy, "--format", "csv")
    assert line(list(csv.DictReader(io.StringIO(done.out))), "random")["seeds"] == "3"
    assert f"{copy / 'random-seed0'} is skipped" in plain(done.err)


def test_an_unfinished_run_is_marked_and_not_tested(runs):
    for seed in (1, 2):
        unfinish(runs / f"oracle-seed{seed}")
    done = coterie("compare", runs)
    assert done.code == 0, done.err
    text = plain(done.out)
    assert "oracle †" in text
    assert (
        "† oracle with seed 1 has not finished: round 3 of 4, last tested after round 2. "
        "Differences do not include it." in text
    )
    assert (
        "Not tested, because fewer than 2 seeds have finished in common with local: oracle (1)."
        in text
    )
    assert "two-sided paired t-test)" in text  # random alone is tested: nothing to correct
    found = line(lines(runs), "oracle")
    assert (found["seeds"], found["unfinished"], found["common_seeds"]) == ("3", "2", "1")
    assert found["p_value"] == ""
    # An unfinished run cannot know what its clusters are called, but finished ones can.
    assert line(lines(runs), "oracle", "90°")["seeds"] == "3"


def test_one_seed_has_no_stars(runs):
    text = plain(coterie("compare", *(runs / f"{name}-seed0" for name in ("local", "oracle"))).out)
    assert "Not tested" in text
    assert "*" not in text


@pytest.mark.parametrize(
    ("file", "hint"),
    [
        ("config.yaml", "config.yaml"),
        ("metrics.parquet", "the table 'metrics'"),
        ("timings.parquet", "the table 'timings'"),
    ],
)
def test_a_damaged_run_costs_no_other(runs, file, hint):
    damaged = runs / "random-seed1"
    (damaged / file).write_bytes(b"\x00[nonsense")
    done = coterie("compare", runs, "--format", "csv")
    assert done.code == 0, done.err
    assert hint in plain(done.err)
    assert "Traceback" not in done.err
    assert line(list(csv.DictReader(io.StringIO(done.out))), "random")["seeds"] == "2"


def test_a_damaged_summary_is_told_and_its_tables_still_count(runs):
    (runs / "random-seed1" / "summary.json").write_text("{")
    done = coterie("compare", runs, "--format", "csv")
    found = line(list(csv.DictReader(io.StringIO(done.out))), "random")
    assert (found["seeds"], found["unfinished"]) == ("3", "1")
    assert "summary.json is damaged" in plain(done.err)


def test_damaged_exchanges_cost_the_probes_alone(runs):
    for seed in range(3):
        (runs / f"random-seed{seed}" / "exchanges.parquet").write_bytes(b"nonsense")
    found = line(lines(runs), "random")
    assert (found["probes"], found["models"]) == ("", "16.0")


@pytest.mark.parametrize("content", [None, "runs: ["])
def test_a_lost_list_of_runs_is_made_up_for(runs, content):
    (runs / "experiment.yaml").unlink()
    if content is not None:
        (runs / "experiment.yaml").write_text(content)
    assert line(lines(runs), "random")["seeds"] == "3"


def test_nothing_at_all_is_an_error(tmp_path):
    (tmp_path / "empty").mkdir()
    refused(coterie("compare", tmp_path / "empty", tmp_path / "none"), 4, "no run to read")


def test_an_unknown_baseline_is_an_error(runs):
    refused(coterie("compare", runs, "--baseline", "orcale"), 2, "Did you mean 'oracle'?")


def test_other_measures(runs):
    found = line(lines(runs, "--measure", "train-loss"), "local")
    last = [
        [row["train_loss"] for row in read_table(run, "metrics").to_pylist() if row["round"] == 4]
        for run in sorted(runs.glob("local-*"))
    ]
    expected = sum(sum(losses) / len(losses) for losses in last) / 3
    assert float(found["mean"]) == pytest.approx(expected)
    assert float(line(lines(runs, "--measure", "test-loss"), "local")["mean"]) > 0.1


def test_regression_is_compared_by_its_error(tmp_path):
    small = ("--rounds", 1, "--scale", 0.1, "--threads", 1, "--strategy", "local,random")
    coterie("run", "friends-synthetic", *small, "--out", tmp_path / "out")
    text = plain(coterie("compare", tmp_path / "out").out)
    assert "friends-synthetic: test MSE" in text
    assert "Hagander" in text
    by_score = plain(coterie("compare", tmp_path / "out", "--measure", "test-score").out)
    assert by_score == text


def test_published_values_stand_below_ours(runs):
    """Whatever the data are: what counts is the preset that a run names."""
    for config in runs.glob("*/config.yaml"):
        config.write_text(
            config.read_text().replace("preset: digits", "preset: dac-cifar-rotation4")
        )
    found = line(lines(runs), "oracle", "90°")
    assert float(found["published"]) == pytest.approx(0.5272)
    text = plain(coterie("compare", runs).out)
    assert "Listo Zec et al. 2022" in text
    assert "Not a reproduction" in text


def test_per_cluster_every_cluster_has_its_difference(runs):
    done = coterie("compare", runs, "--per", "cluster")
    *rows, costs = [row for row in done.out.splitlines() if row.startswith("│ oracle")]
    assert costs.count("│") == 7
    assert len(rows) == 5
    assert all("+" in row or "-" in row for row in rows)


@pytest.mark.parametrize("ending", ["md", "tex", "csv", "txt"])
def test_the_ending_of_a_file_says_its_format(runs, tmp_path, ending):
    file = tmp_path / f"table.{ending}"
    assert coterie("compare", runs, "--out", file).code == 0
    expected = {"md": "| strategy |", "tex": "\\toprule", "csv": "preset,strategy", "txt": "┃"}
    assert expected[ending] in file.read_text()


def test_a_file_of_no_known_ending_is_refused(runs, tmp_path):
    refused(coterie("compare", runs, "--out", tmp_path / "table.xls"), 2, "--format")


def test_probes_are_counted_on_both_sides(original):
    run = read_runs([original / "random-seed0"])[0]
    rows = [
        {"round": 1, "kind": "probe", "receiver": 1, "sender": 0},
        {"round": 1, "kind": "probe", "receiver": 2, "sender": 0, "delivered": False},
        {"round": 1, "kind": "fetch", "receiver": 2, "sender": 0},
    ]
    run.tables._tables["exchanges"] = table_of("exchanges", rows)
    assert measure_run(run, "test-score").costs.probes == 3 / 8


AWKWARD = r"50% of $5 & #1_a {b} ~^\ [x] <y> τ=5 ± 90° – “é”"


def test_markdown_keeps_its_columns():
    row = render_markdown(TextTable("t", ("a", "b"), (TextRow(("x|y_z", "1")),))).splitlines()[-1]
    assert row == r"| x\|y\_z | 1 |"


def test_latex_escapes_what_means_something_to_it():
    assert escape_latex("a_b & 5%") == r"a\_b \& 5\%"
    assert escape_latex("90° ± 1") == r"90$^\circ$ $\pm$ 1"
    assert escape_latex("é中") == "éU+4E2D"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="LaTeX is not installed")
def test_latex_compiles(runs, tmp_path):
    compared = compare(read_runs([runs]), None, None)
    parts = [format_comparisons(compared, "latex", per_cluster=wide) for wide in (False, True)]
    parts.append(
        render_latex(
            TextTable(AWKWARD, (AWKWARD, "n"), (TextRow((AWKWARD, "1"), True),), (AWKWARD,))
        )
    )
    head = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n"
    (tmp_path / "page.tex").write_text(head + "\n".join(parts) + "\\end{document}\n")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.24, "0.2 s"), (245, "4 min 5 s"), (7800, "2 h 10 min")]
)
def test_times_as_people_say_them(seconds, text):
    assert format_duration(seconds) == text
