"""Writes docs/reproduction.md, our results beside the published ones, from reproduction/*.json.

usage: python tools/write_reproduction_page.py
       python tools/write_reproduction_page.py FOLDER [--name NAME] [--command COMMAND]

With a folder, its results are kept first: what its finished runs reached and cost, how they were
started, and what analyses say about them. Of a study's folder, every setting with finished runs is
kept. Published numbers come from the package: no number is typed by hand.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.table import Table

from coterie.errors import CoterieError
from coterie.experiments.experiment import Experiment
from coterie.experiments.experiment_file import EXPERIMENT
from coterie.experiments.presets import PRESETS, find_preset
from coterie.experiments.published import published_tables
from coterie.experiments.published.published_table import PublishedComparison, PublishedTable
from coterie.reports.comparison_tables import TextTable
from coterie.reports.final_table import build_final_table
from coterie.reports.papers_tables import build_summary_table, move_reasons_below
from coterie.results.published_comparison import describe_missing_seeds
from coterie.results.reproduction import (
    MEAN,
    ReproducedFigure,
    ReproducedNumber,
    Reproduction,
    count_judgements,
    judge_figures,
    judge_numbers,
    reached_mean,
)
from coterie.storage.files import write_text
from coterie.studies.run_study import STUDY
from docs_folder import DOCS
from reproduction_page.kept import Kept, keep, read, reproduction, write
from reproduction_page.scatter import CAPTION, NAME, draw
from reproduction_page.tables import by_label, further_tables, has_neighbours, markdown

PAGE, KEPT = DOCS / "reproduction.md", DOCS / "reproduction"
ALL = "all"
TITLE = """# Reproduction

Coterie has the experiments of four papers. This table counts their published numbers, and how many
of them our runs reach. The figures of a paper count once for each of their settings.
"""
PICTURE_TITLE = """Each point is a published number that we have run in full. On the line, both are
equal.
"""
EACH = """## Every table and figure

Below the table: why runs are missing, and what was tried where numbers differ.
"""
EXPLANATIONS = """## How to read this page

- `coterie papers FOLDER…` prints the table of every table and figure for your own runs; `--json`
  prints every number.
- **Setting.** Every preset is one setting of a paper.
  [Decision 13](decisions/0013-what-presets-take.md) lists which values come from the paper's text,
  from its published code, or from a guess.
- **Test.** Accuracy, or squared error, is that of each peer's best model by validation. It is
  measured on test data of the peer's own distribution, at the end of the run.
- **Mean.** A cluster's number is the mean over its peers. The overall mean is over peers, or over
  clusters where the paper's mean is.
- **Interval.** With several seeds a number is their mean, ± half the width of its 95 % confidence
  interval (Student's t).
- **Difference.** Ours minus the published number.
- **Not a reproduction.** The runs differ from the published setting, and the line says how. Short
  runs show the order of strategies, not the final numbers.
- **Early stopping.** In the thesis a peer stops when its validation loss has not fallen for some
  rounds. Runs with `patience null` were kept without this rule.
- **Costs.** Wall and CPU time are sums over all rounds, mean over seeds, on the hardware named.
  Runs side by side share it. Early stopping may end a run before its last round.
- **Further tables** come from `coterie analyse`; [analyses.md](analyses.md) defines each number. A
  dash is an unknown number.

This page is written by `python tools/write_reproduction_page.py` from the files in
`docs/reproduction/`.

## How to run everything

`python tools/write_reproduction_page.py FOLDER` keeps the results of a folder and writes this page.
`coterie data` lists the datasets that are missing. Full runs take hours to days. `--rounds`,
`--seeds` and `--scale` shorten them, and this page then says so.
"""
VARIANTS = """## Variants of a setting

These full runs differ from the published setting on purpose:
"""


def page(folder: Path = KEPT) -> str:
    """Return the whole page."""
    kept = [(path.stem, read(path)) for path in sorted(folder.glob("*.json"))]
    order = list(PRESETS)
    kept.sort(key=lambda pair: (order.index(find_preset(pair[1].preset).name), pair[0]))
    found = [reproduction(name, one) for name, one in kept]
    rows, figures = judge_numbers(found), judge_figures(found)
    missing = [name for name in _of_papers() if name not in {one.preset for _, one in kept}]
    sheet = move_reasons_below(build_summary_table(rows, figures))
    parts = [TITLE, _verdict(rows, figures), "", *_notes(sheet.notes[:2])]
    parts += [PICTURE_TITLE, f"![{CAPTION}](pictures/{NAME}.webp)\n"]
    parts += [EACH, *_summary(sheet), *_variants(found, rows)]
    parts += [EXPLANATIONS, _all_commands()]
    parts += [_section(name, one) for name, one in kept]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        parts.append(f"## Not run yet\n\n{names}.\n")
    return "\n".join(parts)


def _verdict(rows: Sequence[ReproducedNumber], figures: Sequence[ReproducedFigure]) -> str:
    """Return one row per paper: its published numbers and figures, and how many we have."""
    counts: dict[str, list[int]] = {}

    def add(source: str, *numbers: int) -> None:
        for name in (source.partition(", ")[0], ALL):
            so_far = counts.get(name, [0] * len(numbers))
            counts[name] = [sum(pair) for pair in zip(so_far, numbers, strict=True)]

    for each in count_judgements(rows):
        met, differs = each.counts["met"], each.counts["explained"] + each.counts["unexplained"]
        add(each.source, each.num_rows, met, differs, each.num_rows - met - differs, 0, 0)
    for figure in figures:
        add(figure.source, 0, 0, 0, 0, 1, int(figure.judgement != "not run"))
    counts[ALL] = counts.pop(ALL)
    titles = ["paper", "published numbers", "met", "differ", "not run", "figures", "figures made"]
    return markdown(titles, [[name, *map(str, each)] for name, each in counts.items()])


def _summary(sheet: TextTable) -> list[str]:
    """Return the table of every table and figure, and the reasons below it."""
    rows = [[*line.cells] for line in sheet.rows]
    reasons = [each for note in sheet.notes[2:] if (each := _without_not_run(note))]
    table = markdown(sheet.header, rows, texts=("setting",))
    return [table, "", *(f"- {reason}" for reason in reasons), ""]


def _without_not_run(reason: str) -> str:
    """Return a reason without what the last column of the table says, or nothing."""
    text = re.sub(r"\S+: not run yet\. ?|Not run yet\. ?", "", reason).strip()
    return "" if text.endswith(":") else text


def _notes(notes: Sequence[str]) -> list[str]:
    return [f"{note}\n" for note in notes]


def _variants(found: Sequence[Reproduction], rows: Sequence[ReproducedNumber]) -> list[str]:
    """Return a table of full runs that differ from the published setting on purpose."""
    lines: list[list[str]] = []
    differences: list[str] = []
    for each in found:
        is_short = any(departure.startswith("shortened") for departure in each.departures)
        if not each.departures or is_short:
            continue
        there = {run.summary.label for run in each.runs}
        rows_before = len(lines)
        for row in rows:
            if row.preset == each.preset and row.part == MEAN and row.strategy in there:
                mean, _, seeds = reached_mean(
                    published_tables()[each.preset], each, row.strategy, MEAN
                )
                ours = f"{row.reached:.2f}" if row.is_comparable else "–"
                numbers = [f"{row.published:.2f}", ours, f"{mean:.2f}", str(seeds)]
                lines.append([each.name, row.strategy, *numbers])
        if len(lines) > rows_before:
            differences.append(f"- `{each.name}`: {'; '.join(each.departures)}.")
    titles = ["experiment", "strategy", "published", "ours", "variant", "seeds"]
    table = markdown(titles, lines, texts=("strategy",))
    return [VARIANTS, *differences, "", table, ""] if lines else []


def _of_papers() -> list[str]:
    """Return the presets of papers, without those of the bundled digits and of natural data."""
    return [
        name
        for name, preset in PRESETS.items()
        if preset.config.data.datasets != ("digits",) and preset.config.data.files is None
    ]


def _all_commands() -> str:
    tables = published_tables()
    commands = [
        f"coterie run {name}{f' --seeds {seeds}' if (seeds := tables[name].seeds) else ''}"
        for name in _of_papers()
        if name in tables
    ]
    others = [f"coterie run {name}" for name in _of_papers() if name not in tables]
    without = "Presets without published numbers:\n"
    return "\n".join([_block(*commands), "", without, _block(*others), ""])


def _block(*commands: str) -> str:
    """Return commands as a block; the comment tells the tests of pages not to run them."""
    return "\n".join(["<!-- not run: takes hours -->", "```bash", *commands, "```"])


def _section(name: str, kept: Kept) -> str:
    outcomes = [run.outcome for run in kept.runs]
    published = published_tables().get(kept.preset)
    table = build_final_table(kept.preset, outcomes, _comparison(kept, published))
    remarks = str(table.caption).splitlines() if table.caption else _unpublished(kept)
    software = ", ".join(f"{package} {version}" for package, version in kept.software.items())
    return "\n".join(
        [
            f"## {name}\n\n{PRESETS[kept.preset].summary}.\n\n{_block(kept.command)}\n",
            f"The numbers are {str(table.title).partition(': ')[2]}.\n",
            _markdown(table),
            "",
            *(f"- {remark}" for remark in remarks),
            "",
            _efforts(kept),
            f"\nOn {kept.hardware}; {software}.\n",
            *further_tables(kept.runs, published),
        ]
    )


def _comparison(kept: Kept, published: PublishedTable | None) -> PublishedComparison | None:
    """Return what goes beside the final table; neighbours that were kept have their own table."""
    if published is None:
        return None
    if has_neighbours(kept.runs):
        elsewhere = {"precision": None, "recall": None}
        results = {
            label: result.model_copy(update=elsewhere)
            for label, result in published.results.items()
        }
        published = published.model_copy(update={"results": results})
    labels = [run.outcome.label for run in kept.runs]
    compared = [label for label in labels if label in published.results]
    seeds = describe_missing_seeds(compared, published) if compared else []
    return PublishedComparison(published, (*kept.departures, *seeds))


def _unpublished(kept: Kept) -> list[str]:
    departures = "; ".join(kept.departures)
    setting = f"Not the preset's setting: {departures}." if departures else "The preset's setting."
    return ["No numbers were published.", setting]


def _markdown(table: Table) -> str:
    """Return a table for the console as one for the page; the best strategy stays bold."""
    rows = []
    columns = zip(*(column.cells for column in table.columns), strict=True)
    for cells, row in zip(columns, table.rows, strict=True):
        label = str(cells[0])
        mark = "**" if row.style == "bold" else "*" if label.startswith(" ") else ""
        others = [str(cell) for cell in cells[1:]]
        rows.append([f"{mark}{label.strip()}{mark}", *others])
    return markdown([str(column.header) for column in table.columns], rows)


def _efforts(kept: Kept) -> str:
    """Return how far runs went and what they cost, by strategy."""
    rows = []
    for label, mine in by_label(kept.runs).items():
        rounds = [run.num_rounds for run in mine]
        span = f"{min(rounds)}" if len(set(rounds)) == 1 else f"{min(rounds)} to {max(rounds)}"
        seconds = [np.mean([each.wall_seconds for each in mine])]
        seconds.append(np.mean([each.cpu_seconds for each in mine]))
        written = [f"{each:,.0f}" for each in seconds]
        rows.append([label, f"{span} of {kept.preset_rounds}", str(len(mine)), *written])
    return markdown(["strategy", "rounds", "seeds", "wall s", "CPU s"], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Keep an experiment if one is named, then write the page."""
    parser = argparse.ArgumentParser(description="Write docs/reproduction.md.")
    parser.add_argument("folder", nargs="?", type=Path, help="a finished experiment to keep")
    parser.add_argument("--name", help="what to call it; the name of its preset when not given")
    parser.add_argument("--command", help="the command it was started with, if it has to be named")
    given = parser.parse_args(arguments)
    if given.folder is not None and (given.folder / STUDY).exists():
        _keep_study(given.folder)
    elif given.folder is not None:
        kept = keep(Experiment.open(given.folder), given.command)
        write(kept, KEPT, given.name or kept.preset)
    draw(
        judge_numbers([reproduction(path.stem, read(path)) for path in sorted(KEPT.glob("*.json"))])
    )
    write_text(PAGE, page())


def _keep_study(folder: Path) -> None:
    """Keep every experiment of a study that has finished runs, under the name of its setting."""
    for path in sorted(folder.glob(f"*/{EXPERIMENT}")):
        experiment = Experiment.open(path.parent)
        if any(run.read_summary() for run in experiment.runs):
            command = f"coterie study papers --only {path.parent.name}"
            write(keep(experiment, command), KEPT, path.parent.name)


if __name__ == "__main__":
    try:
        main()
    except CoterieError as error:
        sys.exit(f"Error: {error}")
