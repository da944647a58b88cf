"""All figures: what is drawn of the runs of some folders, by the names of their files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from coterie.errors import CoterieError
from coterie.experiments.experiment import Experiment
from coterie.reports.figures.accuracy import accuracy
from coterie.reports.figures.communication import communication
from coterie.reports.figures.graphs import graphs
from coterie.reports.figures.heatmaps import heatmaps
from coterie.reports.figures.merges import merges
from coterie.reports.figures.similarities import similarities
from coterie.reports.figures.sweeps import sweep_figures
from coterie.reports.html.subjects import Subject, subjects
from coterie.results.read_runs import Runs

FIGURES: tuple[Callable[[Subject], dict[str, Figure]], ...] = (
    accuracy,
    merges,
    heatmaps,
    graphs,
    similarities,
    communication,
)
MAX_NAME = 80


def all_figures(gathered: Runs, folders: Sequence[Path]) -> Iterator[tuple[str, Figure]]:
    """Yield every figure there is something to draw for, with a name for its file."""
    names: dict[str, int] = {}
    for name, figure in _drawn(gathered, folders):
        # Names of strategies are part of it, and hostile: no way leads out of the folder.
        safe = re.sub(r"[^\w.+=-]+", "_", name).strip("._")[:MAX_NAME] or "figure"
        names[safe] = names.get(safe, 0) + 1
        yield safe if names[safe] == 1 else f"{safe}~{names[safe]}", figure


def _drawn(gathered: Runs, folders: Sequence[Path]) -> Iterator[tuple[str, Figure]]:
    found = subjects(gathered)
    for subject in found:
        before = f"{subject.config.preset}-" if len(found) > 1 else ""
        for draw in FIGURES:
            for name, figure in draw(subject).items():
                yield f"{before}{name}", figure
    for folder in folders:
        try:
            experiment = Experiment.open(folder, [])
            yield from sweep_figures(experiment).items()
        except CoterieError:
            continue  # what is wrong with it was told when its runs were gathered
