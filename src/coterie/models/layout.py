"""The positions of a module's trained parameters and float buffers in one flat float32 vector.

The frozen part of a module has no positions: see `frozen_part`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import nn

from coterie.errors import ConfigError
from coterie.models.frozen_part import frozen_tensors


@dataclass(frozen=True)
class LayoutEntry:
    """The position of one tensor in the vector: `vector[start:stop]` reshaped to `shape`."""

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int
    layer: int
    trainable: bool


@dataclass(frozen=True, eq=False)
class Slot:
    """One tensor of a module, and the submodule that has it as attribute `key`."""

    name: str
    key: str
    owner: nn.Module
    tensor: torch.Tensor
    layer: int
    is_buffer: bool


@dataclass(frozen=True)
class Layout:
    """The map of a flat vector of length `size`, ordered by layer, parameters before buffers."""

    entries: tuple[LayoutEntry, ...]
    classifier_depth: int

    @classmethod
    def of(cls, module: nn.Module) -> Layout:
        """Return the layout of a module's trained parameters and float buffers."""
        slots = slots_of(module)
        entries = []
        start = 0
        for slot in slots:
            shape = tuple(slot.tensor.shape)
            stop = start + math.prod(shape)
            trainable = not slot.is_buffer
            entries.append(LayoutEntry(slot.name, shape, start, stop, slot.layer, trainable))
            start = stop
        return cls(tuple(entries), _classifier_depth(module, slots))

    @property
    def size(self) -> int:
        """Return the length of the vector, with buffers."""
        return self.entries[-1].stop

    @cached_property
    def num_parameters(self) -> int:
        """Return the number of values that are trained."""
        return sum(entry.stop - entry.start for entry in self.entries if entry.trainable)

    @property
    def num_layers(self) -> int:
        """Return the number of modules that own trained parameters."""
        return self.entries[-1].layer + 1

    @property
    def is_all_classifier(self) -> bool:
        """Whether the classifier is the whole model."""
        return self.classifier_depth == self.num_layers

    @property
    def num_bytes(self) -> int:
        """Return the size of the vector in bytes."""
        return self.size * 4

    @cached_property
    def fingerprint(self) -> str:
        """Return a SHA-256 of the names, the shapes and what is trainable."""
        rows = [[entry.name, entry.shape, entry.trainable] for entry in self.entries]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    def without_buffers(self) -> Layout:
        """Return the layout of the trained parameters alone, in the same order."""
        entries = []
        start = 0
        for entry in self.entries:
            if entry.trainable:
                stop = start + entry.stop - entry.start
                entries.append(replace(entry, start=start, stop=stop))
                start = stop
        return Layout(tuple(entries), self.classifier_depth)

    def last_layers(self, depth: int | None) -> tuple[slice, ...]:
        """Return the slices of the vector that hold the last `depth` layers (None: all)."""
        return _join(self._last_entries(depth))

    def trainable_slices(self, depth: int | None = None) -> tuple[slice, ...]:
        """Return the trainable slices of the vector in the last `depth` layers (None: all)."""
        return _join(entry for entry in self._last_entries(depth) if entry.trainable)

    def _last_entries(self, depth: int | None) -> list[LayoutEntry]:
        if depth is None:
            return list(self.entries)
        if not 1 <= depth <= self.num_layers:
            raise ConfigError(
                f"The model has {self.num_layers} layers, but its last {depth} were requested. "
                f"Use a depth from 1 to {self.num_layers}."
            )
        first = self.num_layers - depth
        return [entry for entry in self.entries if entry.layer >= first]


def slots_of(module: nn.Module) -> list[Slot]:
    """Return a module's tensors outside its frozen part in the order of the layout.

    These are its trained parameters and its float buffers; tied ones appear once.
    """
    slots: list[Slot] = []
    frozen = {each.tensor for each in frozen_tensors(module)}
    seen = set(frozen)  # tensors hash by identity, so tied ones are equal
    layer = -1
    for path, owner in module.named_modules():
        parameters = [item for item in owner.named_parameters(recurse=False) if item[1] not in seen]
        buffers = [
            item
            for item in owner.named_buffers(recurse=False)
            if item[1] not in seen and (item[1].is_floating_point() or item[1].is_complex())
        ]
        layer += bool(parameters)
        for is_buffer, items in ((False, parameters), (True, buffers)):
            for key, tensor in items:
                name = f"{path}.{key}" if path else key
                _require_float32(name, tensor)
                # Buffers of a module without parameters belong to the layer before it.
                slots.append(Slot(name, key, owner, tensor, max(layer, 0), is_buffer))
                seen.add(tensor)
    if layer < 0:
        raise ConfigError(_NOTHING_TO_TRAIN if frozen else _NO_PARAMETERS)
    return sorted(slots, key=lambda slot: (slot.layer, slot.is_buffer))


_NO_PARAMETERS = (
    "The model has no parameters, so there is nothing to train or exchange. Add at least one layer "
    "such as nn.Linear."
)
_NOTHING_TO_TRAIN = (
    "No parameter of the model is trained: all have requires_grad = False. Leave those trainable "
    "that peers train and exchange, such as the last layer or adapters."
)


def _require_float32(name: str, tensor: torch.Tensor) -> None:
    if tensor.dtype != torch.float32:
        raise ConfigError(
            f"'{name}' is {str(tensor.dtype).removeprefix('torch.')}, but what peers exchange must "
            "be float32: trained parameters and float buffers. Convert the model with .float()."
        )


def _classifier_depth(module: nn.Module, slots: list[Slot]) -> int:
    """Return the number of trained linear layers at the end, at least 1."""
    trained = {slot.owner for slot in slots if not slot.is_buffer}
    frozen = {each.owner for each in frozen_tensors(module) if not each.is_buffer}
    depth = 0
    for owner in reversed(list(module.modules())):
        if owner in trained and isinstance(owner, nn.Linear):
            depth += 1
        elif owner in trained | frozen:
            break
    return max(depth, 1)


def _join(entries: Iterable[LayoutEntry]) -> tuple[slice, ...]:
    """Return the slices of entries; adjacent ones are joined."""
    runs: list[slice] = []
    for entry in entries:
        if runs and runs[-1].stop == entry.start:
            runs[-1] = slice(runs[-1].start, entry.stop)
        else:
            runs.append(slice(entry.start, entry.stop))
    return tuple(runs)
