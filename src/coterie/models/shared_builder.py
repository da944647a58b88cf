"""Builds the modules of one run: they all share one frozen part, and start from keyed seeds."""

from __future__ import annotations

import gc
from collections.abc import Callable

from torch import nn

from coterie.models.frozen_part import FrozenPart
from coterie.models.layout import Layout
from coterie.models.vector import Vector, initial_vector, seeded_module, vector_of
from coterie.randomness import Key, key_bits

Build = Callable[[], nn.Module]


class SharedBuilder:
    """A function that builds modules, whose frozen part exists once in this process.

    The frozen part is that of the module with the run's seed. So all processes and all real peers
    with the same seed have the same one, also if it has random weights.
    """

    def __init__(self, build: Build, seed: int) -> None:
        self._build = build
        self.seed = seed
        module = seeded_module(build, key_bits(seed, "initial weights"))
        self.layout = Layout.of(module)
        self.frozen = FrozenPart.of(module)
        self._common: Vector = vector_of(module)

    @classmethod
    def of(cls, build: Build | SharedBuilder, seed: int) -> SharedBuilder:
        """Return the builder of a run with this seed; one that exists is used again."""
        if isinstance(build, SharedBuilder) and build.seed == seed:
            return build
        return cls(build, seed)

    def __call__(self) -> nn.Module:
        """Return a new module with the shared frozen part."""
        module = self._build()
        self.frozen.share_with(module)
        self._release()
        return module

    def initial_vector(self, key: Key | None = None) -> Vector:
        """Return the initial weights (P,): those of a key, or those that all peers share."""
        if key is None:
            return self._common
        start = initial_vector(self._build, key_bits(self.seed, "initial weights", key))
        self._release()
        return start

    def _release(self) -> None:
        """Free the frozen part that a new module was built with."""
        # Some libraries' modules refer to themselves, so only the collector frees them.
        if not self.frozen.is_empty:
            gc.collect()
