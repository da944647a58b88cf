"""Chooses what to run: a preset by name, settings from a file, or a user's own data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from coterie.experiments.config import ModelSettings
from coterie.experiments.presets import PRESETS, find_preset
from coterie.experiments.presets.own_files import (
    FileOptions,
    is_own_data,
    preset_of_files,
    refuse_file_options,
)
from coterie.experiments.presets.preset import Preset
from coterie.models.fitting_models import find_architecture


def choose_preset(
    name: str,
    options: FileOptions,
    model: str | None,
    root: Path | None,
    tell: Callable[[str], None],
) -> Preset:
    """Return the preset, or what is run on the user's data; with the user's model."""
    if name not in PRESETS and is_own_data(name):
        return preset_of_files(Path(name), options, model, root, tell)
    refuse_file_options(options, name)
    preset = find_preset(name)
    return preset if model is None else _with_model(preset, model)


def _with_model(preset: Preset, model: str) -> Preset:
    """Return the preset with another model for the same samples."""
    before = preset.config.model
    shape = find_architecture(before.name, before.input_shape).input_shape
    settings = ModelSettings(name=model, input_shape=shape)
    return replace(preset, config=preset.config.model_copy(update={"model": settings}))
