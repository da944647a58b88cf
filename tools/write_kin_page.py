"""Writes docs/kin.md, Kin beside other strategies, from kin/*, and draws its figures.

usage: python tools/write_kin_page.py
       python tools/write_kin_page.py FOLDER [--only SETTINGS]

With the folder of a `coterie study kin`, its finished runs are kept first, of all settings or some.
Other runs that were kept before stay, so that several folders can be put together.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from coterie.cli.options import named_strategies
from coterie.errors import CoterieError
from coterie.reports.table_formats import render_markdown
from coterie.storage.files import write_text
from coterie.studies.study_list import STUDIES
from coterie.studies.study_tables import NUMBERS, group_sheets
from docs_folder import DOCS
from kin_page import overview, text
from kin_page.figures import CAPTIONS, CURVES, DOTS, OVERVIEW, draw
from kin_page.kept import KeptSetting, keep, read
from reproduction_page.tables import markdown as table

PAGE, KEPT, PICTURES = DOCS / "kin.md", DOCS / "kin", DOCS / "pictures"
STUDY = STUDIES["kin"]
LEFT_OUT = ("is never fetched", "around round 20", "drop of")
"""Parts of the titles of tables that are in the files alone, so that the page stays short."""
SHOWN = [each for each in NUMBERS if not any(part in each.title for part in LEFT_OUT)]
SHOWN_ELSEWHERE = [each for each in SHOWN if "test accuracy" in each.title or "lose" in each.title]
"""The tables of all groups but the first."""


def page(folder: Path = KEPT, pictures: Path = PICTURES) -> str:
    """Return the whole page."""
    kept = read(STUDY, folder)
    drawn = {path.stem for path in pictures.glob("kin-*.webp")}
    parts = [text.TITLE, overview.overview(kept), "", text.LEGEND, *_pictures([OVERVIEW], drawn)]
    parts += [text.AGAINST, overview.against_each(kept), ""]
    parts += [text.ALL_PEERS, overview.all_peers(kept), ""]
    parts += [text.limits(overview.worst_poison(kept)), text.reading()]
    for group in STUDY.groups:
        mine = [each for each in kept if each.made.group == group]
        if mine:
            parts += [text.GROUPS[group], *_pictures(_names(group), drawn), *_tables(group, mine)]
    parts += [text.HOW, *_made(kept)]
    there = {each.made.setting for each in kept}
    if missing := [f"`{each.name}`" for each in STUDY.settings if each.name not in there]:
        parts.append(f"## Not run yet\n\n{', '.join(missing)}.\n")
    return "\n".join(parts)


def _names(group: str) -> list[str]:
    """Return the pictures of a group."""
    if group == overview.MAIN:
        return list(CURVES)
    return [name for name in DOTS if DOTS[name] == group]


def _pictures(names: Sequence[str], drawn: set[str]) -> list[str]:
    return [f"![{CAPTIONS[name]}](pictures/{name}.webp)\n" for name in names if name in drawn]


def _tables(group: str, kept: Sequence[KeptSetting]) -> list[str]:
    results = [one for each in kept for one in each.results]
    numbers = SHOWN if group == overview.MAIN else SHOWN_ELSEWHERE
    sheets = group_sheets(results, group, numbers)
    # The section already names the group.
    titles = [each.title.removeprefix(f"{group}: ") for each in sheets]
    return [
        render_markdown(replace(each, title=title[0].upper() + title[1:]))
        for each, title in zip(sheets, titles, strict=True)
    ]


def _made(kept: Sequence[KeptSetting]) -> list[str]:
    """Return how each setting differs from the study's own, and where it was run."""
    rows = []
    for each in kept:
        seeds = sorted({result.seed for result in each.results})
        first = each.results[0]
        departures = "; ".join(each.made.departures) or "–"
        sizes = [str(first.rounds), str(first.peers), ", ".join(map(str, seeds))]
        rows.append([each.made.setting, each.made.preset, *sizes, each.made.date, departures])
    titles = ["setting", "preset", "rounds", "peers", "seeds", "date", "differs from the study by"]
    places = dict.fromkeys(
        f"On {each.made.hardware}; "
        + ", ".join(f"{name} {version}" for name, version in each.made.software.items())
        for each in kept
    )
    lines = table(titles, rows, texts=("preset", "seeds", "date", "differs from the study by"))
    return [lines, "", *(f"{place}.\n" for place in places)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Keep a study if one is named, draw the figures, and write the page."""
    parser = argparse.ArgumentParser(description="Write docs/kin.md.")
    parser.add_argument("folder", nargs="?", type=Path, help="the folder of a study to keep")
    parser.add_argument("--only", help="some settings or groups, separated by commas")
    given = parser.parse_args(arguments)
    if given.folder is not None:
        keep(STUDY, given.folder, KEPT, named_strategies(given.only))
    draw(read(STUDY, KEPT))
    write_text(PAGE, page())


if __name__ == "__main__":
    try:
        main()
    except CoterieError as error:
        sys.exit(f"Error: {error}")
