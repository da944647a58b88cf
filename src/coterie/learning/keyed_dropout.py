"""Dropout with random numbers from a key, so that models trained together are independent.

torch draws masks from one generator per device, so the masks of a model would depend on the other
models. Here the random number of a value is a hash of its position and a key, equal on all devices.
"""

from __future__ import annotations

import torch
from torch import nn

KEY = "key"
WORDS = 2
"""A key has two numbers below 2**32."""


class KeyedDropout(nn.Module):
    """nn.Dropout with random numbers from the buffer `key` (2,)."""

    key: torch.Tensor

    def __init__(self, probability: float) -> None:
        super().__init__()
        self._probability = probability
        self.register_buffer(KEY, torch.zeros(WORDS, dtype=torch.int64), persistent=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """In training, set random values of `inputs` to zero and scale the others up."""
        if not self.training or self._probability == 0.0:
            return inputs
        if self._probability == 1.0:
            return inputs * 0.0
        places = torch.arange(inputs.numel(), device=inputs.device).view(inputs.shape)
        numbers = _hash(_hash((places + self.key[0]) & 0xFFFFFFFF) ^ self.key[1])
        kept = numbers >= round(self._probability * 2**32)
        return inputs * kept / (1.0 - self._probability)


def key_dropout(module: nn.Module) -> list[str]:
    """Replace each nn.Dropout in a module; return the names of the buffers with keys.

    Other random layers stay; torch.func refuses to run them.
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
    """Hash numbers below 2**32, in int64 without overflow."""
    for _ in range(2):
        numbers = ((numbers ^ (numbers >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return numbers ^ (numbers >> 16)
