"""Writes docs/reproduction.md, our results beside the published ones, from reproduction/*.json.

usage: python tools/write_reproduction_page.py
       python tools/write_reproduction_page.py FOLDER [--name NAME] [--command COMMAND]

With a folder, the experiment in it is kept first: what its finished runs reached, what they cost,
how they were started and what analyses say about them. Of a study's folder every setting with
finished runs is kept. The published numbers are those of the package, so that no number is typed
by hand.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.table import Table

from coterie.errors import CoterieError
from coterie.experiments.experiment import EXPERIMENT, Experiment
from coterie.experiments.presets import PRESETS, find_preset
from coterie.experiments.published import published_tables
from coterie.experiments.published.published_table import Comparison, PublishedTable
from coterie.reports.final_table import final_table
from coterie.storage.files import write_text
from coterie.studies.running import STUDY
from docs_folder import DOCS
from reproduction_page.kept import Kept, keep, read, write
from reproduction_page.tables import by_label, further_tables, has_neighbours, markdown

PAGE, KEPT = DOCS / "reproduction.md", DOCS / "reproduction"
INTRODUCTION = """# Reproduction

Our results beside the published ones, written by `python tools/write_reproduction_page.py` from
the files in `docs/reproduction/`, one for each experiment.

**What is compared.** Every preset is one setting of a paper, with the paper's hyperparameters. Test
accuracy, or mean squared error, is that of each peer's best model by validation, on test data of
the peer's own distribution at the end of the run. Papers do not say everything:
[algorithms.md](algorithms.md) lists what was decided, and where a paper and its published code
disagree.

**How means are formed.** A cluster's number is the mean over its peers. The mean is over all peers,
or over clusters where the paper's is; then the column says so. With several seeds a number is their
mean, ± half the width of its 95 % confidence interval (Student's t). The difference is ours minus
the published one.

**How to read "shortened".** Below each table stands in what the runs depart from the published
setting: rounds, peers, seeds, any other setting. "Not a reproduction" means just that: a run of 100
of 300 rounds shows whether the order of strategies is the same, not whether a number is. A strategy
without a row "published" has no published number.

**Early stopping.** In the thesis a peer stops after 50 rounds without a lower validation loss, and
its model with the highest validation accuracy is tested. Some results below were kept before the
presets did so: they name `patience null instead of 50`. Random is far better without early
stopping, as `friends-cifar-labels5` shows beside `friends-cifar-labels5-all-rounds`.

**Where it differs, and why that may be.** All of the DAC paper's tables 1 and 2 are 3 to 6 points
above ours, with one exception: Random in table 1 is met. It is also the one that does not overfit;
the others would look so if the published runs had some regularisation that the paper does not
mention. Tried: if merged models may become the best as well as trained ones (`best: any`), Oracle
gains 2.4 points and Random none (40 peers, 60 rounds, one seed); if accuracy instead of loss
decides, Local gains one point of five (8 peers), and Oracle one. It is not the order of acting
(Oracle, 40 peers, 100 rounds: 41.5 % in turn, 40.8 % at once), nor the learning rate (Local with
1e-4: 28.8 % as with 3e-4; 8 peers).

**What it costs.** Wall and CPU time are sums over all rounds of a run, mean over seeds, on the
hardware that is named; runs that ran side by side shared it. Early stopping may end a run before
its last round.

**What else is shown.** Not everything is a final accuracy. Where `coterie analyse` has something to
say, further tables follow: who found whom, lists of neighbours, shifts, cluster death.
[analyses.md](analyses.md) defines each number; unknown ones are shown as –.

## How to run everything

Each command leaves a folder; `python tools/write_reproduction_page.py FOLDER` keeps what it
reached. `coterie data` says which datasets are missing. Full runs take hours to days: `--rounds`,
`--seeds`, `--scale` shorten them, and the page will say so.
"""


def page(folder: Path = KEPT) -> str:
    """Return the whole page."""
    kept = [(path.stem, read(path)) for path in sorted(folder.glob("*.json"))]
    order = list(PRESETS)
    kept.sort(key=lambda pair: (order.index(find_preset(pair[1].preset).name), pair[0]))
    missing = [name for name in _of_papers() if name not in {one.preset for _, one in kept}]
    parts = [INTRODUCTION, _all_commands()]
    parts += [_section(name, one) for name, one in kept]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        parts.append(f"## Not run yet\n\n{names}.\n")
    return "\n".join(parts)


def _of_papers() -> list[str]:
    """Return the presets that are a paper's; the bundled digits are for trying out."""
    return [name for name, preset in PRESETS.items() if preset.config.data.datasets != ("digits",)]


def _all_commands() -> str:
    tables = published_tables()
    commands = [
        f"coterie run {name}{f' --seeds {seeds}' if (seeds := tables[name].seeds) else ''}"
        for name in _of_papers()
        if name in tables
    ]
    others = [f"coterie run {name}" for name in _of_papers() if name not in tables]
    without = "These have no published numbers, only curves or nothing at all:\n"
    return "\n".join([_block(*commands), "", without, _block(*others), ""])


def _block(*commands: str) -> str:
    """Return commands as a block; the comment tells the tests of pages not to run them."""
    return "\n".join(["<!-- not run: takes hours -->", "```bash", *commands, "```"])


def _section(name: str, kept: Kept) -> str:
    outcomes = [run.outcome for run in kept.runs]
    published = published_tables().get(kept.preset)
    table = final_table(kept.preset, outcomes, _comparison(kept, published))
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


def _comparison(kept: Kept, published: PublishedTable | None) -> Comparison | None:
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
    return Comparison(published, kept.departures)


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
