"""The page about Kin is written from what is kept of studies, and is up to date."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace

import pytest
from commands import coterie
from pages import ROOT
from PIL import Image
from scripts import script

from coterie.errors import StorageError

DOCS = ROOT / "docs"
ASKED = ("--only", "synthetic,ablation-digits", "--strategy", "oracle,kin,kin-no-adopt")


@pytest.fixture(scope="module", name="script")
def page_script():
    return script("write_kin_page")


@pytest.fixture(scope="module")
def kept(script, tmp_path_factory):
    """Return the folders of a small study, of what is kept of it, and of its pictures."""
    folder = tmp_path_factory.mktemp("study")
    small = ("--scale", 0.1, "--rounds", 3, "--seeds", 2, "--threads", 1)
    assert coterie("study", "kin", *ASKED, *small, "--out", folder / "out").code == 0
    script.keep(script.STUDY, folder / "out", folder / "kept")
    (folder / "pictures").mkdir()
    script.draw(script.read(script.STUDY, folder / "kept"), folder / "pictures")
    return folder / "out", folder / "kept", folder / "pictures"


def test_page_is_up_to_date(script):
    page = (DOCS / "kin.md").read_text()
    assert page == script.page(), "run: .venv/bin/python tools/write_kin_page.py"


def test_page_holds_tables_pictures_and_how_they_were_made(script, kept):
    study, files, pictures = kept
    page = script.page(files, pictures)
    main = page[page.index("## Strategies side by side") : page.index("## Kin without")]
    ablation = page[page.index("## Kin without") : page.index("## How the runs")]
    made = page[page.index("## How the runs") : page.index("## Not run yet")]
    # The tables are those of the study itself.
    tables = re.findall(r"\*\*Test accuracy.+?\n\n(.+?\n\n)", main, re.DOTALL)
    assert tables
    for table in tables:
        assert table in (study / "study.md").read_text()
    assert "| kin-no-adopt |" in ablation
    assert "(pictures/kin-curves.webp)" in main
    assert "(pictures/kin-ablation.webp)" in ablation
    [line] = [line for line in made.splitlines() if line.startswith("| synthetic |")]
    assert "shortened: 3 of 50 rounds" in line
    assert "| 1, 2 |" in line
    assert "`synthetic`" not in page[page.index("## Not run yet") :]
    assert "`labels2`" in page[page.index("## Not run yet") :]


def rows(text: str) -> list[list[str]]:
    """Return the cells of a table's lines, without its header."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_page_begins_with_strategies_beside_kin_from_the_files(script):
    """Computed once more from the files, not by what the page is written with."""
    page = script.page()
    first_screen = page[: page.index("![")]
    header = next(line for line in first_screen.splitlines() if line.startswith("| setting"))
    titles = [cell.strip() for cell in header.strip("|").split("|")]
    found = rows(first_screen)
    assert [cells[0].split()[0] for cells in found] == [
        each.name for each in script.STUDY.settings if each.group == "main"
    ]
    for cells in found:
        name = cells[0].split()[0]
        with (DOCS / "kin" / f"{name}.csv").open(newline="") as file:
            kept = list(csv.DictReader(file))
        column = "over_time" if kept[0]["over_time"] else "test"
        places, scale = (1, 100) if kept[0]["is_accuracy"] == "True" else (2, 1)
        for title, cell in zip(titles[1:-3], cells[1:-3], strict=True):
            values = [float(run[column]) for run in kept if run["strategy"] == title]
            shown = cell.strip("*†")
            if not values:
                assert shown == "–"
                continue
            assert float(shown) == pytest.approx(
                scale * sum(values) / len(values), abs=0.51 * 10**-places
            )


def test_kin_against_each_strategy_counts_settings_on_the_same_seeds(script):
    page = script.page()
    section = page[page.index("## Kin against") : page.index("### With all peers")]
    by_rule = {(cells[0], cells[1]): cells[2] for cells in rows(section)}
    for (other, rule), told in by_rule.items():
        column = {"as preset": "test", "other": "test_other"}[rule]
        better = settings = 0
        for setting in (each for each in script.STUDY.settings if each.group == "main"):
            with (DOCS / "kin" / f"{setting.name}.csv").open(newline="") as file:
                kept = list(csv.DictReader(file))
            ours, theirs = (
                {run["seed"]: float(run[column]) for run in kept if run["strategy"] == name}
                for name in ("kin", other)
            )
            common = ours.keys() & theirs.keys()
            sign = 1 if kept[0]["is_accuracy"] == "True" else -1
            settings += bool(common)
            better += sum(sign * (ours[seed] - theirs[seed]) for seed in common) > 0
        assert told == f"{better} of {settings}"


def test_no_number_is_typed_into_the_text():
    """Results come from the kept files; what is left are seeds, which no run can tell."""
    text = (ROOT / "tools" / "kin_page" / "text.py").read_text()
    assert not re.findall(r"\d+\.\d+", text)
    without_seeds = re.sub(r"\| [\d, to]+ \|", "", text)
    # Digits within names and formats, such as labels5 or .0%, are no numbers.
    typed = set(re.findall(r"(?<![\w.])\d+", without_seeds))
    assert typed <= {"95", "0012", "2", "3", "100"}, "seeds, an interval, a record, a factor"


def test_the_worst_poison_is_that_of_the_files(script):
    page = script.page()
    losses = []
    for path in (DOCS / "kin").glob("*.csv"):
        with path.open(newline="") as file:
            losses += [
                (float(run["lost"]), run["strategy"], run["setting"])
                for run in csv.DictReader(file)
                if run["lost"] and run["strategy"].startswith("kin-")
            ]
    lost, strategy, setting = max(losses)
    assert f"`{strategy.removeprefix('kin-')}`: {100 * lost:.1f} points in `{setting}`" in page


def test_pictures_show_something(kept):
    names = {path.stem for path in kept[2].iterdir()}
    assert names == {"kin-overview", "kin-curves", "kin-own-cluster", "kin-ablation"}
    for path in kept[2].iterdir():
        with Image.open(path) as image:
            assert min(image.size) > 300
            assert len(image.getcolors(1 << 24)) > 50, "nothing is drawn"


def test_what_is_kept_of_other_settings_stays(script, kept, tmp_path):
    _, files, _ = kept
    for path in files.iterdir():
        (tmp_path / path.name.replace("synthetic", "labels2")).write_bytes(path.read_bytes())
    script.keep(script.STUDY, kept[0], tmp_path)
    # Oracle and Kin of the ablation are those that are compared with all others, too.
    mine = {"synthetic", "digits", "ablation-digits"}
    assert {path.stem for path in tmp_path.iterdir()} == {"labels2", *mine}
    script.keep(script.STUDY, kept[0], tmp_path / "some", ["synthetic"])
    assert {path.stem for path in (tmp_path / "some").iterdir()} == {"synthetic"}


LEVELS = {"mean": 7.0, "low": 0.0, "high": 200.0}


class TestRunsThatWereKeptBefore:
    """Oracle and Kin, seeds 1 and 2; one of them was kept some time ago."""

    @pytest.fixture
    def setting(self, script):
        return next(each for each in script.STUDY.settings if each.name == "synthetic")

    @pytest.fixture
    def now(self, script, kept, setting):
        found = script.read(script.STUDY, kept[1])
        return next(each for each in found if each.made.setting == setting.name)

    def combine(self, before, now, setting):
        return script("kin_page.kept").combined(before, now, setting)

    def seeds_before(self, now, *seeds):
        """Return the same setting with Kin's seeds numbered anew, each worse by its number."""
        runs = [each for each in now.results if each.strategy == "kin"]
        renamed = [replace(runs[0], seed=seed, test=seed) for seed in seeds]
        curves = [
            replace(
                each,
                seeds=list(seeds),
                **{name: [level] * len(each.round) for name, level in LEVELS.items()},
            )
            for each in now.made.curves
            if each.strategy == "kin"
        ]
        return replace(now, results=renamed, made=replace(now.made, curves=curves))

    def test_others_stay_and_the_same_are_replaced(self, now, setting):
        both = self.combine(self.seeds_before(now, 2, 3), now, setting)
        runs = {(each.strategy, each.seed): each for each in both.results}
        assert list(runs) == [("oracle", 1), ("oracle", 2), ("kin", 1), ("kin", 2), ("kin", 3)]
        assert runs["kin", 3].test == 3
        assert runs["kin", 2] in now.results
        # What is a mean over an old and a new seed 2 is no mean of seeds.
        assert both.made.curves == now.made.curves

    def test_curves_are_over_the_seeds_of_both(self, now, setting):
        both = self.combine(self.seeds_before(now, 3, 4, 5, 6), now, setting)
        mine = {(each.strategy, each.kind): each for each in now.made.curves}
        assert [(each.strategy, each.kind) for each in both.made.curves] == list(mine)
        for each in both.made.curves:
            new = mine[each.strategy, each.kind]
            if each.strategy != "kin":
                assert each == new
                continue
            assert each.seeds == [1, 2, 3, 4, 5, 6]
            assert each.mean == pytest.approx(
                [(2 * mean + 4 * 7) / 6 for mean in new.mean], abs=1e-3
            )
            assert each.low == [min(value, 0.0) for value in new.low]
            assert each.high == [max(value, 200.0) for value in new.high]

    def test_runs_with_other_settings_are_refused(self, now, setting):
        before = self.seeds_before(now, 3)
        less = replace(before.made, departures=[*now.made.departures, "strategy.fetches 2"])
        with pytest.raises(StorageError, match=r"strategy.fetches 2 and .*Run with the same"):
            self.combine(replace(before, made=less), now, setting)

    @pytest.mark.parametrize(
        "departure", ["poison.count 1", "strategy.exploration_rounds 10 instead of 20"]
    )
    def test_what_concerns_only_some_runs_may_differ(self, now, setting, departure):
        before = self.seeds_before(now, 3)
        other = replace(before.made, departures=[*now.made.departures, departure])
        both = self.combine(replace(before, made=other), now, setting)
        assert both.made.departures == [*now.made.departures, departure]

    def test_what_the_study_has_no_more_is_dropped(self, now, setting):
        before = self.seeds_before(now, 3)
        old = replace(before, results=[replace(before.results[0], strategy="kin-of-old")])
        both = self.combine(old, now, setting)
        assert {each.strategy for each in both.results} == {"oracle", "kin"}


def test_curves_are_short_and_end_with_the_last_round(kept):
    curves = json.loads((kept[1] / "synthetic.json").read_text())["curves"]
    kinds = {(curve["strategy"], curve["kind"]) for curve in curves}
    assert {("oracle", "own cluster"), ("kin", "validation")} <= kinds
    assert all(curve["round"][-1] == 3 and curve["seeds"] == [1, 2] for curve in curves)


def test_a_folder_without_results_is_refused(script, tmp_path):
    with pytest.raises(StorageError, match="no finished run"):
        script.keep(script.STUDY, tmp_path, tmp_path / "kept")
    (tmp_path / "labels2.json").write_text("{}")
    with pytest.raises(StorageError, match="is damaged"):
        script.read(script.STUDY, tmp_path)
