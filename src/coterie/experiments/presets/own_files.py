"""Presets from a user's own data: a table, arrays with owners, or a folder of images per peer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.data.own_files.load import (
    LEAST_IN_WINDOW,
    digest_of_own,
    load_own_files,
    suggest_windows,
)
from coterie.data.own_files.owned_peers import OwnedPeers
from coterie.data.own_files.owned_samples import count_of
from coterie.data.own_files.read_images import has_images
from coterie.data.own_files.read_table_file import is_table
from coterie.data.own_files.settings import AnyFile, ArrayFile, ImageFolder, TableFile
from coterie.errors import ConfigError, DataError
from coterie.experiments.config import (
    CONFIG,
    DataSettings,
    ModelSettings,
    RunConfig,
    peer_settings,
)
from coterie.experiments.experiment_file import EXPERIMENT
from coterie.experiments.presets.preset import Preset, Variant, default_variant
from coterie.learning.settings import TrainingSettings
from coterie.models.fitting_models import default_model, find_architecture
from coterie.models.layout import Layout
from coterie.settings import parse_settings

ROUNDS, ROUNDS_PER_WINDOW = 40, 5
"""Rounds without time; and for each window of time."""
MANY_SAMPLES = 1000
"""Peers with more training samples train one epoch per round instead of three."""
FETCHES, CLIENTS = 5, 20
TABLE_OPTIONS = {
    "peers_by": "--peers-by",
    "label": "--label",
    "features": "--features",
    "ignore": "--ignore",
    "time": "--time",
    "windows": "--windows",
}
"""The options of tables, by the names of their settings."""
IMAGE_OPTIONS = {"image_size": "--image-size"}
COMMON_OPTIONS = {"min_rows": "--min-rows"}


@dataclass(frozen=True)
class FileOptions:
    """What a user says on the command line about the files; None: not given."""

    peers_by: str | None = None
    label: str | None = None
    features: tuple[str, ...] | None = None
    ignore: tuple[str, ...] | None = None
    time: tuple[str, ...] | None = None
    windows: int | None = None
    min_rows: int | None = None
    image_size: int | None = None

    def given(self) -> dict[str, Any]:
        """Return the settings that are given."""
        return {name: value for name, value in vars(self).items() if value is not None}


def is_own_data(name: str) -> bool:
    """Whether a name is a table, a .npz file, or a folder that is not that of a run."""
    path = Path(name).expanduser()
    if path.is_dir():
        is_run = any((path / each).is_file() for each in (CONFIG, EXPERIMENT))
        return not is_run and has_images(path)
    return is_table(path) or path.suffix.lower() == ".npz"


def refuse_file_options(options: FileOptions, preset: str) -> None:
    """Raise a ConfigError if options for files are given, but no file."""
    known = {**TABLE_OPTIONS, **IMAGE_OPTIONS, **COMMON_OPTIONS}
    for name in options.given():
        raise ConfigError(
            f"{known[name]} is for files with your own data, such as data.csv, but {preset} is a "
            "preset. Give the file instead of the preset."
        )


def preset_of_files(
    path: Path,
    options: FileOptions,
    model: str | None,
    root: Path | None,
    tell: Callable[[str], None],
) -> Preset:
    """Return what is run on a user's files by default; what was decided is told."""
    path = path.expanduser().absolute()
    if not path.exists():
        raise DataError(f"There is no file {path}. Give an existing table, .npz file or folder.")
    asked = _settings(path, options)
    asked = asked.model_copy(update={"sha256": digest_of_own(asked, path)})
    rounds = ROUNDS
    if isinstance(asked, TableFile) and asked.time:
        rounds = ROUNDS_PER_WINDOW * (asked.windows - 1)
    peers = load_own_files(asked, root, rounds=rounds, seed=0)
    config = RunConfig(
        preset=preset_name(path),
        data=DataSettings(datasets=(path.name,), files=asked, root=root),
        peers=peer_settings(peers),
        model=ModelSettings(
            name=model or default_model(peers.input_shape), input_shape=peers.input_shape
        ),
        training=TrainingSettings(
            epochs=1 if peers.sizes[0] > MANY_SAMPLES else 3, batch_size=16, learning_rate=1e-3
        ),
        strategy={"name": "random", "fetches": min(FETCHES, max(peers.num_peers - 1, 0))},
        rounds=rounds,
    )
    for note in describe_peers(peers, config):
        tell(note)
    return Preset(config.preset, f"the data of {path}", config, default_variants())


def default_variants() -> tuple[Variant, ...]:
    """Return the strategies that need no true clusters and stand for what users have today."""
    return (
        default_variant("local"),
        default_variant("random", FETCHES),
        Variant("fedavg", {"name": "fedavg", "fetches": CLIENTS}),
        default_variant("dac", FETCHES),
        default_variant("kin", FETCHES),
    )


def preset_name(path: Path) -> str:
    """Return the name of runs on a file; it differs from the names of presets."""
    name = path.name.split(".")[0] if path.is_file() else path.name
    return f"{name or 'own'}-data"


def describe_peers(peers: OwnedPeers, config: RunConfig) -> list[str]:
    """Return what the user should know: peers, task, model, and what was left out."""
    train, validation = peers.sizes
    parts = f"{train:,} training and {validation:,} validation samples on average"
    if isinstance(config.data.files, TableFile) and config.data.files.time:
        parts += f" in each of {count_of(peers.num_steps, 'step')} of time"
    network = find_architecture(config.model.name, config.model.input_shape)
    size = Layout.of(network.build(peers.num_outputs)).num_parameters
    return [
        *peers.notes,
        f"{count_of(peers.num_peers, 'peer')} with {parts}.",
        _describe_task(peers),
        f"Model: {config.model.name} ({network.summary}), {size:,} parameters.",
    ]


def _describe_task(peers: OwnedPeers) -> str:
    if peers.target_scale is None:
        return f"Task: {peers.num_outputs} classes ({_shortened(peers.classes)})."
    deviation = peers.target_scale.deviation
    return (
        "Task: values to predict. Errors are in the units of the label. Losses are of standardised "
        f"values: 1 is an error of {deviation:.4g}."
    )


def _shortened(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:6])
    return f"{shown}, …" if len(names) > 6 else shown


def _settings(path: Path, options: FileOptions) -> AnyFile:
    given = options.given()
    if path.is_dir():
        _refuse(given, TABLE_OPTIONS, f"{path} is a folder of images")
        return parse_settings(ImageFolder, {"path": path, **given})
    if not is_table(path):
        _refuse(given, {**TABLE_OPTIONS, **IMAGE_OPTIONS}, f"{path} holds arrays")
        return parse_settings(ArrayFile, {"path": path, **given})
    _refuse(given, IMAGE_OPTIONS, f"{path} is a table")
    missing = [TABLE_OPTIONS[name] for name in ("peers_by", "label") if name not in given]
    if missing:
        raise ConfigError(
            f"{path.name} is a table: add {' and '.join(missing)}. For example: coterie run "
            f"{path.name} --peers-by COLUMN --label COLUMN"
        )
    if "windows" in given and "time" not in given:
        raise ConfigError("--windows needs --time: name the column of the time.")
    table = parse_settings(TableFile, {"path": path, **given})
    if not table.time:
        return table
    windows = given.get("windows") or suggest_windows(table, path)
    least = given.get("min_rows", LEAST_IN_WINDOW)
    return table.model_copy(update={"windows": windows, "min_rows": least})


def _refuse(given: dict[str, Any], options: dict[str, str], because: str) -> None:
    for name in given:
        if name in options:
            raise ConfigError(f"{options[name]} cannot be used: {because}. Leave it out.")
