"""The data of a report page, which the live page shows too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coterie.reports.html.run_groups import RunGroup, group_runs
from coterie.reports.html.views.curves_view import build_curves
from coterie.reports.html.views.estimates_view import build_estimates
from coterie.reports.html.views.frontier_view import build_frontier
from coterie.reports.html.views.gains_view import build_gains
from coterie.reports.html.views.graph_view import build_graph
from coterie.reports.html.views.heatmap_view import build_heatmap
from coterie.reports.html.views.merge_view import build_merge
from coterie.reports.html.views.recovery_view import build_recovery
from coterie.reports.html.views.settings_view import build_settings
from coterie.reports.html.views.similarity_view import build_similarity
from coterie.reports.html.views.summary_view import build_summary
from coterie.reports.html.views.view_parts import Json
from coterie.results.read_runs import Runs

VIEWS: dict[str, Callable[[RunGroup], Json]] = {
    "summary": build_summary,
    "curves": build_curves,
    "gains": build_gains,
    "frontier": build_frontier,
    "graph": build_graph,
    "heatmap": build_heatmap,
    "recovery": build_recovery,
    "estimates": build_estimates,
    "similarity": build_similarity,
    "merge": build_merge,
    "settings": build_settings,
}
"""All views, in their order on the page."""
MAX_NAMED = 5
"""Maximum number of strategies in a title."""


def build_page_data(runs: Runs) -> Json:
    """Return the data of a page about these runs."""
    found = group_runs(runs)
    return {
        "groups": [
            {"title": title, "views": {name: view(group) for name, view in VIEWS.items()}}
            for title, group in zip(make_titles(found), found, strict=True)
        ]
    }


def make_titles(groups: Sequence[RunGroup]) -> list[str]:
    """Return the titles of groups; equal titles are numbered."""
    names = [_title(group) for group in groups]
    return [
        name if names.count(name) == 1 else f"{name} ({place})"
        for place, name in enumerate(names, 1)
    ]


def _title(group: RunGroup) -> str:
    labels = group.labels
    if len(labels) > MAX_NAMED:
        labels = (*labels[: MAX_NAMED - 1], f"{len(labels) - MAX_NAMED + 1} more")
    return f"{group.config.preset}: {', '.join(labels)}"
