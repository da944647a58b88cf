"""Checks that the gradients of compiled code agree with torch's, before it is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from coterie.learning.native.compiled_network import CompiledNetwork
from coterie.learning.native.library import LINEAR, Library
from coterie.learning.native.translate_module import Step
from coterie.learning.trainer import Unsupported
from coterie.models.layout import Layout
from coterie.models.vector import FlatModule
from coterie.randomness import generator
from coterie.tasks import Task

BATCH = 11  # a full group of eight, and a partial one
TOLERANCE = 1e-4
ATTEMPTS = 4
"""If two values of a pooling window are almost equal, rounding decides which is larger, and correct
gradients can differ much. Few batches have such values, but a real mistake affects all batches."""


def check_gradients(
    library: Library,
    steps: Sequence[Step],
    module: nn.Module,
    shape: tuple[int, ...],
    task: Task,
) -> None:
    """Raise Unsupported unless library and module have equal gradients, without dropout."""
    flat = FlatModule(module.eval())
    has_classes = task.loss == "cross-entropy"
    num_classes = steps[-1].outputs if steps[-1].kind == LINEAR else 1
    network = CompiledNetwork(
        library,
        [replace(step, rate=0.0) for step in steps],
        shape,
        has_classes=has_classes,
    )
    try:
        for attempt in range(ATTEMPTS):
            rng = generator(attempt, "gradient check")
            inputs = rng.standard_normal((BATCH, *shape), dtype=np.float32)
            targets = (
                np.arange(BATCH, dtype=np.int64) % num_classes
                if has_classes
                else rng.standard_normal(BATCH, dtype=np.float32)
            )
            ours = network.gradient(flat.flat.numpy(), inputs, targets)
            theirs = _torch_gradient(flat, inputs, targets, task)
            wrong = _first_difference(flat.layout, ours, theirs)
            if wrong is None:
                return
    finally:
        network.close()
    raise Unsupported(f"the compiled gradient of '{wrong}' differs from torch's")


def _torch_gradient(
    flat: FlatModule,
    inputs: npt.NDArray[np.float32],
    targets: npt.NDArray[Any],
    task: Task,
) -> npt.NDArray[np.float32]:
    outputs = flat.module(torch.from_numpy(inputs))
    loss = task.mean_loss(outputs, torch.from_numpy(targets))
    flat.flat_grad.zero_()
    loss.backward()  # type: ignore[no-untyped-call]
    return np.asarray(flat.flat_grad.numpy())


def _first_difference(
    layout: Layout, ours: npt.NDArray[np.float32], theirs: npt.NDArray[np.float32]
) -> str | None:
    """Return the name of the first tensor with different gradients, or None."""
    whole = float(np.linalg.norm(theirs))
    for entry in layout.entries:
        part = slice(entry.start, entry.stop)
        apart = float(np.linalg.norm(ours[part] - theirs[part]))
        # Not `apart > …`: a NaN must count as a difference.
        if not apart <= TOLERANCE * float(np.linalg.norm(theirs[part])) + 1e-6 * whole:
            return entry.name
    return None
