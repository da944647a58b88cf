"""`coterie analyse`: which peers found each other, the effect of merging, recovery from shifts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.console import out, print_result
from coterie.errors import ConfigError


def analyse(
    folder: Annotated[Path, typer.Argument(help="The output folder of `coterie run`, or one run.")],
    only: Annotated[
        str | None,
        typer.Option(
            help="Some analyses, separated by commas, see docs/analyses.md. Default: all."
        ),
    ] = None,
    window: Annotated[int, typer.Option(min=1, help="The number of last rounds in means.")] = 10,
    target: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the tables. Default: FOLDER/analyses."),
    ] = None,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Write CSV files instead of Parquet.")
    ] = False,
    print_json: Annotated[
        bool, typer.Option("--json", help="Print the summaries as JSON instead of tables.")
    ] = False,
) -> None:
    """Analyse runs: which peers found each other, the effect of merging, recovery from shifts."""
    from coterie.experiments.experiment import Experiment
    from coterie.results.analyses.analyse_runs import (
        analyse_runs,
        as_json,
        choose_analyses,
        console_table,
        save_details,
    )
    from coterie.results.read_runs import label_runs

    analyses = choose_analyses(only)
    runs = label_runs(Experiment.open(folder))
    results, missing = analyse_runs(runs, analyses, window)
    if only and missing:
        reasons = [f"{analysis.name}: {analysis.why_missing(runs)}" for analysis in missing]
        raise ConfigError(f"Cannot analyse {folder}.\n" + "\n".join(reasons))
    target = target or folder / "analyses"
    save_details(results, target, as_csv=as_csv)
    if print_json:
        typer.echo(as_json(results))
        return
    for result in results:
        out.print(console_table(result))
    for analysis in missing:
        out.print(f"{analysis.name}: {analysis.why_missing(runs)}", style="dim", highlight=False)
    print_result(f"The tables of all rounds are in {target}")
