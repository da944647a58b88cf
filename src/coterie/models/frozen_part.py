"""The frozen part of a module: what no peer trains, such as a pretrained backbone.

It is no part of a model's vector: it is the same for all peers, never merged and never sent.

- Parameters that need no gradient are frozen.
- Buffers of a module whose own parameters are all frozen are frozen with them. A module without
  parameters of its own is judged by all parameters below it; if there are none, by those of the
  nearest module around it that has some.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from coterie.errors import ConfigError


@dataclass(frozen=True, eq=False)
class FrozenTensor:
    """One frozen tensor of a module, and the submodule that has it as attribute `key`."""

    name: str
    key: str
    owner: nn.Module
    tensor: torch.Tensor
    is_buffer: bool


class FrozenPart:
    """The frozen tensors of a module by name; other modules of the same structure can share them.

    Parameters and buffers may be of any type, such as float16 or int8.
    """

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self.tensors = dict(tensors)

    @classmethod
    def of(cls, module: nn.Module) -> FrozenPart:
        """Return the frozen part of a module, without copies; tied tensors appear once."""
        tensors: dict[torch.Tensor, str] = {}  # tensors hash by identity
        for each in frozen_tensors(module):
            tensors.setdefault(each.tensor, each.name)
        return cls({name: tensor.detach() for tensor, name in tensors.items()})

    @property
    def is_empty(self) -> bool:
        """Whether the whole model is trained."""
        return not self.tensors

    @property
    def num_bytes(self) -> int:
        """Return the memory of all tensors, which all peers of a process share."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    @cached_property
    def digest(self) -> str:
        """Return a SHA-256 of names, shapes, types and bytes; empty if nothing is frozen."""
        if self.is_empty:
            return ""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.tensors.items()):
            kind = str(tensor.dtype).removeprefix("torch.")
            digest.update(json.dumps([name, list(tensor.shape), kind]).encode() + b"\n")
            digest.update(_bytes_of(tensor))
        return digest.hexdigest()

    def share_with(self, module: nn.Module) -> None:
        """Replace the frozen tensors of a module of the same structure by these."""
        first: dict[torch.Tensor, str] = {}
        places = list(frozen_tensors(module))
        for place in places:
            first.setdefault(place.tensor, place.name)
        for place in places:
            shared = self.tensors.get(first[place.tensor])
            if shared is None or _kind(shared) != _kind(place.tensor):
                raise ConfigError(
                    f"build() returned modules that differ in '{place.name}', which is not "
                    "trained. Return the same layers at each call, and freeze the same ones."
                )
            if place.is_buffer:
                place.owner._buffers[place.key] = shared
            else:
                place.tensor.data = shared
        if len(first) != len(self.tensors):
            missing = min(self.tensors.keys() - first.values())
            raise ConfigError(
                f"build() returned one module in which '{missing}' is frozen, and one in which it "
                "is not. Freeze the same parameters at each call."
            )


def frozen_tensors(module: nn.Module) -> Iterator[FrozenTensor]:
    """Yield the frozen parameters and buffers of a module; tied ones at each of their places."""
    if all(parameter.requires_grad for parameter in module.parameters()):
        return
    for path, owner, has_frozen_buffers in _judged(module, "", False, set()):
        for is_buffer, items in ((False, owner._parameters), (True, owner._buffers)):
            for key, tensor in items.items():
                if tensor is None or (
                    not has_frozen_buffers if is_buffer else tensor.requires_grad
                ):
                    continue
                name = f"{path}.{key}" if path else key
                yield FrozenTensor(name, key, owner, tensor, is_buffer)


def frozen_norms(module: nn.Module) -> list[nn.Module]:
    """Return the normalisation layers with frozen statistics, which stay in evaluation mode."""
    owners = [each.owner for each in frozen_tensors(module) if each.is_buffer]
    return list(dict.fromkeys(owner for owner in owners if isinstance(owner, _NormBase)))


def _judged(
    module: nn.Module, path: str, is_around_frozen: bool, seen: set[nn.Module]
) -> Iterator[tuple[str, nn.Module, bool]]:
    """Yield each module below `module` once: its path, and whether its buffers are frozen."""
    if module in seen:
        return
    seen.add(module)
    below = list(module.parameters())
    own = list(module.parameters(recurse=False))
    is_all_frozen = not any(each.requires_grad for each in below) if below else is_around_frozen
    is_frozen = not any(each.requires_grad for each in own) if own else is_all_frozen
    yield path, module, is_frozen
    for name, child in module.named_children():
        yield from _judged(child, f"{path}.{name}" if path else name, is_all_frozen, seen)


def _kind(tensor: torch.Tensor) -> tuple[torch.Size, torch.dtype]:
    return tensor.shape, tensor.dtype


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    flat = tensor.cpu().contiguous().reshape(-1)
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    return flat.view(torch.uint8).numpy().data
