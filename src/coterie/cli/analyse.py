"""`coterie analyse`: which peers found each other, the effect of merging, recovery from shifts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.console import out
from coterie.errors import ConfigError


def analyse(
    folder: Annotated[Path, typer.Argument(help="The output folder of `coterie run`, or one run.")],
    only: Annotated[
        str | None,
        typer.Option(help="Some analyses, separated by commas; see docs/analyses.md."),
    ] = None,
    window: Annotated[int, typer.Option(min=1, help="Rounds that means are taken over.")] = 10,
    target: Annotated[
        Path | None,
        typer.Option("--out", help="Where tables go; FOLDER/analyses when not given."),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV instead of Parquet.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summaries as JSON instead of tables.")
    ] = False,
) -> None:
    """Say who found whom, what merging did and how fast shifts were overcome."""
    from coterie.experiments.experiment import Experiment
    from coterie.results.analyses import analyse_runs
    from coterie.results.read_runs import label_runs

    analyses = analyse_runs.choose_analyses(only)
    results, missing = analyse_runs.analyse_runs(
        label_runs(Experiment.open(folder)), analyses, window
    )
    if only and missing:
        reasons = [f"{analysis.name}: {analysis.missing}" for analysis in missing]
        raise ConfigError(f"Cannot analyse {folder}.\n" + "\n".join(reasons))
    target = target or folder / "analyses"
    analyse_runs.save_details(results, target, as_csv=as_csv)
    if as_json:
        typer.echo(analyse_runs.as_json(results))
        return
    for result in results:
        out.print(analyse_runs.console_table(result))
    for analysis in missing:
        out.print(f"{analysis.name}: {analysis.missing}", style="dim", highlight=False)
    out.print(f"All rounds are in {target}", soft_wrap=True, highlight=False, markup=False)
