"""Dropout whose random numbers follow from a key, so that models trained together stay apart.

torch draws masks from one generator per device: those of a model would depend on the models it is
trained with. Here each value's number is a hash of its place and of a key, the same on any device.
"""

from __future__ import annotations

import torch
from torch import nn

KEY = "key"
WORDS = 2
"""A key is two numbers below 2**32."""


class KeyedDropout(nn.Module):
    """nn.Dropout, but for its random numbers: they follow from the buffer `key` (2,)."""

    key: torch.Tensor

    def __init__(self, probability: float) -> None:
        super().__init__()
        self._probability = probability
        self.register_buffer(KEY, torch.zeros(WORDS, dtype=torch.int64), persistent=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Zero values of `inputs`, of any shape, and scale the others up; only in training."""
        if not self.training or self._probability == 0.0:
            return inputs
        if self._probability == 1.0:
            return inputs * 0.0
        places = torch.arange(inputs.numel(), device=inputs.device).view(inputs.shape)
        numbers = _hash(_hash((places + self.key[0]) & 0xFFFFFFFF) ^ self.key[1])
        kept = numbers >= round(self._probability * 2**32)
        return inputs * kept / (1.0 - self._probability)


def key_dropout(module: nn.Module) -> list[str]:
    """Replace every nn.Dropout inside of a module; return the names of the buffers of keys.

    Other random layers stay as they are; torch.func refuses to run them.
    """
    names = []
    for path, owner in list(module.named_modules()):
        for name, child in list(owner.named_children()):
            if type(child) is nn.Dropout:
                keyed = KeyedDropout(child.p).train(child.training)
                setattr(owner, name, keyed)
                names.append(".".join(part for part in (path, name, KEY) if part))
    return names


def _hash(numbers: torch.Tensor) -> torch.Tensor:
    """Mix numbers below 2**32 well, in int64 and without overflow."""
    for _ in range(2):
        numbers = ((numbers ^ (numbers >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return numbers ^ (numbers >> 16)
