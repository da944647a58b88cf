"""The interface of loggers, which follow one run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeAlias

from coterie.errors import ConfigError

LoggerName: TypeAlias = Literal["tensorboard", "wandb", "mlflow"]
LOGGERS: tuple[LoggerName, ...] = ("tensorboard", "wandb", "mlflow")


class Logger(ABC):
    """Follows one run: it is told of its start, of each round, and of its end."""

    @abstractmethod
    def start(self, name: str, settings: Mapping[str, Any], folder: Path | None) -> None:
        """Begin a run with this name and these settings; `folder` is None if it has none."""

    @abstractmethod
    def log(self, round_number: int, means: Mapping[str, float]) -> None:
        """Take the means of a round over peers."""

    @abstractmethod
    def finish(self, *, is_complete: bool) -> None:
        """End the run; it is not complete if it failed or was stopped."""


def make_logger(name: LoggerName) -> Logger:
    """Return a new logger; a ConfigError says how to install what it needs."""
    from coterie.loggers.mlflow_logger import MlflowLogger
    from coterie.loggers.tensorboard_logger import TensorBoardLogger
    from coterie.loggers.wandb_logger import WandbLogger

    match name:
        case "tensorboard":
            return TensorBoardLogger()
        case "wandb":
            return WandbLogger()
        case "mlflow":
            return MlflowLogger()


def import_or_explain(module: str, title: str, extra: str) -> ModuleType:
    """Import a package of an extra; raise a ConfigError that says how to install it."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise ConfigError(
            f"Logging to {title} needs the package {module}, which is not installed. Install it "
            f"with: pip install 'coterie[{extra}]'"
        ) from None


def flat_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flat_settings(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
