"""Checks that compiled code computes what torch computes, before it is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from coterie.learning.module_calls import single_threaded
from coterie.learning.native.compiled_network import CompiledNetwork
from coterie.learning.native.library import BATCH_NORM, EMBEDDING, Library
from coterie.learning.native.step import Step
from coterie.learning.trainer import Matrix, Unsupported
from coterie.models.layout import Layout
from coterie.models.vector import FlatModule
from coterie.randomness import generator
from coterie.tasks import Task

BATCH = 11  # a full group of eight, and a partial one
TOLERANCE = 1e-4
ATTEMPTS = 4
"""If two values of a pooling window are almost equal, rounding decides which is larger, and correct
gradients can differ much. Few batches have such values, but a real mistake affects all batches."""
RANDOM_LAYERS = (nn.Dropout, nn.Dropout2d)

Array = npt.NDArray[Any]


def check_gradients(
    library: Library,
    steps: Sequence[Step],
    module: nn.Module,
    shape: tuple[int, ...],
    task: Task,
) -> None:
    """Raise Unsupported unless library and module agree, without dropout.

    Compared are the gradients, the running statistics of batch normalisation after a batch, and the
    outputs in evaluation.
    """
    network = CompiledNetwork(
        library,
        [replace(step, rate=0.0) for step in steps],
        shape,
        loss=task.loss_name,
        batch_size=BATCH,
    )
    check = _Check(network, steps, FlatModule(module.eval()), shape, task)
    try:
        with single_threaded():
            for attempt in range(ATTEMPTS):
                wrong = check.first_difference(attempt)
                if wrong is None:
                    return
    finally:
        module.eval()
        network.close()
    raise Unsupported(f"the compiled {wrong} differs from torch's")


class _Check:
    """A network and a module, and what they compute from the same samples."""

    def __init__(
        self,
        network: CompiledNetwork,
        steps: Sequence[Step],
        flat: FlatModule,
        shape: tuple[int, ...],
        task: Task,
    ) -> None:
        self._network = network
        self._steps = steps
        self._flat = flat
        self._start = flat.flat.numpy().copy()
        self._shape = shape
        self._task = task

    def first_difference(self, attempt: int) -> str | None:
        """Return what differs first with one draw of samples, or None."""
        inputs, targets = self._samples(attempt)
        self._flat.load(self._start)
        ours = self._network.gradient(self._start, inputs, targets)
        theirs = self._torch_gradient(inputs, targets)
        wrong = _first_difference(self._flat.layout, ours, theirs)
        if wrong is not None:
            return f"gradient of '{wrong}'"
        if self._has_batch_norm:
            trained = self._network.trained_statistics(self._start, inputs, targets)
            wrong = _first_difference(self._flat.layout, trained, self._flat.flat.numpy())
            if wrong is not None:
                return f"running statistic '{wrong}'"
        return self._output_difference(inputs, targets)

    @property
    def _has_batch_norm(self) -> bool:
        return any(step.kind == BATCH_NORM for step in self._steps)

    def _samples(self, attempt: int) -> tuple[Array, Array]:
        rng = generator(attempt, "gradient check")
        first, num_outputs = self._steps[0], self._network.num_outputs
        if first.kind == EMBEDDING:
            inputs: Array = rng.integers(0, first.count, (BATCH, *self._shape))
        else:
            inputs = rng.standard_normal((BATCH, *self._shape), dtype=np.float32)
        if self._task.loss == "cross-entropy":
            return inputs, np.arange(BATCH, dtype=np.int64) % num_outputs
        sizes = (BATCH,) if num_outputs == 1 else (BATCH, num_outputs)
        targets = rng.standard_normal(sizes, dtype=np.float32)
        return inputs, (targets > 0).astype(np.float32) if self._task.loss == "bce" else targets

    def _torch_gradient(self, inputs: Array, targets: Array) -> Matrix:
        """Return torch's gradient (P,) in training, without dropout."""
        module = self._flat.module.train(self._has_batch_norm)
        for layer in module.modules():
            if isinstance(layer, RANDOM_LAYERS):
                layer.eval()
        outputs = module(torch.from_numpy(inputs))
        loss = self._task.mean_loss(outputs, torch.from_numpy(targets))
        self._flat.flat_grad.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        return np.asarray(self._flat.flat_grad.numpy())

    def _output_difference(self, inputs: Array, targets: Array) -> str | None:
        model = self._flat.flat.numpy()
        with torch.no_grad():
            theirs = self._flat.module.eval()(torch.from_numpy(inputs)).numpy().reshape(BATCH, -1)
        ours = self._network.outputs(model, inputs, targets)
        apart = float(np.linalg.norm(ours - theirs))
        return None if apart <= TOLERANCE * float(np.linalg.norm(theirs)) else "outputs"


def _first_difference(layout: Layout, ours: Matrix, theirs: Matrix) -> str | None:
    """Return the name of the first tensor with different values, or None."""
    whole = float(np.linalg.norm(theirs))
    for entry in layout.entries:
        part = slice(entry.start, entry.stop)
        apart = float(np.linalg.norm(ours[part] - theirs[part]))
        # Not `apart > …`: a NaN must count as a difference.
        if not apart <= TOLERANCE * float(np.linalg.norm(theirs[part])) + 1e-6 * whole:
            return entry.name
    return None
