"""The whole story of some runs as plain data: what a page shows, and what a live view sends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coterie.reports.html.subjects import Subject, subjects
from coterie.reports.html.views.curves import curves
from coterie.reports.html.views.estimates import beliefs
from coterie.reports.html.views.frontier import frontier
from coterie.reports.html.views.gains import gains
from coterie.reports.html.views.graph import graph
from coterie.reports.html.views.heatmap import heatmap
from coterie.reports.html.views.merge import merge
from coterie.reports.html.views.recovery import recovery
from coterie.reports.html.views.settings import settings
from coterie.reports.html.views.similarity import similarity
from coterie.reports.html.views.summary import summary
from coterie.reports.html.views.view_parts import Json
from coterie.results.read_runs import Runs

VIEWS: dict[str, Callable[[Subject], Json]] = {
    "summary": summary,
    "curves": curves,
    "gains": gains,
    "frontier": frontier,
    "graph": graph,
    "heatmap": heatmap,
    "recovery": recovery,
    "beliefs": beliefs,
    "similarity": similarity,
    "merge": merge,
    "settings": settings,
}
"""All views, in the order in which a page shows them."""
MAX_NAMED = 5
"""How many strategies a title names at most."""


def story(gathered: Runs) -> Json:
    """Return the data of a page about these runs."""
    found = subjects(gathered)
    return {
        "subjects": [
            {"title": title, "views": tell(subject)}
            for title, subject in zip(titles(found), found, strict=True)
        ]
    }


def tell(subject: Subject) -> dict[str, Json]:
    """Return the data of all views of one subject."""
    return {name: view(subject) for name, view in VIEWS.items()}


def titles(found: Sequence[Subject]) -> list[str]:
    """Return what subjects are called; those of one name are numbered."""
    names = [_title(subject) for subject in found]
    return [
        name if names.count(name) == 1 else f"{name} ({place})"
        for place, name in enumerate(names, 1)
    ]


def _title(subject: Subject) -> str:
    labels = subject.labels
    if len(labels) > MAX_NAMED:
        labels = (*labels[: MAX_NAMED - 1], f"{len(labels) - MAX_NAMED + 1} more")
    return f"{subject.config.preset}: {', '.join(labels)}"
