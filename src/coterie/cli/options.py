"""Options that several commands share, and the settings they change."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coterie.errors import ConfigError

if TYPE_CHECKING:
    from coterie.experiments.config import RunConfig

DataRoot = Annotated[
    Path | None, typer.Option(help="Folder with local copies of datasets.", show_default=False)
]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1024,
        help="The number of threads; with --engine ray, of each run. Default: all cores.",
    ),
]
SideBySide = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1024,
        help="Runs at the same time, which share the threads. Default: one per thread, if there "
        "are enough runs and enough memory; with --engine ray, as many as fit on the cluster.",
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
        help="A Python file with your own strategies. Its code is executed.",
        show_default=False,
    ),
]
FirstSeedOrOwn = Annotated[
    int | None,
    typer.Option(min=0, help="The first seed.", show_default="0, or that of the file or study"),
]
SeedsOrOwn = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=10_000,
        help="The number of seeds, with one run each.",
        show_default="1, or that of the file or study",
    ),
]
Preset = Annotated[
    str,
    typer.Argument(help="A preset of `coterie list`, a config.yaml, or the folder of a run."),
]
PresetOrData = Annotated[
    str,
    typer.Argument(
        metavar="PRESET",
        help="A preset of `coterie list`, a config.yaml, the folder of a run, or your own data: a "
        "table (.csv, .csv.gz, .parquet), a .npz file, or a folder of images.",
    ),
]
Rounds = Annotated[int | None, typer.Option(min=0, help="Rounds after the initial training.")]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting by its dotted key, such as training.epochs=1.",
    ),
]
Out = Annotated[
    Path | None, typer.Option("--out", help="Output folder. Default: a new one in runs/.")
]
Scale = Annotated[
    float,
    typer.Option(
        help="The part of the rounds and peers to run, above 0 and at most 1, for a quick test. "
        "Settings that count rounds or peers shrink too. --rounds, --peers and --set come after it."
    ),
]
PeersBy = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Of a table: whose row it is.", show_default=False),
]
LabelColumn = Annotated[
    str | None,
    typer.Option("--label", metavar="COLUMN", help="Of a table: what to predict."),
]
FeatureColumns = Annotated[
    str | None,
    typer.Option(
        "--features",
        metavar="A,B…",
        help="Of a table: what to predict from. Default: all other columns.",
        show_default=False,
    ),
]
IgnoredColumns = Annotated[
    str | None,
    typer.Option("--ignore", metavar="A,B…", help="Of a table: columns that are not used."),
]
TimeColumns = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="COLUMN",
        help="Of a table: the time, or year,month,day… Peers train on the past and are tested on "
        "what comes next.",
        show_default=False,
    ),
]
Windows = Annotated[
    int | None,
    typer.Option(
        help="With --time: the number of windows.", show_default="10, fewer if there are few rows"
    ),
]
MinRows = Annotated[
    int | None,
    typer.Option(
        help="Of your own data: peers with fewer rows are left out; with --time, in each window.",
        show_default="20; 10 in each window",
    ),
]
ImageSize = Annotated[
    int | None,
    typer.Option(help="Of a folder of images: their size in pixels.", show_default="32"),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.py:FUNCTION",
        help="A model of `coterie list`, or a function that returns yours. Its code is executed.",
        show_default=False,
    ),
]
OwnTask = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="FILE.py:NAME",
        help="A coterie.Task of your own, or a function that returns one. Its code is executed.",
        show_default=False,
    ),
]
Peers = Annotated[int | None, typer.Option(help="The number of peers.")]
OwnPace = Annotated[
    bool,
    typer.Option(
        "--own-pace",
        help="Each peer runs at its own pace, with the newest models of others. Default: rounds "
        "are aligned, as in a simulation.",
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
        help="The trainer: compiled code (native), torch, many peers at once (batched, for GPUs), "
        "or the fastest one that works (auto).",
        show_default="auto",
    ),
]
Device = Annotated[
    Literal["auto", "cpu", "cuda", "mps"] | None,
    typer.Option(help="The device to train on. auto: a GPU if there is one.", show_default="auto"),
]


EngineName = Annotated[
    Literal["local", "ray"],
    typer.Option(
        "--engine",
        help="Where runs are executed: on this computer (local), or on a Ray cluster (ray).",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="With --engine ray: HOST:PORT of the cluster, or auto for the one this computer "
        "belongs to. Default: start Ray on this computer.",
        show_default=False,
    ),
]
Shards = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1024,
        help="With --engine ray: divide the peers of each run into shards, one process each; runs "
        "come one after another, and --threads are those of a shard. Default: runs are not "
        "divided.",
        show_default=False,
    ),
]
Log = Annotated[
    Literal["tensorboard", "wandb", "mlflow"] | None,
    typer.Option(
        help="Also send the means of each round to TensorBoard, Weights & Biases or MLflow.",
        show_default=False,
    ),
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

    options = {
        "rounds": rounds,
        "peers.count": peers,
        "data.root": None if data_root is None else str(data_root),
        "training.trainer": trainer,
        "training.device": device,
    }
    changes: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    changes.update(parse_change(text) for text in change or [])
    if changes.keys() & {"runtime", "swarm"} or any(key.startswith("swarm.") for key in changes):
        raise ConfigError(
            "--set cannot change runtime or swarm: run real peers with coterie swarm."
        )
    if "seed" in changes:
        raise ConfigError("--set seed: use --seed and --seeds instead.")
    for key in changes.keys() & {"strategy", "strategy.name"}:
        raise ConfigError(
            f"--set {key}: use --strategy instead. To change one option of a strategy, use --set "
            "strategy.OPTION=VALUE."
        )
    return changes


def check_scalable(config: RunConfig, peers: int | None, scale: float) -> None:
    """Refuse another number of peers where each peer is that of a file."""
    if config.data.files is None:
        return
    for option, value in (("--peers", peers), ("--scale", scale)):
        if value not in (None, 1.0):
            raise ConfigError(
                f"{option} {value}: the peers are those of {config.data.files.path.name}. Use "
                "--rounds for a quick test."
            )


def new_folder(name: str) -> Path:
    """Return a new output folder in runs/."""
    base = Path("runs") / f"{name}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    number = 1
    folder = base
    while folder.exists():
        number += 1
        folder = base.with_name(f"{base.name}-{number}")
    return folder


def named_strategies(strategy: str | None) -> list[str] | None:
    """Return the names in a comma-separated list; strategies in files are loaded."""
    from coterie.experiments.user_strategies import load_named

    return load_named(label.strip() for label in strategy.split(",")) if strategy else None


def simulated_only(strategy: str | None, command: str) -> str | None:
    """Return the names of strategies; refuse files, which only simulations can load."""
    if strategy and ".py" in strategy:
        raise ConfigError(
            f"--strategy {strategy}: {command} cannot load a strategy from a file. Simulate it "
            f"with coterie run --strategy {strategy}."
        )
    return strategy


def listed(text: str | None) -> tuple[str, ...] | None:
    """Return the names in a comma-separated list of columns."""
    return tuple(name.strip() for name in text.split(",")) if text else None
