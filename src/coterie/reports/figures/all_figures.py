"""All figures of the runs of some folders, with names for their files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from coterie.errors import CoterieError
from coterie.experiments.experiment import Experiment
from coterie.reports.figures.curve_figures import draw_communication, draw_curves
from coterie.reports.figures.graph_figures import draw_graphs
from coterie.reports.figures.heatmap_figures import draw_heatmaps
from coterie.reports.figures.merge_figures import draw_merges
from coterie.reports.figures.similarity_figures import draw_similarities
from coterie.reports.figures.sweep_figures import draw_sweeps
from coterie.reports.html.run_groups import RunGroup, group_runs
from coterie.results.read_runs import Runs

FIGURES: tuple[Callable[[RunGroup], dict[str, Figure]], ...] = (
    draw_curves,
    draw_merges,
    draw_heatmaps,
    draw_graphs,
    draw_similarities,
    draw_communication,
)
MAX_NAME = 80


def draw_all(runs: Runs, folders: Sequence[Path]) -> Iterator[tuple[str, Figure]]:
    """Yield each figure that has data, with a name for its file."""
    names: dict[str, int] = {}
    for name, figure in _draw(runs, folders):
        # The name contains the label of a strategy, which may be hostile: it must not be a path.
        safe = re.sub(r"[^\w.+=-]+", "_", name).strip("._")[:MAX_NAME] or "figure"
        names[safe] = names.get(safe, 0) + 1
        yield safe if names[safe] == 1 else f"{safe}~{names[safe]}", figure


def _draw(runs: Runs, folders: Sequence[Path]) -> Iterator[tuple[str, Figure]]:
    found = group_runs(runs)
    for group in found:
        before = f"{group.config.preset}-" if len(found) > 1 else ""
        for draw in FIGURES:
            for name, figure in draw(group).items():
                yield f"{before}{name}", figure
    for folder in folders:
        try:
            experiment = Experiment.open(folder, lambda error: None)
            yield from draw_sweeps(experiment).items()
        except CoterieError:
            continue  # the problem was reported when the runs were read
