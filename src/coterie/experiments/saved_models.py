"""The file with every peer's best model, and loading one of them into a module."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from torch import nn

from coterie.errors import ConfigError
from coterie.models.frozen_part import FrozenPart
from coterie.models.vector import FlatModule
from coterie.storage.files import write_atomically
from coterie.storage.tensor_files import write_tensors

MODELS = "models.safetensors"


def write_models(folder: Path, models: npt.NDArray[np.float32], frozen_digest: str) -> None:
    """Write every peer's best model, (K, P), and the digest of what is frozen in them."""

    def fill(file: BinaryIO) -> str:
        write_tensors(file, {"best": models}, {"frozen": frozen_digest} if frozen_digest else {})
        return MODELS

    write_atomically(folder, fill)


def load_best_model(module: nn.Module, models: npt.NDArray[np.float32], peer: int) -> nn.Module:
    """Load the weights of a peer's best model, a row of `models` (K, P), into a module."""
    if not isinstance(module, nn.Module):
        raise ConfigError(
            "load_into needs a torch module, such as build() returns, and a peer's number: "
            "load_into(module, 0)."
        )
    if not 0 <= peer < len(models):
        raise ConfigError(
            f"There is no peer {peer}: the peers have the numbers 0 to {len(models) - 1}."
        )
    FlatModule(module).load(np.array(models[peer]))
    return module


def warn_of_other_backbone(found: FrozenPart, digest: str) -> None:
    """Warn if a module's frozen part is not that of the run, which has this digest."""
    if found.digest != digest:
        warnings.warn(
            "The frozen parameters of this module are not those of the run, such as another "
            "backbone: its outputs differ from those of the peer's model. Build the module with "
            "the weights that the run used.",
            stacklevel=3,
        )
