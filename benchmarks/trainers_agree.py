"""Do the compiled trainer and torch lead to equally good models? The same runs with each.

usage: python benchmarks/trainers_agree.py [--seeds N] [--peers N] [--rounds N] [--set KEY=VALUE]
       [--side-by-side N] [--data-root DIR] [--save]

friends-cifar-labels5, shortened, DAC by inverse loss, real CIFAR-10. From one seed both begin with
the same weights and take the same batches; they round differently, and from the last bits whole
trainings drift apart. How far that takes them must be less than what another seed changes:
`points_apart` is how far the two are apart with each seed, `points_between_seeds` how far the best
and the worst seed of each trainer are.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from keeping import show

from coterie.benchmarking.machine import describe_machine
from coterie.experiments.config import RunConfig, parse_change
from coterie.experiments.experiment import Experiment, run_name
from coterie.experiments.presets import find_preset
from coterie.experiments.run_folder import RunFolder
from coterie.runtime.run_tables import read_table

PRESET, STRATEGY = "friends-cifar-labels5", "dac-inverse-loss"
TRAINERS = ("native", "torch")


def main() -> None:
    """Run every seed with both trainers, print the figures, and keep them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--peers", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--side-by-side", type=int, default=1)
    parser.add_argument("--data-root")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    changes: dict[str, Any] = {"peers.count": options.peers, "rounds": options.rounds}
    if options.data_root:
        changes["data.root"] = options.data_root
    given = dict(parse_change(text) for text in options.set)
    figures = describe_machine() | {
        "preset": PRESET,
        "strategy": STRATEGY,
        "peers": options.peers,
        "rounds": options.rounds,
        "changed": given,
        **compared(changes | given, range(options.seeds), options.side_by_side),
    }
    show(figures, "trainers-agree", save=options.save)


def compared(changes: dict[str, Any], seeds: range, side_by_side: int) -> dict[str, Any]:
    """Return what each trainer reached with each seed, and how far they are apart."""
    # Nothing but the end is tested: it is what counts, and tests take time.
    changes = {"test_every": max(changes["rounds"], 1), **changes}
    with tempfile.TemporaryDirectory() as place:
        runs = {}
        for trainer in TRAINERS:
            configs = find_preset(PRESET).runs(
                [STRATEGY], seeds, {**changes, "training.trainer": trainer}
            )
            runs[trainer] = run_all(Path(place) / trainer, configs, side_by_side)
        reached = {trainer: [accuracy(run) for run in of] for trainer, of in runs.items()}
        seconds = {trainer: cpu_seconds(of) for trainer, of in runs.items()}
    pairs = list(zip(reached["native"], reached["torch"], strict=True))
    return {
        "test_score_percent": rounded(reached),
        "points_apart": [round(native - torch, 3) for native, torch in pairs],
        "mean_points_apart": round(statistics.mean(one - other for one, other in pairs), 3),
        "points_between_seeds": {
            trainer: round(max(values) - min(values), 3) for trainer, values in reached.items()
        },
        "cpu_seconds": seconds,
    }


def run_all(folder: Path, configs: list[RunConfig], side_by_side: int) -> list[RunFolder]:
    """Run all seeds with one trainer, each on one thread."""
    experiment = Experiment.create(folder, configs)
    experiment.run(
        threads=side_by_side,
        side_by_side=side_by_side,
        on_end=lambda run: print(folder.name, run_name(run.config), flush=True),
    )
    return experiment.runs


def accuracy(run: RunFolder) -> float:
    """Return the mean test accuracy of a finished run in percent."""
    reached = run.read_summary()
    if reached is None:
        raise RuntimeError(f"{run.folder.name} has not finished.")
    return 100 * reached.mean


def rounded(reached: dict[str, list[float]]) -> dict[str, list[float]]:
    """Return the accuracies with as many digits as are worth keeping."""
    return {trainer: [round(value, 3) for value in values] for trainer, values in reached.items()}


def cpu_seconds(runs: list[RunFolder]) -> float:
    """Return what all rounds of the runs took."""
    tables = [read_table(run.folder, "timings") for run in runs]
    return round(sum(float(pc.sum(table["cpu_seconds"]).as_py()) for table in tables), 1)


if __name__ == "__main__":
    main()
