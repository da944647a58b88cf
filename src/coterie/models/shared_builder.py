"""Builds the modules of one run: they all share one frozen part, and start from keyed seeds."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

from torch import nn

from coterie.models.frozen_part import FrozenPart
from coterie.models.layout import Layout
from coterie.models.vector import Vector, seeded_module, vector_of
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
        return module

    def initial_vector(self, key: Key | None = None) -> Vector:
        """Return the initial weights (P,): those of a key, or those that all peers share."""
        if key is None:
            return self._common
        module = seeded_module(self._build, key_bits(self.seed, "initial weights", key))
        start, reference = vector_of(module), weakref.ref(module)
        del module
        # Some libraries' modules refer to themselves, so only the collector frees their backbone.
        if reference() is not None and not self.frozen.is_empty:
            gc.collect()
        return start
