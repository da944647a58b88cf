"""`coterie report`: write a page about runs, as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from coterie.cli import console
from coterie.errors import StorageError


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN…", help="Output folders of `coterie run`, or single runs."),
    ],
    target: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The file of the page.")
    ] = Path("report.html"),
) -> None:
    """Write one HTML page with all figures: which peers learnt from each other, and did it help."""
    from coterie.reports.html.page_data import build_page_data
    from coterie.reports.html.page_shell import render_page
    from coterie.results.read_runs import Runs, read_runs
    from coterie.storage.files import write_text

    _check_target(target)
    runs = read_runs(folders)
    console.print_problems(runs.problems)
    data = build_page_data(Runs(runs, _without_paths(runs.problems, folders)))
    write_text(target, render_page(data["groups"][0]["title"], data))
    megabytes = target.stat().st_size / 1e6
    console.print_result(
        f"{len(runs)} runs are in {target} ({megabytes:.1f} MB). Open it in any browser."
    )


def _without_paths(problems: Sequence[str], folders: Sequence[Path]) -> tuple[str, ...]:
    """Shorten folders to their names: readers of a page need not see the paths of this disk."""
    names = {str(folder): folder.resolve().name for folder in folders}
    found = []
    for problem in problems:
        for path, name in names.items():
            problem = problem.replace(path, name) if len(path) > 1 else problem  # noqa: PLW2901
        found.append(problem)
    return tuple(found)


def _check_target(target: Path) -> None:
    """Refuse a file that cannot be written, before reading the runs."""
    if target.is_dir():
        raise StorageError(f"{target} is a folder. Give a file with -o, such as -o report.html.")
    if not target.parent.is_dir():
        raise StorageError(
            f"Cannot write {target}: there is no folder {target.parent}. Create it first, or "
            "choose another file with -o."
        )
