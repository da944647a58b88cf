"""The part of a model's vector that peers exchange: all of it, or all but its buffers."""

from __future__ import annotations

import numpy as np

from coterie.models.layout import Layout
from coterie.models.vector import Vector


class ExchangedPart:
    """Takes what is sent from a model's vector (P,), and puts what was received into one.

    With local buffers each peer keeps its own: they are neither merged nor sent.
    """

    def __init__(self, model: Layout, *, has_local_buffers: bool) -> None:
        self._model = model
        has_buffers = not all(each.trainable for each in model.entries)
        self.is_whole = not (has_local_buffers and has_buffers)
        self.layout = model if self.is_whole else model.without_buffers()
        """The layout of what is sent."""

    def slices(self, depth: int | None = None) -> tuple[slice, ...]:
        """Return what is exchanged of a model's last `depth` layers (None: all)."""
        return (self._model.last_layers if self.is_whole else self._model.trainable_slices)(depth)

    def take(self, model: Vector) -> Vector:
        """Return what is sent of a model: the model itself if all of it is."""
        return model if self.is_whole else np.concatenate([model[part] for part in self.slices()])

    def fill(self, received: Vector, own: Vector) -> Vector:
        """Return the model that was received, with the local buffers of `own`."""
        if self.is_whole:
            return received
        model = own.copy()
        start = 0
        for part in self.slices():
            stop = start + part.stop - part.start
            model[part] = received[start:stop]
            start = stop
        return model
