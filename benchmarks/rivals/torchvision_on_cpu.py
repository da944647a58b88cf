"""Makes torchvision importable beside a torch without CUDA.

The package index has torchvision only for torch with CUDA. Then its compiled operators cannot be
loaded, and it cannot be imported. Nothing here uses them, so it is enough to declare them.
"""

from __future__ import annotations

import torch

OPERATORS = ("nms", "qnms")


def prepare_torchvision() -> None:
    """Import torchvision; declare its operators if they are missing."""
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in OPERATORS:
            torch.library.define(
                f"torchvision::{name}", "(Tensor boxes, Tensor scores, float threshold) -> Tensor"
            )


prepare_torchvision()
