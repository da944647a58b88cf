"""Copies weights between flat vectors and modules; the frozen part of a module stays as it is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from coterie.errors import ConfigError, TrainingError
from coterie.models.frozen_part import frozen_norms, frozen_tensors
from coterie.models.layout import Layout, LayoutEntry, slots_of

Vector = npt.NDArray[np.float32]


class FlatModule:
    """A module whose trained parameters, float buffers and gradients are views of flat tensors.

    `flat` and `flat_grad` are float32 of shape (P,), in the order of `layout`.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.layout = Layout.of(module)
        self.flat = torch.empty(self.layout.size)
        self.flat_grad = torch.zeros(self.layout.size)
        self._values: Vector = self.flat.numpy()
        self._float_buffers: list[tuple[nn.Module, str, torch.Tensor]] = []
        for entry, slot in zip(self.layout.entries, slots_of(module), strict=True):
            view = _view(self.flat, entry)
            view.copy_(slot.tensor.detach())
            slot.tensor.data = view
            if slot.is_buffer:
                self._float_buffers.append((slot.owner, slot.key, slot.tensor))
            else:
                slot.tensor.grad = _view(self.flat_grad, entry)
        self._frozen_buffers = [each for each in frozen_tensors(module) if each.is_buffer]
        self._versions = [each.tensor._version for each in self._frozen_buffers]
        self._frozen_norms = frozen_norms(module)
        frozen = {each.tensor for each in self._frozen_buffers}
        self._counters = [
            (owner, key, buffer.clone())
            for owner in module.modules()
            for key, buffer in owner.named_buffers(recurse=False)
            if not buffer.is_floating_point() and buffer not in frozen
        ]

    def training_module(self) -> nn.Module:
        """Return the module in training mode; frozen statistics are used and do not change."""
        self.module.train()
        for norm in self._frozen_norms:
            norm.training = False
        return self.module

    def load(self, vector: Vector) -> None:
        """Copy `vector` (P,) into the module, and reset its integer buffers."""
        self._require_shape(vector)
        self._keep_buffers()
        self._values[...] = vector
        for owner, key, initial in self._counters:
            owner.get_buffer(key).copy_(initial)

    def store(self, vector: Vector, depth: int | None = None) -> None:
        """Copy the last `depth` layers (None: all) into `vector` (P,), with their buffers."""
        self._require_shape(vector)
        self._require_unchanged()
        self._keep_buffers()
        for part in self.layout.last_layers(depth):
            vector[part] = self._values[part]

    def trainable_views(self, depth: int | None = None) -> list[torch.Tensor]:
        """Return 1-D views of the trainable slices of `flat`, with `.grad` in `flat_grad`."""
        views = []
        for run in self.layout.trainable_slices(depth):
            view = self.flat[run]
            view.grad = self.flat_grad[run]
            views.append(view)
        return views

    def _keep_buffers(self) -> None:
        """Copy float buffers that a forward pass replaced back into `flat`."""
        for owner, key, kept in self._float_buffers:
            current = owner.get_buffer(key)
            if current is not kept:
                kept.copy_(current.detach())
                setattr(owner, key, kept)

    def _require_unchanged(self) -> None:
        """Refuse a module that changes its frozen part, which all peers share."""
        for each, version in zip(self._frozen_buffers, self._versions, strict=True):
            now = each.owner.get_buffer(each.key)
            if now is not each.tensor or now._version != version:
                raise TrainingError(
                    f"The module changes its buffer '{each.name}' while it trains, but the buffer "
                    "belongs to frozen parameters, and all peers share it. Leave a parameter of "
                    "the same submodule trainable, or do not change the buffer."
                )

    def _require_shape(self, vector: Vector) -> None:
        if vector.shape != self._values.shape or vector.dtype != np.float32:
            raise ConfigError(
                f"The vector is {vector.dtype} of shape {vector.shape}, but this model needs "
                f"float32 of shape {self._values.shape}. Use a vector of the same model, with the "
                "same parameters frozen."
            )


def vector_of(module: nn.Module) -> Vector:
    """Return a copy of what a layout has of a module, float32 (P,)."""
    with torch.no_grad():
        joined = torch.cat([slot.tensor.reshape(-1) for slot in slots_of(module)])
    return np.asarray(joined.numpy(), dtype=np.float32)


def initial_vector(build: Callable[[], nn.Module], bits: int) -> Vector:
    """Return the vector (P,) of a new module with random weights from the seed `bits`."""
    return vector_of(seeded_module(build, bits))


def seeded_module(build: Callable[[], nn.Module], bits: int) -> nn.Module:
    """Return a new module with random weights from the seed `bits`."""
    with torch.random.fork_rng(devices=[]):
        # Only the CPU generator is seeded: torch.manual_seed would seed the accelerators too.
        torch.default_generator.manual_seed(bits % 2**64)
        return build()


def _view(flat: torch.Tensor, entry: LayoutEntry) -> torch.Tensor:
    return flat[entry.start : entry.stop].view(entry.shape)
