"""Presets from configuration files: of an earlier run, or written by a user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coterie.errors import ConfigError, StorageError
from coterie.experiments.config import CONFIG, RunConfig, read_config, require_files
from coterie.experiments.experiment_file import EXPERIMENT, read_experiment_file
from coterie.experiments.presets.preset import Preset, Variant
from coterie.experiments.user_models import USER_MODELS
from coterie.experiments.user_strategies import check_known
from coterie.experiments.user_tasks import USER_TASKS

ENDINGS = (".yaml", ".yml")


def is_file_name(name: str) -> bool:
    """Whether a name means a file or folder."""
    path = Path(name)
    return path.suffix in ENDINGS or len(path.parts) > 1 or _is_run_folder(path)


def saved_preset(path: Path) -> Preset:
    """Return the experiment that a configuration, or a folder of runs, describes."""
    if not path.exists():
        raise StorageError(f"There is no file {path}. Give a preset, or an existing config.yaml.")
    if path.is_dir():
        if not _is_run_folder(path):
            raise StorageError(f"{path} contains no run: it has neither {EXPERIMENT} nor {CONFIG}.")
        path = path / (CONFIG if (path / CONFIG).exists() else EXPERIMENT)
    if path.name != EXPERIMENT:
        return _as_preset(path, [_labelled(path)])
    contents = read_experiment_file(path)
    if contents.sweep is not None:
        raise ConfigError(
            f"{path} is a sweep over {', '.join(contents.sweep.varied)}, which coterie run cannot "
            f"repeat. Name the {CONFIG} of one of its runs, or use coterie sweep again."
        )
    return _as_preset(path, [_labelled(path.parent / name / CONFIG) for name in contents.runs])


def _labelled(path: Path) -> RunConfig:
    """Read a configuration; without a label, the strategy's name is the label."""
    config = read_config(path)
    require_files(config)
    check_known(config.strategy["name"], path.parent, f"coterie run {path}")
    USER_MODELS.check_known(config.model.name, path.parent, f"coterie run {path}")
    USER_TASKS.check_known(config.task.file, path.parent, f"coterie run {path}")
    if "label" in config.model_fields_set:
        return config
    return config.model_copy(update={"label": config.strategy["name"]})


def _is_run_folder(path: Path) -> bool:
    return any((path / name).is_file() for name in (CONFIG, EXPERIMENT))


def _as_preset(path: Path, configs: Sequence[RunConfig]) -> Preset:
    first = configs[0]
    by_label = {config.label: config for config in configs}
    seeds = tuple(dict.fromkeys(config.seed for config in configs))
    present = {(config.label, config.seed): config for config in configs}
    for label, seed in ((label, seed) for label in by_label for seed in seeds):
        expected = by_label[label].model_copy(update={"seed": seed})
        if present.get((label, seed)) != expected:
            raise ConfigError(
                f"{path} lists runs that differ in more than strategy and seed, so they cannot be "
                f"repeated by one command. Name the {CONFIG} of one of its runs."
            )
    variants = [
        Variant(config.label, config.strategy, _differences(first, config))
        for config in by_label.values()
    ]
    return Preset(first.preset, str(path), first, tuple(variants), seeds=seeds)


def _differences(first: RunConfig, config: RunConfig) -> dict[str, Any]:
    """Return the groups of settings of a configuration that differ from those of the first."""
    before, now = first.model_dump(mode="json"), config.model_dump(mode="json")
    own = ("seed", "label", "strategy")
    return {key: now[key] for key in now if key not in own and now[key] != before[key]}
