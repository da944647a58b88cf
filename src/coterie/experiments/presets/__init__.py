"""Presets: every experiment by name, one file per paper."""

from __future__ import annotations

from pathlib import Path

from coterie.data.dataset_catalogue import DATASETS
from coterie.errors import ConfigError, suggest
from coterie.experiments.presets import dac, digits, friends, hast, pens
from coterie.experiments.presets.from_file import is_file_name, saved_preset
from coterie.experiments.presets.preset import Preset, unique
from coterie.strategies import STRATEGIES

PRESETS: dict[str, Preset] = unique(
    [preset for room in (digits, dac, hast, friends, pens) for preset in room.PRESETS]
)
DEFAULT = "digits"


def find_preset(name: str) -> Preset:
    """Return a preset, or what a configuration file describes; an unknown name is a ConfigError."""
    if name in PRESETS:
        return PRESETS[name]
    if is_file_name(name):
        return saved_preset(Path(name).expanduser())
    raise ConfigError(f"There is no preset '{name}'.{_meant(name)}{suggest(name, PRESETS)}")


def _meant(name: str) -> str:
    """Say what else has this name."""
    if name in STRATEGIES:
        return f" It is a strategy: coterie run {DEFAULT} --strategy {name}."
    using = [key for key, preset in PRESETS.items() if name in preset.config.data.datasets]
    if using:
        return f" It is a dataset, which these presets use: {', '.join(using)}."
    if name in DATASETS or name.endswith(".npz"):
        return (
            " It is a dataset: choose it with --set data.datasets=[…], and with --set model.name=… "
            "a model for it."
        )
    return ""


__all__ = ["DEFAULT", "PRESETS", "Preset", "find_preset"]
