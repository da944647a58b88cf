"""experiment.yaml: the names of an experiment's runs, and in a sweep the settings that vary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from coterie.errors import StorageError
from coterie.settings import Settings
from coterie.storage.files import read_small, write_text
from coterie.storage.yaml_text import parse_yaml

EXPERIMENT = "experiment.yaml"


class SweepGrid(Settings):
    """The settings that vary in a sweep, and the other options of the command."""

    varied: tuple[str, ...]
    """The dotted keys of the settings that vary."""
    changes: dict[str, Any] = Field(default_factory=dict)
    """The settings changed in all runs, by their dotted keys."""
    scale: float = 1.0
    select: bool = False
    """Whether to name the best setting of each strategy."""


class ExperimentFile(Settings):
    """The contents of experiment.yaml."""

    runs: tuple[str, ...]
    sweep: SweepGrid | None = None


def write_experiment_file(folder: Path, contents: ExperimentFile) -> None:
    """Write experiment.yaml atomically."""
    plain = contents.model_dump(mode="json", exclude_none=True)
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    write_text(folder / EXPERIMENT, text)


def read_experiment_file(path: Path) -> ExperimentFile:
    """Return the contents of an experiment.yaml."""
    try:
        contents = ExperimentFile.model_validate(parse_yaml(read_small(path).decode()))
        if not contents.runs:
            raise ValueError
    except (ValueError, ValidationError):
        raise StorageError(
            f"{path} is damaged: expected 'runs:' and the names of the run folders. You can still "
            "resume each run by its own folder."
        ) from None
    if any(name in ("", "..") or Path(name).name != name for name in contents.runs):
        raise StorageError(f"{path} names a run outside its folder.")
    return contents
