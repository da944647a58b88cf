"""What is damaged, and what reads it: run folders, settings and all data files."""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

import coterie
from coterie.errors import CoterieError, Interrupted
from coterie.experiments.config import check_sizes, read_yaml
from coterie.peer.peer_config import read_peer_config
from coterie.reports.live.run_follower import RunFollower
from coterie.reports.live.terminal_view import ChangeLines, render_screen
from coterie.runtime.run_tables import SCHEMAS
from fuzzing import damage
from fuzzing.calling import Call, command, library
from fuzzing.content import changed_bytes, changed_text, changed_yaml
from fuzzing.data_files import (
    damaged_binary,
    damaged_idx,
    damaged_npz,
    damaged_pacs,
    damaged_python,
    damaged_weights,
    make_data,
)

SMALL = ("--peers", "8", "--rounds", "4", "--threads", "1", "--strategy", "random,kin",
         "--set", "checkpoint_every=1", "--set", "strategy.fetches=2")  # fmt: skip
FIGURES = 0.06
"""In which share of the folders figures are drawn."""


def make_folders(bases: Path) -> None:
    """Make the run folders, settings and data files that nothing is wrong with."""
    runs = bases / "runs"
    watch = ("--set", "watch.beliefs=2", "--set", "watch.peers=[0, 1]", "--set", "watch.every=2")
    _made("run", "digits", *SMALL, *watch, "--out", runs / "finished")
    _made("run", "friends-synthetic", *SMALL[:-2], "--out", runs / "regression")
    _made("sweep", "digits", *SMALL[:-2], "--vary", "training.epochs=1,2", "--out", runs / "sweep")
    _make_stopped(runs / "stopped", watch)
    make_data(bases / "data")
    (bases / "peer").mkdir()
    (bases / "peer" / "peer.yaml").write_text(PEER)


def _made(*arguments: object) -> None:
    code, said = command(*arguments)
    if code:
        raise SystemExit(f"coterie {' '.join(map(str, arguments))} ended with {code}: {said}")


def _make_stopped(folder: Path, options: tuple[str, ...]) -> None:
    """Make a run that Ctrl-C has stopped, with its parts and checkpoints."""
    from coterie.runtime import recorder
    from coterie.simulation.simulation import Simulation

    advance, flush = Simulation.advance, recorder.FLUSH_SECONDS

    def stop_later(simulation: Simulation) -> Any:
        now = advance(simulation)
        if now.number == 3:
            signal.raise_signal(signal.SIGINT)
        return now

    Simulation.advance, recorder.FLUSH_SECONDS = stop_later, 0.0  # type: ignore[method-assign,assignment]
    try:
        code, said = command("run", "digits", *SMALL, *options, "--rounds", 5, "--out", folder)
    finally:
        Simulation.advance, recorder.FLUSH_SECONDS = advance, flush  # type: ignore[method-assign]
    if code != Interrupted.exit_code:
        raise SystemExit(f"The run was to be stopped: {said}")


PEER = """\
listen: 127.0.0.1:0
known: [127.0.0.1:7401]
data: data.npz
model: {name: digits-cnn, outputs: 10}
strategy: {name: kin}
rounds: 3
training: {epochs: 1, learning_rate: 0.001, batch_size: 8}
network: {precision: float32, deadlines: {fetch_seconds: 60.0}}
"""


@contextlib.contextmanager
def damaged_run(bases: Path, case: Path, chance: random.Random) -> Iterator[list[Call]]:
    """Yield what reads a damaged copy of a run folder."""
    base = chance.choice(["finished", "finished", "stopped", "stopped", "regression", "sweep"])
    name = (
        "run"
        if chance.random() < 0.9
        else chance.choice([os.fsdecode(b"r\xff"), "r [bold]x", "r\nx"])
    )
    folder = shutil.copytree(bases / "runs" / base, case / name, symlinks=True)
    damage.damage_folder(folder, chance)
    runs = sorted(path for path in folder.iterdir() if path.is_dir())
    read = chance.choice(runs) if runs and chance.random() < 0.2 else folder
    kind = chance.choice(["pdf", "svg", "png"])
    form = chance.choice(["terminal", "markdown", "latex", "csv"])
    per = chance.choice(["mean", "cluster"])
    calls = [
        ("report", lambda: command("report", read, "-o", case / "report.html")),
        ("compare", lambda: command("compare", read, "--format", form, "--per", per)),
        ("analyse", lambda: command("analyse", read, "--out", case / "analyses")),
        ("figures", lambda: command("figures", read, "--out", case / "figures", "--format", kind)),
        ("export", lambda: command("export", read, "--tensorboard", case / "board")),
        ("load_run", lambda: library(lambda: _load(read))),
        ("watch", lambda: library(lambda: _watch(read))),
        ("resume", lambda: command("resume", read, "--threads", 1)),
    ]
    # Drawing takes longer than all else, and reads what the report reads.
    yield [call for call in calls if call[0] != "figures" or chance.random() < FIGURES]


def _load(folder: Path) -> None:
    loaded = []
    with contextlib.suppress(CoterieError):  # such as of several runs
        loaded.append(coterie.load_run(folder))
    loaded += coterie.load_runs(folder)
    for run in loaded:
        repr(run)
        for name in SCHEMAS:
            with contextlib.suppress(CoterieError):
                run.table(name)
        for name in ("summary", "software", "models", "layout", "cluster_names"):
            with contextlib.suppress(CoterieError):
                getattr(run, name)
        with contextlib.suppress(CoterieError):
            run.load_into(run.build_model(), 0)


def _watch(folder: Path) -> None:
    """Look as `coterie watch --terminal` does, which would go on until the run has finished."""
    follower, lines = RunFollower(folder), ChangeLines()
    file = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    console = Console(file=file, width=80)
    for _ in range(2):
        snapshot = follower.take_snapshot()
        if snapshot is not None:
            for line in lines.describe_changes(snapshot):
                console.print(line, soft_wrap=True, highlight=False, markup=False)
            console.print(render_screen(snapshot, 80))
    if follower.has_ended:
        return


@contextlib.contextmanager
def damaged_settings(bases: Path, case: Path, chance: random.Random) -> Iterator[list[Call]]:
    """Yield what reads damaged YAML: of a run, of an experiment, of a peer, of an option."""
    folder = shutil.copytree(bases / "runs" / "finished", case / "run")
    run = chance.choice(sorted(path for path in folder.iterdir() if path.is_dir()))
    peer = case / "peer.yaml"
    shutil.copy(bases / "peer" / "peer.yaml", peer)
    target = chance.choice(
        [run / "config.yaml", run / "config.yaml", folder / "experiment.yaml", peer]
    )
    data = target.read_bytes()
    for _ in range(chance.choice([1, 1, 2])):
        change = chance.choice([changed_yaml, changed_text, changed_bytes])
        data = change(data, chance)
    target.write_bytes(data)
    if target == peer:
        yield [("peer.yaml", lambda: library(lambda: read_peer_config(peer)))]
        return
    value = os.fsdecode(data.replace(b"\0", b"")[:500])
    yield [
        ("resume", lambda: command("resume", folder, "--threads", 1)),
        ("compare", lambda: command("compare", folder)),
        ("check", lambda: library(lambda: check_sizes([read_yaml(target)]))),
        ("--set", lambda: command("run", "digits", "--set", f"strategy={value}", "--peers", "x")),
    ]


SORTS = {
    "folders": damaged_run,
    "settings": damaged_settings,
    "npz": damaged_npz,
    "idx": damaged_idx,
    "cifar-binary": damaged_binary,
    "cifar-python": damaged_python,
    "pacs": damaged_pacs,
    "weights": damaged_weights,
}
