"""The full configuration of a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import yaml
from pydantic import AfterValidator, Field, ValidationInfo, field_validator
from torch import nn

from coterie.data.dataset_catalogue import load_dataset
from coterie.data.drift import Drift, NoDrift
from coterie.data.labelled_dataset import Dataset
from coterie.data.own_files.load import divide_own_samples, read_own_files
from coterie.data.own_files.owned_peers import OwnedPeers
from coterie.data.own_files.owned_samples import OwnedSamples
from coterie.data.own_files.settings import AnyFile, OwnFiles
from coterie.data.peer_datasets import PeerDatasets
from coterie.data.scenario import PeerSettings, Scenario
from coterie.data.shifts import NoShift, Shift
from coterie.data.synthetic import linear_regression
from coterie.errors import ConfigError, suggest
from coterie.models.architectures import Architecture, check_fits
from coterie.models.fitting_models import find_architecture
from coterie.models.imagenet import load_imagenet_weights
from coterie.runtime.settings import SimulationSettings
from coterie.runtime.size_limits import ROW_BYTES, check_epochs, check_memory, check_models
from coterie.settings import Settings, parse_settings
from coterie.storage.settings_file import read_settings
from coterie.storage.yaml_text import parse_yaml
from coterie.strategies import (
    DEFAULT_STRATEGY,
    STRATEGIES,
    ServerStrategy,
    Strategy,
    make_strategy,
)
from coterie.tasks import TaskSettings

CONFIG = "config.yaml"
"""The file of a run folder that holds its configuration."""
PYTHON = "python"
"""The name of data and models that exist only in a Python program."""
LINEAR = "linear-regression"
"""The name of synthetic linear regression; each time it is listed makes another task."""

LoadDataset = Callable[[str, Path | None], Dataset]
"""Returns a dataset by its name; the data root is None for the default one."""
ReadOwnFiles = Callable[[AnyFile, Path | None], OwnedSamples]
"""Returns the samples of a user's files; a relative path is looked for in the data root."""

SAVED = {"saved": True}
"""The context for reading configurations that were already checked when they were written."""


def _absolute(path: Path) -> Path:
    """Return the absolute path, so that a run can be resumed from another folder."""
    return Path(os.path.abspath(os.path.expanduser(path)))


AbsolutePath: TypeAlias = Annotated[Path, AfterValidator(_absolute)]


class DataSettings(Settings):
    """The datasets, and the folder with local copies."""

    datasets: tuple[str, ...] = Field(("digits",), min_length=1)
    """Names from `coterie list`, .npz files, or linear-regression (each time another task)."""
    root: AbsolutePath | None = None
    """Folder with local copies; default: COTERIE_DATA or ~/.cache/coterie/data."""
    noise: float = Field(3.0, ge=0)
    """The standard deviation of ε, for linear-regression only."""
    files: OwnFiles | None = None
    """Files with the data of each peer, instead of datasets; see docs/own-files.md."""

    @field_validator("datasets")
    @classmethod
    def _full_paths(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Make the paths of files absolute, so that a run can be resumed from another folder."""
        return tuple(
            os.path.abspath(name) if name.endswith(".npz") and os.path.exists(name) else name
            for name in names
        )


class ModelSettings(Settings):
    """The architecture that peers train."""

    name: str = "digits-cnn"
    """One of the models of `coterie list`."""
    pretrained: AbsolutePath | None = None
    """The official ImageNet weights file, for resnet-18 only."""
    input_shape: tuple[int, ...] | None = None
    """The shape of a sample, only for models that are built to fit the data: small-mlp, small-cnn
    and your own."""


class SwarmSettings(Settings):
    """How real peers run, for `coterie swarm` only."""

    own_pace: bool = False
    """Whether each peer runs at its own pace; otherwise their rounds are aligned."""
    network: dict[str, Any] = Field(default={})
    """Changes to the defaults of `network` in peer.yaml, such as deadlines."""


class RunConfig(SimulationSettings):
    """All settings that can change a run's results, and how often it is saved."""

    preset: str = "own"
    """The preset that the settings are based on."""
    label: str = Field(DEFAULT_STRATEGY, pattern=r"^\w[\w.+-]*$")
    """The name of the run in tables."""
    runtime: Literal["simulation", "network"] = "simulation"
    """Run by the simulator, or by real peers over a network (`coterie swarm`)."""
    swarm: SwarmSettings = SwarmSettings()
    data: DataSettings = DataSettings()
    shift: Shift = NoShift()
    drift: Drift = NoDrift()
    peers: PeerSettings
    model: ModelSettings = ModelSettings()
    task: TaskSettings = TaskSettings()
    strategy: dict[str, Any] = Field(default={"name": DEFAULT_STRATEGY})
    """The strategy's name and its options, see below."""
    checkpoint_every: int = Field(10, ge=1)
    """Rounds between checkpoints."""

    @field_validator("strategy")
    @classmethod
    def _fill_in_options(cls, strategy: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Check the options and add the defaults, lowered if there are too few peers."""
        if info.context == SAVED and strategy.get("name") not in STRATEGIES:
            return strategy  # from a user's file, which is needed only to resume the run
        options = {key: value for key, value in strategy.items() if key != "name"}
        name = str(strategy.get("name", DEFAULT_STRATEGY))
        made = make_strategy(name, options)
        if "peers" in info.data:  # absent if the peers have a mistake, which is reported instead
            made.lower_defaults(info.data["peers"].count)
        return {"name": name, **made.options()}

    def strategy_options(self) -> dict[str, Any]:
        """Return the strategy's options without its name."""
        return {key: value for key, value in self.strategy.items() if key != "name"}


def parse_config(settings: Mapping[str, Any]) -> RunConfig:
    """Return a checked configuration; raise a ConfigError that says what to do."""
    return parse_settings(RunConfig, settings)


def apply_changes(config: RunConfig, changes: Mapping[str, Any]) -> RunConfig:
    """Return the configuration with dotted keys changed, such as {"training.epochs": 1}."""
    settings = config.model_dump(mode="json")
    for key in _kinds_first(changes):
        _set(settings, key, changes[key])
    return parse_config(settings)


def parse_change(
    text: str, option: str = "--set", example: str = "training.epochs=1"
) -> tuple[str, Any]:
    """Read `dotted.key=value`, where the value is YAML; `option` is named in errors."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"{option} {text}: expected dotted.key=value, such as {example}.")
    try:
        return key.strip(), parse_yaml(value)
    except ValueError as error:
        raise ConfigError(f"{option} {text}: the value is not valid YAML; {error}") from None


def check_sizes(configs: Iterable[RunConfig]) -> None:
    """Refuse settings that cannot work with this number of peers, before anything is written."""
    for config in configs:
        strategy = make_strategy(config.strategy["name"], config.strategy_options())
        check_size(config, strategy)
        strategy.check(config.peers.count)
        config.watch.check(config.peers.count)


def check_size(config: RunConfig, strategy: Strategy | ServerStrategy) -> None:
    """Refuse a run whose models, data or order of samples do not fit into memory."""
    peers = config.peers
    servers = strategy.num_models(1) if isinstance(strategy, ServerStrategy) else 0
    size = find_model(config).num_parameters
    check_models(peers.count, size, servers, compares_bests=config.compare_bests)
    steps = config.drift.num_steps(config.rounds)
    check_memory(
        steps * peers.num_samples * ROW_BYTES,
        f"{peers.count:,} peers with {peers.num_samples:,} samples, drawn {steps:,} times,",
        "Lower peers.count, peers.train_size, peers.validation_size or the number of shifts.",
    )
    options = config.strategy_options().items()
    epochs = {f"strategy.{key}": value for key, value in options if key.endswith("epochs")}
    for key, value in {"training.epochs": config.training.epochs, **epochs}.items():
        check_epochs(value or 0, peers.train_size, key)


def config_to_yaml(config: RunConfig) -> str:
    """Return the configuration as YAML."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def read_config(path: Path) -> RunConfig:
    """Read a configuration that `config_to_yaml` wrote."""
    return read_settings(RunConfig, path, SAVED)


def find_model(config: RunConfig) -> Architecture:
    """Return the configured architecture."""
    return find_architecture(config.model.name, config.model.input_shape)


def build_model(config: RunConfig, num_outputs: int) -> nn.Module:
    """Return a new module of the configured architecture."""
    module = find_model(config).build(num_outputs)
    if config.model.pretrained is not None:
        load_imagenet_weights(config.model.pretrained, module)
    return module


def make_datasets(
    config: RunConfig, load: LoadDataset = load_dataset, read: ReadOwnFiles = read_own_files
) -> PeerDatasets:
    """Return the data of a run: which peer has which data, and when they change.

    `load` and `read` return the samples, by default from files of this computer.
    """
    require_files(config)
    return make_scenario(config, load) if config.data.files is None else load_peers(config, read)


def load_peers(config: RunConfig, read: ReadOwnFiles = read_own_files) -> OwnedPeers:
    """Return the peers of a run on a user's own files."""
    if config.data.files is None:
        raise ConfigError("data.files is not set, so there are no files with the data of peers.")
    for name, setting in (("shift", config.shift), ("drift", config.drift)):
        if setting.kind != "none":
            raise ConfigError(
                f"{name}.kind = {setting.kind}: the peers of {config.data.files.path.name} have "
                f"their own data. Remove {name}."
            )
    peers = divide_own_samples(
        read(config.data.files, config.data.root),
        config.data.files,
        rounds=config.rounds,
        seed=config.seed,
        task=config.task,
    )
    if (expected := peer_settings(peers)) != config.peers:
        raise ConfigError(
            f"The settings of peers do not fit {config.data.files.path.name}: its peers give "
            f"{expected.count} peers with {expected.train_size} training and "
            f"{expected.validation_size} validation samples on average. These settings come from "
            "the file: leave out --peers, and name columns and windows with coterie run FILE."
        )
    return peers


def peer_settings(peers: OwnedPeers) -> PeerSettings:
    """Return the number of peers of files, and the mean sizes of their data."""
    train, validation = peers.sizes
    return PeerSettings(count=peers.num_peers, train_size=train, validation_size=validation)


def make_scenario(config: RunConfig, load: LoadDataset = load_dataset) -> Scenario:
    """Return the data of a run on datasets, which are divided among the peers."""
    sources = [_source(config, name, n, load) for n, name in enumerate(config.data.datasets)]
    check_fits(find_model(config), sources[0].shape)
    concepts = config.shift.concepts(sources, config.seed)
    return Scenario(
        sources,
        concepts,
        config.peers,
        config.drift,
        rounds=config.rounds,
        seed=config.seed,
        task=config.task,
    )


def require_files(config: RunConfig) -> None:
    """Refuse the configuration of a run whose data and model exist only in a Python program."""
    if PYTHON in config.data.datasets:
        raise ConfigError(
            "The data and the model of this run are in a Python program. Run it there, with the "
            "same arguments: coterie.simulate(…, out=FOLDER, resume=True)."
        )


def scenario_key(config: RunConfig) -> str:
    """Return a key that is equal for runs on the same data."""
    return config.model_dump_json(
        include={"data", "shift", "drift", "peers", "task", "rounds", "seed"}
    )


def _source(config: RunConfig, name: str, number: int, load: LoadDataset) -> Dataset:
    if name != LINEAR:
        return load(name, config.data.root)
    needed = config.peers.count * (config.peers.train_size + config.peers.validation_size)
    return linear_regression(number, config.seed, needed, 1000, noise=config.data.noise)


def _kinds_first(changes: Mapping[str, Any]) -> list[str]:
    """Return the keys in order, but a kind before the other settings of its group."""
    keys: dict[str, None] = {}
    for key in changes:
        kind = f"{key.rpartition('.')[0]}.kind"
        keys.update(dict.fromkeys((kind, key) if kind in changes else (key,)))
    return list(keys)


def _set(settings: dict[str, Any], dotted: str, value: Any) -> None:
    *groups, last = dotted.split(".")
    place = settings
    for depth, group in enumerate(groups):
        where = ".".join(groups[: depth + 1])
        if group in place and not isinstance(place[group], dict):
            raise ConfigError(f"There is no setting '{dotted}': '{where}' is not a group.")
        if group not in place:
            raise ConfigError(f"There is no group of settings '{where}'.{suggest(group, place)}")
        place = place[group]
    if last == "kind" and place.get("kind") != value:
        # Another kind has other settings, so the old ones are dropped.
        place.clear()
    place[last] = value
