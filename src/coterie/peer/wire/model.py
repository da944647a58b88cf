"""A model as peers exchange it, and the protocol's enumerations of parts and phases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]


class Part(IntEnum):
    """The parts of a payload; the numbers are those of the protocol."""

    MODEL = 0
    MESSAGE = 1
    LAST_UPDATE = 2
    TOTAL_UPDATE = 3


class Phase(IntEnum):
    """The progress of a peer within a round; the numbers are those of the protocol."""

    ENTERED = 0
    SENT = 1
    PUBLISHED = 2


ONLY_MODEL = frozenset({Part.MODEL})


@dataclass(frozen=True)
class Model:
    """A model to send or just received: vectors (P,) by part, and the strategy's message.

    The message names peers by their ids: the array "peers" holds them as bytes (n, 32).
    """

    vectors: Mapping[Part, Vector]
    message: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    own: Vector | None = None
    """This peer's whole model, if its buffers are local; never sent."""
