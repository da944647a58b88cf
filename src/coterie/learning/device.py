"""Where tensors are computed: which device there is, how much fits, how to keep it exact."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import torch

from coterie.errors import ConfigError

CPU = torch.device("cpu")
MEMORY_SHARE = 0.25
"""How much of a device's memory models trained together are meant to take."""


def check_device(wanted: str) -> None:
    """Refuse a device torch was not built for; this asks no driver, so processes may be forked."""
    built = {
        "cuda": torch.backends.cuda.is_built(),  # type: ignore[no-untyped-call]
        "mps": torch.backends.mps.is_built(),
    }
    if not built.get(wanted, True):
        raise ConfigError(
            f"training.device = {wanted}, but torch {torch.__version__} was installed without "
            "support for it. Install a torch that has it (pytorch.org says how), or use "
            "training.device = auto."
        )


def choose_device(wanted: str) -> torch.device:
    """Return the device of a setting; auto: the best there is."""
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
            f"training.device = {wanted}, but torch finds no such device here, only: {there}. "
            "Check its driver, or use training.device = auto."
        )
    return torch.device(wanted)


def memory_budget(device: torch.device) -> int:
    """Return how many bytes models trained together may take.

    A share of all memory, not of what is free at the moment: how many models are trained together
    can change the last bits of results, and should be the same tomorrow.
    """
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
    elif device.type == "mps":
        total = torch.mps.recommended_max_memory()
    else:
        total = psutil.virtual_memory().total
    return int(MEMORY_SHARE * total)


def free_unused(device: torch.device) -> None:
    """Give back memory that torch keeps for later, so that what comes next may fit."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that a device's memory did not suffice."""
    # Apple's devices have no error class of their own for it.
    return isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error)


@contextmanager
def exact() -> Iterator[None]:
    """Let cuDNN use full float32 and, where it has them, algorithms that always sum alike."""
    with torch.backends.cudnn.flags(
        enabled=True, benchmark=False, deterministic=True, allow_tf32=False
    ):
        yield
