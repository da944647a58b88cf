"""The page of reproductions is written from what is kept of experiments, and is up to date."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from commands import coterie
from pages import ROOT
from scripts import script

from coterie.errors import ConfigError, StorageError
from coterie.experiments.experiment import Experiment
from coterie.experiments.presets import PRESETS
from coterie.experiments.published import published_tables
from coterie.reports.papers_tables import build_summary_table, move_reasons_below
from coterie.results.read_reproductions import read_reproductions
from coterie.results.reproduction import judge_figures, judge_numbers
from coterie.runtime.run_tables import read_table

DOCS, TOOLS = ROOT / "docs", ROOT / "tools"
KEPT = DOCS / "reproduction"
# A setting with published numbers on data that are made on the spot.
STARTED = (
    *("run", "friends-synthetic", "--strategy", "random,local", "--seed", 3, "--seeds", 2),
    *("--rounds", 2, "--peers", 12, "--set", "training.batch_size=16"),
)


@pytest.fixture(scope="module", name="script")
def page_script():
    return script("write_reproduction_page")


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "out"
    assert coterie(*STARTED, "--threads", 1, "--out", folder).code == 0
    return folder


def test_page_is_up_to_date(script):
    page = (DOCS / "reproduction.md").read_text()
    assert page == script.page(), "run: .venv/bin/python tools/write_reproduction_page.py"


def _cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_page_begins_with_a_verdict_and_a_picture(script):
    page = script.page()
    header, _, *lines = _cells(page[page.index("| paper |") :].partition("\n\n")[0])
    assert page.index("| paper |") < page.index("![") < page.index("\n## ")
    *papers, total = [list(map(int, line[1:])) for line in lines]
    assert [line[0] for line in lines][-1] == "all"
    assert total == [sum(column) for column in zip(*papers, strict=True)]
    kept = [script.reproduction(path.stem, script.read(path)) for path in KEPT.glob("*.json")]
    rows = [row for row in judge_numbers(kept) if row.is_headline]
    assert total[header.index("published numbers") - 1] == len(rows)
    assert total[header.index("met") - 1] == sum(row.judgement == "met" for row in rows)
    assert total[header.index("figures") - 1] == len(judge_figures(kept))


def test_page_has_the_table_of_the_command(script):
    page = script.page()
    lines = _cells(page[page.index("| published |") :].partition("\n\n")[0])
    kept = [script.reproduction(path.stem, script.read(path)) for path in KEPT.glob("*.json")]
    sheet = move_reasons_below(build_summary_table(judge_numbers(kept), judge_figures(kept)))
    assert lines[0] == list(sheet.header)
    assert lines[2:] == [list(line.cells) for line in sheet.rows]


def test_reasons_do_not_repeat_what_the_table_says(script):
    page = script.page()
    assert "table 4.6, friends-cifar100-pretrained: A full run" in page
    assert "not run yet" not in page.partition("## How to read")[0].lower()


def test_what_is_kept_is_judged_as_its_runs_are(script, finished):
    kept = script.reproduction(finished.name, script.keep(Experiment.open(finished)))
    [read] = read_reproductions([finished], [])
    assert [run.summary for run in kept.runs] == [run.summary for run in read.runs]
    assert judge_numbers([kept]) == judge_numbers([read])
    assert judge_figures([kept]) == judge_figures([read])


def test_no_number_is_typed_into_the_page():
    for path in ("write_reproduction_page.py", "reproduction_page/tables.py"):
        # 100.0 and 1.0 are scales.
        assert set(re.findall(r"\d+\.\d+", (TOOLS / path).read_text())) <= {"100.0", "1.0"}, path
    reasons = [each.explained + each.tried for each in published_tables().values()]
    assert not re.findall(r"\d", "".join(reasons))


def test_the_picture_has_the_same_bytes_each_time(script, tmp_path):
    rows = judge_numbers(
        [script.reproduction(path.stem, script.read(path)) for path in KEPT.glob("*.json")]
    )
    pictures = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        script.draw(rows, tmp_path / name)
        [path] = (tmp_path / name).iterdir()
        pictures.append(path.read_bytes())
    assert pictures[0] == pictures[1]
    assert f"{path.name})" in script.page()


def test_what_is_kept_says_how_it_was_made(script, finished):
    kept = script.keep(Experiment.open(finished))
    assert kept.changes == {"rounds": 2, "peers.count": 12, "training.batch_size": 16}
    assert shlex.split(kept.command) == ["coterie", *map(str, STARTED)]
    assert [(run.outcome.label, run.outcome.seed) for run in kept.runs] == [
        ("random", 3),
        ("local", 3),
        ("random", 4),
        ("local", 4),
    ]
    timings = read_table(finished / "local-seed4", "timings")
    assert kept.runs[-1].num_rounds == timings.num_rows - 1 == 2
    wall = sum(timings["wall_seconds"].to_pylist())
    assert kept.runs[-1].wall_seconds == pytest.approx(wall, abs=0.06)


def test_page_lays_ours_beside_the_published(script, finished, tmp_path):
    kept = script.keep(Experiment.open(finished))
    assert script.read(script.write(kept, tmp_path, "short")) == kept
    page = script.page(tmp_path)
    section = _section(page, "short")
    assert kept.command in section
    random, published, difference = (
        [cell.strip() for cell in line.split("|")]
        for line in section[section.index("| **random") :].splitlines()[:3]
    )
    place = _place(section, "mean")
    ours = [run.outcome.mean for run in kept.runs if run.outcome.label == "random"]
    assert random[place].startswith(f"{sum(ours) / 2:.2f} ± ")
    assert published[place] == "1494.84"
    assert float(difference[place]) == pytest.approx(sum(ours) / 2 - 1494.84, abs=0.011)
    assert "shortened: 2 of 50 rounds" in section
    assert "Not a reproduction" in section
    assert "| local | 2 of 50 | 2 |" in section
    not_run = page[page.index("## Not run yet") :]
    assert "`friends-synthetic`" not in not_run
    assert "`dac-cifar-rotation4`" in not_run
    assert "`hast-pacs`" in not_run


def _section(page: str, name: str) -> str:
    return page[page.index(f"\n## {name}\n") :].partition("\n## ")[2].partition("\n## ")[0]


def _place(section: str, title: str) -> int:
    """Return which column of the first table has a title."""
    header = next(line for line in section.splitlines() if line.startswith("| strategy"))
    return [cell.strip() for cell in header.split("|")].index(title)


def test_what_no_command_makes_needs_to_be_named(script, finished):
    """As where --scale shrank the options of each strategy in its own way."""
    uneven = Experiment.open(finished)
    changed = uneven.runs[0].config.model_copy(update={"rounds": 1})
    uneven.runs[0] = replace(uneven.runs[0], config=changed)
    with pytest.raises(ConfigError, match="--command"):
        script.keep(uneven)
    assert script.keep(uneven, "coterie run digits --scale 0.3").command.endswith("--scale 0.3")


def test_what_cannot_be_kept_or_read_is_refused(script, finished, tmp_path):
    unfinished = tmp_path / "random-seed3"
    unfinished.mkdir()
    config = (finished / "random-seed3" / "config.yaml").read_bytes()
    (unfinished / "config.yaml").write_bytes(config)
    with pytest.raises(StorageError, match="coterie resume"):
        script.keep(Experiment.open(unfinished))
    damaged = tmp_path / "damaged.json"
    damaged.write_text('{"preset": 1}')
    with pytest.raises(StorageError, match=r"damaged\.json is damaged at 'preset'"):
        script.page(tmp_path)


def _kept(script, folder: Path, *started: object):
    """Keep an experiment on the bundled digits."""
    options = ("--peers", 12, "--threads", 1, "--out", folder)
    assert coterie("run", *started, *options).code == 0
    return script.keep(Experiment.open(folder))


def _tables(script, kept, folder: Path) -> dict[str, dict[str, list[str]]]:
    """Return the further tables of a page with one experiment, {title: {first cell: others}}.

    Further rows of one name have its number behind it.
    """
    assert script.read(script.write(kept, folder, "one")) == kept
    tables: dict[str, dict[str, list[str]]] = {}
    for part in _section(script.page(folder), "one").split("\n### ")[1:]:
        rows = tables.setdefault(part.splitlines()[0], {})
        for line in part.splitlines():
            if line.startswith("| ") and not line.startswith("| ---"):
                first, *others = (cell.strip() for cell in line.strip("|").split("|"))
                again = sum(name.partition("#")[0] == first for name in rows)
                rows[f"{first}#{again}" if again else first] = others
    return tables


def _accuracies(folder: Path, moment: str, cluster: int | None = None) -> np.ndarray:
    """Return the validation accuracy % per round after the initial training, mean over peers."""
    names = ("round", "cluster", f"validation_score_{moment}")
    metrics = read_table(folder, "metrics")
    numbers, clusters, values = (metrics[name].to_numpy() for name in names)
    members = (clusters == cluster) if cluster is not None else np.ones(len(clusters), bool)
    last = numbers.max()
    return 100 * np.array([values[members & (numbers == n)].mean() for n in range(1, last + 1)])


def test_shifts_are_shown_beside_what_was_communicated(script, tmp_path):
    drift = ("--set", "drift={kind: random, every: 3}", "--rounds", 9)
    kept = _kept(script, tmp_path / "runs", "digits-drift", "--strategy", "random,hast", *drift)
    tables = _tables(script, kept, tmp_path)
    assert list(tables) == ["Shifts", "Fetched models"]
    for run in kept.runs:
        label = run.outcome.label
        mean, drop, later, _, models = tables["Shifts"][label]
        levels, before = (
            _accuracies(tmp_path / "runs" / f"{label}-seed0", moment)
            for moment in ("trained", "before")
        )
        assert float(mean) == pytest.approx(levels.mean(), abs=0.01)
        drops = [levels[:3].mean() - before[3], levels[3:6].mean() - before[6]]
        assert float(drop) == pytest.approx(np.mean(drops), abs=0.01)
        drops = [levels[:3].mean() - levels[3], levels[3:6].mean() - levels[6]]
        assert float(later) == pytest.approx(np.mean(drops), abs=0.01)
        assert models == f"{run.outcome.models_per_peer:,.0f}"


def test_rounds_to_recover_say_after_how_many_shifts(script, tmp_path):
    drift = ("--set", "drift={kind: random, every: 1}", "--rounds", 4)
    kept = _kept(script, tmp_path / "runs", "digits-drift", "--strategy", "local", *drift)
    [run] = kept.runs
    times = iter([2.0, None, 5.0, None])
    rows = [
        replace(row, values={**row.values, "rounds_to_95": next(times)})
        for row in run.summaries["recovery"]
    ]
    run = replace(run, summaries={"recovery": tuple(rows)})
    tables = _tables(script, replace(kept, runs=(run,)), tmp_path)
    assert tables["Shifts"]["local"][3] == "3.50 (2 of 3)"


def test_neighbours_stand_beside_the_published(script, tmp_path):
    pens = ("--set", "strategy.samples=6", "--set", "strategy.exploration_rounds=2")
    started = ("digits-methods", "--strategy", "pens,oracle,local", "--rounds", 3, *pens)
    kept = replace(_kept(script, tmp_path / "runs", *started), preset="pens-cifar-rotation2-50")
    tables = _tables(script, kept, tmp_path)
    assert list(tables) == ["Neighbours", "Fetched models"]
    chosen = read_table(tmp_path / "runs" / "pens-seed0", "chosen_neighbours").to_pylist()
    last = [row for row in chosen if row["round"] == 3]
    ours = [
        100 * np.mean([row["num_same_cluster"] / row[whole] for row in last if row[whole]])
        for whole in ("num_chosen", "num_true")
    ]
    assert list(tables["Neighbours"]) == ["strategy", "pens", "*published*", "*difference*"]
    assert tables["Neighbours"]["pens"] == [f"{value:.2f}" for value in ours]
    assert tables["Neighbours"]["*published*"] == ["100.00", "80.80"]
    differences = [float(cell) for cell in tables["Neighbours"]["*difference*"]]
    assert differences == pytest.approx([ours[0] - 100, ours[1] - 80.8], abs=0.006)
    assert "coterie analyse" not in _section(script.page(tmp_path), "one")
    assert list(tables["Fetched models"]) == ["strategy", "pens", "oracle"]
    precision, chance, _ = tables["Fetched models"]["oracle"]
    assert (precision, chance) == ("100.00", f"{100 * 2 / 11:.2f}")


def test_what_a_cluster_lost_is_held_against_oracle(script, tmp_path):
    names = ("--strategy", "oracle,delusional-oracle", "--seeds", 2, "--rounds", 12)
    options = ("--set", "strategy.cluster=1", "--set", "strategy.from_round=2")
    kept = _kept(script, tmp_path / "runs", "digits", *names, *options)
    assert [run.delusion and run.delusion.cluster for run in kept.runs] == [None, "90°"] * 2
    rows = _tables(script, kept, tmp_path)["Cluster death"]
    # All three peers of the cluster are, though five were asked for; and only its loss is shown.
    assert [row[:2] for name, row in rows.items() if name.startswith("delusional")] == [
        ["3", name] for name in ("0°", "90°", "180°", "270°")
    ]
    assert list(rows).index("*lost*") == list(rows).index("delusional-oracle#1") + 1
    assert "*lost*#1" not in rows
    for place, moment in enumerate(("before", "merged", "trained"), start=2):
        oracle, deluded = (
            [_accuracies(tmp_path / "runs" / f"{label}-seed{seed}", moment, 1) for seed in (0, 1)]
            for label in ("oracle", "delusional-oracle")
        )
        lost = np.mean(oracle, axis=0)[-10:].mean() - np.mean(deluded, axis=0)[-10:].mean()
        assert float(rows["*lost*"][place].split(" ± ")[0]) == pytest.approx(lost, abs=0.006)


def test_what_was_kept_without_analyses_is_still_shown(script, finished, tmp_path):
    path = script.write(script.keep(Experiment.open(finished)), tmp_path, "old")
    assert "### Fetched models" in script.page(tmp_path)
    kept = json.loads(path.read_text())
    for run in kept["runs"]:
        del run["summaries"], run["delusion"]
    path.write_text(json.dumps(kept))
    assert "| **random** |" in _section(script.page(tmp_path), "old")
    assert "###" not in script.page(tmp_path)


def test_all_presets_of_papers_are_listed(script):
    listed = script.page().partition("## How to run everything")[2].partition("\n## ")[0]
    commands = [line for line in listed.splitlines() if line.startswith("coterie run ")]
    wanted = [name for name in PRESETS if not name.startswith(("digits", "natural"))]
    assert sorted(line.split()[2] for line in commands) == sorted(wanted)


def test_shortened_runs_without_published_numbers_say_so(script, tmp_path):
    kept = _kept(script, tmp_path / "runs", "digits", "--strategy", "local", "--rounds", 1)
    script.write(kept, tmp_path, "one")
    section = _section(script.page(tmp_path), "one")
    assert "Not the preset's setting: shortened: 1 of 40 rounds; 12 of 40 peers." in section
