"""Options that several commands have, and what they mean for the settings."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from coterie.errors import ConfigError

DataRoot = Annotated[
    Path | None, typer.Option(help="Folder with local copies of datasets.", show_default=False)
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, max=1024, help="Peers trained at the same time; all cores when not given."),
]
SideBySide = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1024,
        help="Runs at the same time, which share the threads; when not given as many as there are "
        "threads, if there are as many runs and memory is enough.",
        show_default=False,
    ),
]
Strategies = Annotated[
    str | None,
    typer.Option(help="Strategies to compare, separated by commas.", show_default=False),
]
StrategyFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--strategy-file",
        metavar="FILE.py[:CLASS]",
        help="A Python file with strategies of your own; it is run.",
        show_default=False,
    ),
]
FirstSeed = Annotated[int, typer.Option(min=0, help="The first seed.")]
Seeds = Annotated[int, typer.Option(min=1, max=10_000, help="How many seeds, one run each.")]
FirstSeedOrOwn = Annotated[
    int | None,
    typer.Option(min=0, help="The first seed.", show_default="0, or as the file or study says"),
]
SeedsOrOwn = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=10_000,
        help="How many seeds, one run each.",
        show_default="1, or as the file or study says",
    ),
]
Preset = Annotated[
    str,
    typer.Argument(help="A preset of `coterie list`, or a config.yaml, such as of another run."),
]
Rounds = Annotated[int | None, typer.Option(min=0, help="Rounds after the initial training.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, by its dotted key."),
]
Out = Annotated[
    Path | None, typer.Option("--out", help="Output folder; a new one in runs/ when not given.")
]
Scale = Annotated[
    float,
    typer.Option(
        help="Part of the rounds and peers, above 0 and at most 1, for a quick look. What counts "
        "rounds or peers shrinks along; --rounds, --peers and --set come after."
    ),
]
Peers = Annotated[int | None, typer.Option(help="How many peers.")]
OwnPace = Annotated[
    bool,
    typer.Option(
        "--own-pace",
        help="Let each peer run at its own pace, with the newest models there are; otherwise "
        "rounds are aligned, as in a simulation.",
    ),
]
PeerNetwork = Annotated[
    list[str] | None,
    typer.Option(
        "--network",
        metavar="KEY=VALUE",
        help="Change a setting of the network between peers, such as deadlines.fetch_seconds=5.",
    ),
]
KeepPeers = Annotated[
    bool,
    typer.Option(
        "--keep-peers", help="Keep the folders of the peers, with their keys, data and checkpoints."
    ),
]
Trainer = Annotated[
    Literal["auto", "native", "torch", "batched"] | None,
    typer.Option(
        help="What trains: compiled code (native), torch, many peers at once (batched, for GPUs), "
        "or the best that can (auto).",
        show_default="auto",
    ),
]
Device = Annotated[
    Literal["auto", "cpu", "cuda", "mps"] | None,
    typer.Option(help="Where to train: a GPU if there is one (auto).", show_default="auto"),
]


def collect_changes(
    rounds: int | None,
    peers: int | None,
    data_root: Path | None,
    trainer: str | None,
    device: str | None,
    change: list[str] | None,
) -> dict[str, Any]:
    """Return the changed settings by their dotted keys."""
    from coterie.experiments.config import parse_change

    changes: dict[str, Any] = {}
    if rounds is not None:
        changes["rounds"] = rounds
    if peers is not None:
        changes["peers.count"] = peers
    if data_root is not None:
        changes["data.root"] = str(data_root)
    if trainer is not None:
        changes["training.trainer"] = trainer
    if device is not None:
        changes["training.device"] = device
    changes.update(parse_change(text) for text in change or [])
    if changes.keys() & {"runtime", "swarm"} or any(key.startswith("swarm.") for key in changes):
        raise ConfigError("--set: whether real peers run, and how, is chosen by coterie swarm.")
    if "seed" in changes:
        raise ConfigError("--set seed: choose seeds with --seed and --seeds instead.")
    for key in changes.keys() & {"strategy", "strategy.name"}:
        raise ConfigError(
            f"--set {key}: choose strategies with --strategy instead; --set strategy.OPTION=VALUE "
            "changes one option."
        )
    return changes


def new_folder(name: str) -> Path:
    """Return where an experiment goes that was given no place: to one of its own in runs/."""
    base = Path("runs") / f"{name}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    number = 1
    folder = base
    while folder.exists():
        number += 1
        folder = base.with_name(f"{base.name}-{number}")
    return folder


def named_strategies(strategy: str | None) -> list[str] | None:
    """Return the names in a list with commas."""
    if strategy and ".py" in strategy:
        raise ConfigError(
            f"--strategy {strategy}: a file is named with --strategy-file {strategy}, and what is "
            "compared by the strategies' own names."
        )
    return [label.strip() for label in strategy.split(",")] if strategy else None
