"""Real peers on one computer: their memory, what a round costs beyond training, and how good.

usage: python benchmarks/swarm.py memory|overhead|accuracy [--peers N] [--rounds N]
       [--set KEY=VALUE] [--save]

memory: 64 peers on the digits preset. What counts is the largest private memory (USS) of each peer
at any time: what it has beyond the libraries and data pages that it shares with the others.

overhead: 8 peers, fashion-cnn, 500 real Fashion-MNIST images each, DAC in aligned rounds. Work is
training and measuring models, validation included. The share of a round outside of it is given in
three ways:
  of_cpu_time    1 − (CPU time of all peers' work) / (CPU time of all peers): what encryption,
                 checks, merging, records and checkpoints compute. Other load does not change it.
  of_machine     1 − (CPU time of all peers' work) / (cores × wall time): idle cores count as well.
                 For a machine that does nothing else; with more peers than cores, the bar.
  of_peer_time   1 − (wall time of its work) / (wall time), the mean over peers: for a machine with
                 a core per peer; with fewer, waiting for others' training is most of it.

accuracy: 10 peers on Fashion-MNIST, rotated 0° and 180°, DAC: mean test accuracy in a simulation,
by real peers in aligned rounds, and by real peers at their own pace, with the same seeds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow.compute as pc
from keeping import show

from coterie.benchmarking.machine import describe_machine
from coterie.experiments.config import RunConfig, parse_change
from coterie.experiments.experiment import Experiment
from coterie.experiments.presets import find_preset
from coterie.experiments.run_folder import RunFolder
from coterie.runtime.run_tables import read_table
from coterie.swarm.check_settings import adapt_for_real_peers
from coterie.swarm.run_swarm import Show, execute_by_peers
from coterie.swarm.supervisor import SwarmPeer

FASHION = {"peers.train_size": 500, "shift.angles": [0, 180], "peers.clusters": [1, 1]}
SAMPLE_SECONDS = 1.0
SIZES = {"memory": (64, 5), "overhead": (8, 5), "accuracy": (10, 40)}
"""Peers and rounds."""


class PrivateMemory:
    """The largest private memory of each process, by its number."""

    def __init__(self) -> None:
        self.peak_bytes: dict[int, int] = {}
        self._last = 0.0

    def __call__(self, run: RunFolder, peers: Sequence[SwarmPeer]) -> None:
        """Look at all peers, at most once a second."""
        if time.monotonic() - self._last < SAMPLE_SECONDS:
            return
        for peer in peers:
            if peer.process is None or peer.process.pid is None:
                continue
            try:
                now = psutil.Process(peer.process.pid).memory_full_info().uss
            except psutil.NoSuchProcess:
                continue
            number = peer.process.pid
            self.peak_bytes[number] = max(self.peak_bytes.get(number, 0), now)
        self._last = time.monotonic()


def main() -> None:
    """Measure one part, print the figures, and keep them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("part", choices=SIZES)
    parser.add_argument("--peers", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--data-root")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    peers, rounds = SIZES[options.part]
    changes: dict[str, Any] = {
        "peers.count": options.peers or peers,
        "rounds": options.rounds or rounds,
    }
    if options.data_root:
        changes["data.root"] = options.data_root
    given = dict(parse_change(text) for text in options.set)
    measure = {"memory": memory, "overhead": overhead, "accuracy": accuracy}[options.part]
    load = os.getloadavg()[0]
    figures = describe_machine() | {
        "peers": changes["peers.count"],
        "rounds": changes["rounds"],
        "changed": given,
        "load_before": round(load, 1),
        **measure(changes | given, range(options.seeds)),
    }
    show(figures, f"swarm-{options.part}", save=options.save)


def memory(changes: dict[str, Any], seeds: Sequence[int]) -> dict[str, Any]:
    """Return the peers' largest private memory, and how long a round takes."""
    seen = PrivateMemory()
    # There are not images enough for more peers with as many as in the preset.
    changes = {"peers.train_size": 12, **changes}
    with tempfile.TemporaryDirectory() as place:
        (run,) = by_peers(Path(place), configured("digits", changes, seeds[:1]), show=seen)
        wall = read_table(run.folder, "timings")["wall_seconds"].to_pylist()
    megabytes = sorted(peak / 1e6 for peak in seen.peak_bytes.values())
    return {
        "private_megabytes": {
            "largest": round(megabytes[-1], 1),
            "median": round(statistics.median(megabytes), 1),
        },
        "seconds_before_round_1": round(wall[0], 1),
        "seconds_per_round": [round(seconds, 2) for seconds in wall[1:]],
    }


def overhead(changes: dict[str, Any], seeds: Sequence[int]) -> dict[str, Any]:
    """Return the shares of rounds outside of training and measuring."""
    # The last round is the only one with a test, which is left out.
    changes = {**FASHION, **changes, "test_every": changes["rounds"]}
    with tempfile.TemporaryDirectory() as place:
        configs = configured("friends-fashion-rotation", changes, seeds[:1])
        (run,) = by_peers(Path(place), configs)
        efforts = read_table(run.folder, "efforts")
    middle = pc.and_(
        # Round 1 also has the tests after round 0.
        pc.greater(efforts["round"], 1),
        pc.less_equal(efforts["round"], changes["rounds"]),
    )
    sums = {
        name: float(pc.sum(efforts.filter(middle)[f"{name}_seconds"]).as_py())
        for name in ("wall", "cpu", "work", "work_cpu", "wait")
    }
    cores = min(os.cpu_count() or 1, changes["peers.count"])
    wall = sums["wall"] / changes["peers.count"]
    return {
        "seconds_per_round": round(wall / (changes["rounds"] - 1), 2),
        "share_outside_work": {
            "of_cpu_time": round(1 - sums["work_cpu"] / sums["cpu"], 4),
            "of_machine": round(1 - sums["work_cpu"] / (cores * wall), 4),
            "of_peer_time": round(1 - sums["work"] / sums["wall"], 4),
        },
        "share_waiting_for_the_network": round(sums["wait"] / sums["wall"], 4),
    }


def accuracy(changes: dict[str, Any], seeds: Sequence[int]) -> dict[str, Any]:
    """Return mean test accuracies in percent, and their differences to the simulation."""
    configs = configured("friends-fashion-rotation", {**FASHION, **changes}, seeds)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        simulated = Experiment.create(folder / "simulated", configs)
        simulated.run(threads=os.cpu_count() or 1)
        reached = {
            "simulation": means(simulated.runs),
            "aligned": means(by_peers(folder / "aligned", configs)),
            "own_pace": means(by_peers(folder / "own-pace", configs, own_pace=True)),
        }
    base = statistics.mean(reached["simulation"])
    return {
        "test_score_percent": reached,
        "points_from_simulation": {
            name: round(statistics.mean(values) - base, 3)
            for name, values in reached.items()
            if name != "simulation"
        },
    }


def configured(preset: str, changes: dict[str, Any], seeds: Sequence[int]) -> list[RunConfig]:
    """Return the settings of DAC for each seed."""
    return find_preset(preset).runs(["dac"], seeds, changes)


def by_peers(
    folder: Path, configs: Sequence[RunConfig], *, own_pace: bool = False, show: Show | None = None
) -> list[RunFolder]:
    """Run by real peers; return the runs."""
    fitting = [adapt_for_real_peers(config, {}, own_pace=own_pace)[0] for config in configs]
    experiment = Experiment.create(folder / "run", fitting)
    execute = partial(execute_by_peers, show=show) if show else execute_by_peers
    experiment.run(threads=1, execute=execute)
    return experiment.runs


def means(runs: Sequence[RunFolder]) -> list[float]:
    """Return the mean test accuracy of each run in percent."""
    return [round(100 * reached.mean, 3) for run in runs if (reached := run.read_summary())]


if __name__ == "__main__":
    main()
