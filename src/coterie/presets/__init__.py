"""Presets: every experiment by name, one file per paper."""

from __future__ import annotations

from coterie.errors import ConfigError, nearest
from coterie.presets import dac, digits, friends, hast, pens
from coterie.presets.base import Preset, unique

PRESETS: dict[str, Preset] = unique(
    [preset for room in (digits, dac, hast, friends, pens) for preset in room.PRESETS]
)
DEFAULT = "digits"


def find_preset(name: str) -> Preset:
    """Return a preset; an unknown name is a ConfigError that names the nearest."""
    if name not in PRESETS:
        raise ConfigError(f"There is no preset '{name}'.{nearest(name, PRESETS)}")
    return PRESETS[name]


__all__ = ["DEFAULT", "PRESETS", "Preset", "find_preset"]
