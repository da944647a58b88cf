"""The official ImageNet weights of ResNet-18, from a file the user supplies."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from coterie.errors import DataError, StorageError

RESNET18_URL = "https://download.pytorch.org/models/resnet18-f37072fd.pth"
RESNET18_SHA256 = "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec"

_CLASSIFIER = ("fc.weight", "fc.bias")
_COUNTER = "num_batches_tracked"
_SHOWN_PROBLEMS = 5


def load_imagenet_weights(
    path: str | Path, module: nn.Module, *, sha256: str = RESNET18_SHA256
) -> None:
    """Copy pretrained weights from a .pth or .safetensors file into a ResNet-18.

    The module keeps its own last layer when the file has another number of classes. It is left
    untouched when anything does not fit. A .pth file must have the digest `sha256`.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"There is no weights file at {path}. Download {RESNET18_URL} to it.")
    try:
        weights = _read(path, sha256)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error}. Check its permissions.") from error
    targets = module.state_dict()
    kept = _kept(weights, targets)
    weights = {name: values for name, values in weights.items() if name not in kept}
    problems = _problems(weights, targets, kept)
    if problems:
        more = len(problems) - _SHOWN_PROBLEMS
        listed = "; ".join(problems[:_SHOWN_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
        raise DataError(
            f"{path} does not hold the weights of this model: {listed}. "
            f"Expected those of {RESNET18_URL}."
        )
    with torch.no_grad():
        for name, values in weights.items():
            targets[name].copy_(values)


def _read(path: Path, sha256: str) -> Mapping[str, torch.Tensor]:
    """Return a file's tensors by name."""
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return load_file(path)
        except SafetensorError as error:
            raise DataError(
                f"{path} is not a readable safetensors file: {error}. Supply it again."
            ) from error
    # Read once, so that the bytes that are loaded are those that were checked.
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise DataError(
            f"{path} is not the official weights file: its SHA-256 is {digest}, expected "
            f"{sha256}. Download {RESNET18_URL} again."
        )
    weights: dict[str, torch.Tensor] = torch.load(
        io.BytesIO(content), map_location="cpu", weights_only=True
    )
    return weights


def _kept(
    weights: Mapping[str, torch.Tensor], targets: Mapping[str, torch.Tensor]
) -> tuple[str, ...]:
    """Return the names of the classifier when the file's has another number of classes."""
    weight = _CLASSIFIER[0]
    if weight not in weights or weight not in targets:
        return ()
    return () if weights[weight].shape[:1] == targets[weight].shape[:1] else _CLASSIFIER


def _problems(
    weights: Mapping[str, torch.Tensor], targets: Mapping[str, torch.Tensor], kept: tuple[str, ...]
) -> list[str]:
    """Return what stands against copying the weights into the targets, all but those kept."""
    # Files from before BatchNorm counted its batches have no counters.
    required = [name for name in targets if not name.endswith(_COUNTER) and name not in kept]
    problems = [f"'{name}' is missing" for name in required if name not in weights]
    for name, values in weights.items():
        target = targets.get(name)
        if target is None:
            problems.append(f"'{name}' is not part of the model")
        elif values.shape != target.shape:
            problems.append(f"'{name}' has shape {(*values.shape,)}, expected {(*target.shape,)}")
        elif values.dtype != target.dtype:
            problems.append(f"'{name}' is {values.dtype}, expected {target.dtype}")
        elif not bool(torch.isfinite(values).all()):
            problems.append(f"'{name}' holds values that are not finite")
    return problems
