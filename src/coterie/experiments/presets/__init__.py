"""Presets: every experiment by name, one file per paper or kind of data."""

from __future__ import annotations

from pathlib import Path

from coterie.data.dataset_catalogue import DATASETS
from coterie.data.own_files.read_table_file import is_table
from coterie.errors import ConfigError, suggest
from coterie.experiments.presets import dac, digits, friends, hast, natural, pens
from coterie.experiments.presets.from_file import is_file_name, saved_preset
from coterie.experiments.presets.preset import Preset, presets_by_name
from coterie.strategies import STRATEGIES

_MODULES = (digits, natural, dac, hast, friends, pens)
PRESETS: dict[str, Preset] = presets_by_name(
    [preset for module in _MODULES for preset in module.PRESETS]
)
DEFAULT = "digits"


def find_preset(name: str) -> Preset:
    """Return a preset by its name, or from a configuration file."""
    if name in PRESETS:
        return PRESETS[name]
    if is_table(Path(name)):
        raise ConfigError(
            f"{name} is a table, which only coterie run reads. Run it, then name the config.yaml "
            "of one of its runs."
        )
    if is_file_name(name):
        return saved_preset(Path(name).expanduser())
    raise ConfigError(
        f"There is no preset '{name}'.{_describe_name(name) or suggest(name, PRESETS)}"
    )


def _describe_name(name: str) -> str:
    """Return a sentence if the name is that of a strategy or dataset."""
    if name in STRATEGIES:
        return f" It is a strategy. Type: coterie run {DEFAULT} --strategy {name}."
    using = [key for key, preset in PRESETS.items() if name in preset.config.data.datasets]
    if using:
        return f" It is a dataset. These presets use it: {', '.join(using)}."
    if name in DATASETS or name.endswith(".npz"):
        return (
            " It is a dataset. Choose it with --set data.datasets=[…], and a model for it with "
            "--set model.name=…."
        )
    return ""


__all__ = ["DEFAULT", "PRESETS", "Preset", "find_preset"]
