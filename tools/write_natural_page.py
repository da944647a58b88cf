"""Writes docs/natural.md, strategies on naturally divided data, from natural/*, with its picture.

usage: python tools/write_natural_page.py [FOLDER ...]

With output folders of `coterie run natural-…`, their runs are kept first, one file per preset.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from matplotlib.figure import Figure
from pydantic import TypeAdapter

from coterie.errors import ConfigError, CoterieError
from coterie.experiments.presets import PRESETS
from coterie.reports.colours import strategy_colour
from coterie.reports.figures.style import PAGE, new_figure, use_style
from coterie.results.peer_gains import PeerGains, compare_each_peer
from coterie.results.read_runs import read_runs
from coterie.results.statistics import confidence_interval
from coterie.storage.files import write_text
from coterie.tasks import TaskScore
from docs_folder import DOCS
from make_pictures import PICTURES, WIDTH, save_picture
from reproduction_page.tables import markdown

KEPT, PAGE_FILE, PICTURE = DOCS / "natural", DOCS / "natural.md", "natural"
LOCAL, OURS = "local", "kin"
CEILINGS = {"central": "one model on all data", "fedavg": "needs a server"}
NUM_COLOURS = 64

TITLE = """# Naturally divided data

In these presets every row belongs to a real person or place. Nothing was divided artificially, and
no clusters are known. So there is no Oracle. The question is which peers gain by training with
others, and which are harmed. Coterie reads the files from `ROOT/natural` (`--data-root ROOT`).

| preset | data |
| --- | --- |
"""
VERDICT = """
## Gains and harm

{verdict}

{together}

Means are over peers and the seeds {seeds}. A peer is better or worse than alone if a two-sided
paired t-test over the seeds says so at 5 %. By chance, about 2.5 % of peers are found better,
and as many worse. Central is one model on all data, and FedAvg needs a server. Neither is possible
here.
"""
READING = """
## How these runs were made

The learning rate and the number of rounds of each preset were chosen on seeds 100 and 101. Nothing
was tuned on the seeds of this page. Strategies have their default options, but phases that count
rounds are as short as the runs.

<!-- not run: needs the natural data -->
```bash
{commands}
```

This page is written by `python tools/write_natural_page.py` from the files in `docs/natural`. They
have the test score of each peer.
"""


@dataclass(frozen=True)
class KeptStrategy:
    """The scores of one strategy, and what it cost."""

    scores: list[list[float]]
    """By seed and peer."""
    models_per_peer: float
    megabytes_per_peer: float


@dataclass(frozen=True)
class KeptPreset:
    """The runs of one preset."""

    preset: str
    seeds: list[int]
    score: TaskScore
    strategies: dict[str, KeptStrategy]

    def scores(self, label: str) -> npt.NDArray[np.float64]:
        """Return the scores of a strategy, (seeds, peers)."""
        return np.array(self.strategies[label].scores)

    def mean(self, label: str) -> tuple[float, float]:
        """Return the mean over peers and seeds, and half the width of its 95% interval."""
        return confidence_interval(self.scores(label).mean(axis=1) * self.score.scale)

    def gains(self, label: str) -> PeerGains:
        """Return how peers differ from training alone."""
        return compare_each_peer(self.scores(label), self.scores(LOCAL), self.score)


KEPT_FORMAT = TypeAdapter(KeptPreset)


def keep(folder: Path, kept: Path = KEPT) -> None:
    """Keep the finished runs of one preset."""
    runs = [run for run in read_runs([folder]) if run.is_finished]
    names = {run.config.preset for run in runs}
    if len(names) != 1 or LOCAL not in {run.label for run in runs}:
        raise ConfigError(
            f"{folder} must hold finished runs of one preset, with {LOCAL} among them."
        )
    by_label = {
        label: {run.seed: run for run in runs if run.label == label}
        for label in dict.fromkeys(run.label for run in runs)
    }
    seeds = sorted(set.intersection(*(set(mine) for mine in by_label.values())))
    strategies = {}
    for label, mine in by_label.items():
        scores, costs = [], []
        for seed in seeds:
            metrics = mine[seed].metrics
            last = metrics.filter(pc.equal(metrics["round"], pc.max(metrics["round"])))
            scores.append(
                [round(value, 5) for value in last.sort_by("peer")["test_score"].to_pylist()]
            )
            costs.append(
                (mine[seed].summary.models_per_peer, mine[seed].summary.megabytes_per_peer)
            )
        models, megabytes = np.mean(costs, axis=0)
        strategies[label] = KeptStrategy(scores, float(models), round(float(megabytes), 3))
    (name,) = names
    found = KeptPreset(name, seeds, runs[0].score, strategies)
    write_text(kept / f"{name}.json", json.dumps(asdict(found), ensure_ascii=False) + "\n")


def read(kept: Path = KEPT) -> list[KeptPreset]:
    """Return what is kept, in the order of the presets."""
    paths = [kept / f"{name}.json" for name in PRESETS if name.startswith("natural-")]
    return [KEPT_FORMAT.validate_json(path.read_bytes()) for path in paths if path.exists()]


def page(found: Sequence[KeptPreset]) -> str:
    """Return the whole page."""
    parts = [TITLE.rstrip()]
    parts += [f"| {each.preset} | {PRESETS[each.preset].summary} |" for each in found]
    seeds = sorted({seed for each in found for seed in each.seeds})
    span = f"{seeds[0]} to {seeds[-1]}"
    parts += [VERDICT.format(verdict=verdict(found), together=together(found), seeds=span)]
    parts += [f"![Peers that are better and worse than alone]({'pictures/' + PICTURE}.webp)", ""]
    for each in found:
        parts += [f"## {each.preset}", "", table(each), ""]
    commands = "\n".join(
        f"coterie run {each.preset} --seed {each.seeds[0]} --seeds {len(each.seeds)}"
        for each in found
    )
    return "\n".join([*parts, READING.strip().format(commands=commands), ""])


def together(found: Sequence[KeptPreset]) -> str:
    """Return a sentence about Kin's peers in all presets."""
    gains = [each.gains(OURS) for each in found]
    better, worse, peers = (
        sum(getattr(each, name) for each in gains)
        for name in ("num_better", "num_worse", "num_peers")
    )
    return (
        f"With Kin, {better} of {peers} peers are significantly better than alone, and {worse} are "
        "worse."
    )


def verdict(found: Sequence[KeptPreset]) -> str:
    """Return one line per preset: the best strategy, and what Kin does."""
    rows = []
    for each in found:
        competing = [label for label in each.strategies if label not in CEILINGS]
        best = max(competing, key=lambda label: each.score.sign * each.mean(label)[0])
        ours, gains = each.mean(OURS), each.gains(OURS)
        most = max(competing, key=lambda label: each.gains(label).num_worse)
        harmed = each.gains(most).num_worse
        rows.append(
            [
                each.preset,
                each.score.title,
                f"{each.mean(LOCAL)[0]:.2f}",
                f"{ours[0]:.2f}",
                f"{best} {each.mean(best)[0]:.2f}",
                f"{gains.num_better} of {gains.num_peers}",
                f"{gains.num_worse} of {gains.num_peers}",
                f"{most} {harmed}" if harmed else "–",
            ]
        )
    titles = [
        "preset", "score", "local", "kin", "best", "better with kin", "worse with kin",
        "most worse",
    ]  # fmt: skip
    return markdown(titles, rows, texts=("preset", "score", "best", "most worse"))


def table(each: KeptPreset) -> str:
    """Return the strategies of one preset."""
    rows = []
    for label, strategy in each.strategies.items():
        mean, width = each.mean(label)
        gains = each.gains(label)
        numbers = ["–", "–", "–"]
        if label != LOCAL:
            numbers = [
                f"{gains.mean * each.score.scale:+.2f}",
                str(gains.num_better),
                str(gains.num_worse),
            ]
        name = f"{label} ({CEILINGS[label]})" if label in CEILINGS else label
        rows.append(
            [name, f"{mean:.2f} ± {width:.2f}", *numbers, f"{strategy.models_per_peer:,.0f}"]
        )
    peers = each.gains(LOCAL).num_peers
    titles = ["strategy", each.score.title, "gain", "better", "worse", "models"]
    note = f"{peers} peers. Gain, better, worse: than alone. Models: sent and received per peer."
    return f"{markdown(titles, rows, texts=('strategy',))}\n\n{note}"


def draw(found: Sequence[KeptPreset]) -> Figure:
    """Draw the shares of peers that are better and worse than alone."""
    figure = new_figure(PAGE, 1.7 * len(found) / 2 + 1.2)
    panels = figure.subplots(-(-len(found) // 3), min(3, len(found)), squeeze=False).ravel()
    every = list(dict.fromkeys(label for each in found for label in each.strategies))
    for axes, each in zip(panels, found, strict=False):
        labels = [label for label in each.strategies if label != LOCAL]
        gains: Mapping[str, PeerGains] = {label: each.gains(label) for label in labels}
        for place, label in enumerate(labels):
            mine = gains[label]
            better, worse = (100 * n / mine.num_peers for n in (mine.num_better, mine.num_worse))
            colour = strategy_colour(every.index(label))
            axes.barh(place, better, color=colour)
            axes.barh(place, -worse, color=colour, alpha=0.5)
        axes.axvline(0, color="#777777", linewidth=0.8)
        axes.set_yticks(range(len(labels)), labels)
        axes.invert_yaxis()
        axes.set_title(each.preset)
        axes.set_xlabel("% of peers: worse | better")
    for axes in panels[len(found) :]:
        axes.set_visible(False)
    return figure


def main(arguments: Sequence[str]) -> int:
    """Keep runs, write the page and draw its picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path)
    try:
        for folder in parser.parse_args(arguments).folders:
            keep(folder)
        found = read()
        write_text(PAGE_FILE, page(found))
        with use_style():
            file = io.BytesIO()
            draw(found).savefig(file, format="png", metadata={"Software": None})
            save_picture(file.getvalue(), PICTURE, WIDTH, PICTURES, NUM_COLOURS)
    except CoterieError as error:
        print(f"Error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
