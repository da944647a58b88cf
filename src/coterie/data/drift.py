"""Drift: how peers' distributions change at round boundaries.

Time is cut into steps of `every` rounds; round 0, the initial training, belongs to step 0. Each
kind says which concept (cluster) every peer has in every step.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from coterie.errors import ConfigError
from coterie.randomness import generator
from coterie.settings import Settings

Clusters = npt.NDArray[np.int64]
Matrix = tuple[tuple[int, ...], ...]

# How many of ten columns are on concept 1, filled from the left, at t0..t9.
FEDDRIFT_2: Matrix = tuple(
    tuple(int(column < count) for column in range(10)) for count in (0, 0, 0, 2, 5, 6, 8, 8, 10, 10)
)
# The concept of columns 0 to 9 at t0..t9.
FEDDRIFT_4: Matrix = (
    (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    (1, 1, 1, 2, 2, 2, 0, 0, 0, 0),
    (1, 1, 1, 2, 2, 2, 0, 0, 3, 0),
    (2, 2, 1, 1, 2, 2, 2, 1, 3, 0),
    (2, 2, 2, 1, 2, 3, 2, 1, 3, 0),
    (2, 3, 2, 1, 1, 3, 3, 1, 3, 3),
    (3, 3, 2, 3, 1, 3, 3, 2, 1, 3),
    (3, 0, 3, 3, 3, 1, 3, 2, 1, 3),
    (0, 0, 3, 3, 3, 1, 2, 2, 2, 3),
)


class NoDrift(Settings):
    """The distributions stay as they are."""

    kind: Literal["none"] = "none"

    def clusters(self, start: Clusters, num_steps: int, seed: int) -> list[Clusters]:
        """One step."""
        return [start]

    def num_steps(self, rounds: int) -> int:
        """One step, however long."""
        return 1

    def step_of(self, round_number: int) -> int:
        """Always the first step."""
        return 0


class _Stepped(Settings):
    every: int = Field(ge=1)
    """Rounds per step."""

    def num_steps(self, rounds: int) -> int:
        """Return how many steps the rounds reach."""
        return self.step_of(rounds) + 1

    def step_of(self, round_number: int) -> int:
        """Return the step a round belongs to: rounds 1..every are step 0, and so on."""
        return max(round_number - 1, 0) // self.every


class RandomDrift(_Stepped):
    """At each boundary the cluster numbers are reshuffled among the peers."""

    kind: Literal["random"] = "random"

    def clusters(self, start: Clusters, num_steps: int, seed: int) -> list[Clusters]:
        """The start, then one reshuffle of it per boundary."""
        shuffled = [generator(seed, "drift", step).permutation(start) for step in range(num_steps)]
        return [start, *shuffled[1:]]


class _Patterned(_Stepped):
    """Peer i follows column i mod columns; after the last row nothing changes any more."""

    @abstractmethod
    def rows(self) -> Matrix:
        """Return the concept of each column, a row per step."""

    def clusters(self, start: Clusters, num_steps: int, seed: int) -> list[Clusters]:
        """One row per step, repeated over the peers."""
        rows = self.rows()
        widths = {len(row) for row in rows}
        if len(widths) != 1 or 0 in widths:
            raise ConfigError(f"drift.matrix: all rows must be equally long, not {sorted(widths)}.")
        width = widths.pop()
        if len(start) % width and len(start) > width:
            raise ConfigError(
                f"drift '{type(self).__name__}' has {width} columns, so the number of peers must "
                f"be a multiple of {width}, not {len(start)}."
            )
        column = np.arange(len(start)) % width
        return [np.array(row, dtype=np.int64)[column] for row in rows[:num_steps]]

    def step_of(self, round_number: int) -> int:
        """Return the step of a round; the last row stays."""
        return min(super().step_of(round_number), len(self.rows()) - 1)


class MatrixDrift(_Patterned):
    """A user-given matrix: the concept of each column in each step."""

    kind: Literal["matrix"] = "matrix"
    matrix: Matrix = Field(min_length=1)
    """One row per step; peer i follows column i mod columns."""

    def rows(self) -> Matrix:
        """Return what the user gave."""
        return self.matrix


class FedDrift2(_Patterned):
    """FedDrift's pattern of two concepts over ten columns and ten steps."""

    kind: Literal["feddrift-2"] = "feddrift-2"

    def rows(self) -> Matrix:
        """Concept 1 spreads over the columns."""
        return FEDDRIFT_2


class FedDrift4(_Patterned):
    """FedDrift's pattern of four concepts over ten columns and ten steps."""

    kind: Literal["feddrift-4"] = "feddrift-4"

    def rows(self) -> Matrix:
        """Concepts come, go and come back."""
        return FEDDRIFT_4


Drift = Annotated[
    NoDrift | RandomDrift | MatrixDrift | FedDrift2 | FedDrift4, Field(discriminator="kind")
]
