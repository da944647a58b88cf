"""Samples that belong to peers, as all kinds of files give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class OwnedSamples:
    """Samples of all peers, in the order of the file."""

    where: str
    """The file, for messages."""
    inputs: npt.NDArray[Any]
    """(n, *shape), float32, or int64 for tokens; NaN where a value of a table is missing."""
    targets: npt.NDArray[Any]
    """(n,): int64 classes, or float32 values."""
    classes: tuple[str, ...]
    """The names of the classes; empty for regression."""
    owners: Rows
    """(n,): the number of the peer that each sample belongs to."""
    peer_names: tuple[str, ...]
    """The names of the peers, by their numbers."""
    times: Rows | None = None
    """(n,): the position of each sample in time; None if there is no time."""
    parts: Rows | None = None
    """(n,): 0 for training, 1 for validation, 2 for the test; None: they are divided later."""
    scaled: Rows | None = None
    """The columns of a table with numbers, which each peer standardises; None: inputs stay."""
    notes: tuple[str, ...] = ()
    """What was decided or left out, for the user."""


def number_owners(names: Sequence[Any] | npt.NDArray[Any]) -> tuple[Rows, tuple[str, ...]]:
    """Return each sample's peer number, and the peers' names; numbers are in their own order."""
    found, owners = np.unique(np.asarray(names), return_inverse=True)
    return owners.reshape(-1).astype(np.int64), tuple(str(name) for name in found.tolist())


def count_of(number: int, what: str) -> str:
    """Return a count with its noun: 1 row, 2 rows."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
