"""Reads settings from a YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.errors import ConfigError, StorageError
from coterie.settings import Group, parse_settings
from coterie.storage.files import read_small
from coterie.storage.yaml_text import parse_yaml


def read_settings(kind: type[Group], path: Path, context: Mapping[str, Any] | None = None) -> Group:
    """Return the settings in a YAML file; `context` is for their validators."""
    try:
        settings = parse_yaml(read_small(path).decode())
    except ValueError as error:
        raise StorageError(f"Cannot read the configuration {path}: {error}") from None
    if not isinstance(settings, dict):
        raise ConfigError(
            f"{path} is not a configuration: expected YAML with one setting per line, key: value."
        )
    try:
        return parse_settings(kind, settings, context)
    except ConfigError as error:
        raise ConfigError(f"{path} cannot be used.\n{error}") from None
