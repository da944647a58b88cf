"""The device of tensors: its choice, its memory, and exact computation on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import torch

from coterie.errors import ConfigError

CPU = torch.device("cpu")
MEMORY_SHARE = 0.25
"""The share of a device's memory for models that are trained together."""


def check_device(wanted: str) -> None:
    """Refuse a device that torch was not built for; no driver is called, so forks remain safe."""
    built = {
        "cuda": torch.backends.cuda.is_built(),  # type: ignore[no-untyped-call]
        "mps": torch.backends.mps.is_built(),
    }
    if not built.get(wanted, True):
        raise ConfigError(
            f"training.device = {wanted}, but torch {torch.__version__} was installed without "
            "support for it. Install a torch with it (see pytorch.org), or use training.device = "
            "auto."
        )


def choose_device(wanted: str) -> torch.device:
    """Return the device of a setting; auto is the best available one."""
    check_device(wanted)
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if wanted == "auto":
        wanted = next(name for name, there in available.items() if there)
    if not available[wanted]:
        there = ", ".join(name for name, is_there in available.items() if is_there)
        raise ConfigError(
            f"training.device = {wanted}, but torch finds only these devices: {there}. Check the "
            "driver, or use training.device = auto."
        )
    return torch.device(wanted)


def memory_budget(device: torch.device) -> int:
    """Return the number of bytes for models that are trained together.

    It is a share of all memory, not of the free memory: the number of models that are trained
    together can change the last bits of results.
    """
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
    elif device.type == "mps":
        total = torch.mps.recommended_max_memory()
    else:
        total = psutil.virtual_memory().total
    return int(MEMORY_SHARE * total)


def free_unused(device: torch.device) -> None:
    """Free the memory that torch keeps for later use."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that a device ran out of memory."""
    # Apple's devices raise no special class of error.
    return isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error)


@contextmanager
def exact() -> Iterator[None]:
    """Let cuDNN use full float32 and deterministic algorithms."""
    with torch.backends.cudnn.flags(
        enabled=True, benchmark=False, deterministic=True, allow_tf32=False
    ):
        yield
