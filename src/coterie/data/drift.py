"""Drift: how the peers' data change during a run.

A step is a number of rounds with the same data; round 0, the initial training, belongs to step 0.
Each kind of drift sets the concept (cluster) of each peer in each step.
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

# Concept 1 spreads from the left: the counts are the columns that have it at t0..t9.
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
    """The data stay the same."""

    kind: Literal["none"] = "none"

    def clusters(self, start: Clusters, num_steps: int, seed: int) -> list[Clusters]:
        """Return the clusters of the only step."""
        return [start]

    def num_steps(self, rounds: int) -> int:
        """Return 1: all rounds are one step."""
        return 1

    def step_of(self, round_number: int) -> int:
        """Return 0, the only step."""
        return 0


class _Stepped(Settings):
    every: int = Field(ge=1)
    """Rounds per step."""

    def num_steps(self, rounds: int) -> int:
        """Return the number of steps in the rounds."""
        return self.step_of(rounds) + 1

    def step_of(self, round_number: int) -> int:
        """Return the step of a round: rounds 1 to `every` are step 0."""
        return max(round_number - 1, 0) // self.every


class RandomDrift(_Stepped):
    """At each step the clusters are dealt to the peers again at random."""

    kind: Literal["random"] = "random"

    def clusters(self, start: Clusters, num_steps: int, seed: int) -> list[Clusters]:
        """Return the start, then a permutation of it per step."""
        shuffled = [generator(seed, "drift", step).permutation(start) for step in range(num_steps)]
        return [start, *shuffled[1:]]


class _Patterned(_Stepped):
    """Peer i follows column i mod columns; after the last row the data stay the same."""

    @abstractmethod
    def rows(self) -> Matrix:
        """Return the concept of each column, a row per step."""

    def clusters(self, start: Clusters, num_steps: int, seed: int) -> list[Clusters]:
        """Return one row per step, repeated over the peers."""
        rows = self.rows()
        widths = {len(row) for row in rows}
        if len(widths) != 1 or 0 in widths:
            raise ConfigError(
                f"drift.matrix: all rows must have the same length, but they have {sorted(widths)}."
            )
        width = widths.pop()
        if len(start) % width and len(start) > width:
            raise ConfigError(
                f"The drift has {width} columns, so peers.count must be a multiple of "
                f"{width}, but it is {len(start)}."
            )
        column = np.arange(len(start)) % width
        return [np.array(row, dtype=np.int64)[column] for row in rows[:num_steps]]

    def step_of(self, round_number: int) -> int:
        """Return the step of a round; the last row stays."""
        return min(super().step_of(round_number), len(self.rows()) - 1)


class MatrixDrift(_Patterned):
    """Your own matrix: the concept of each column in each step."""

    kind: Literal["matrix"] = "matrix"
    matrix: Matrix = Field(min_length=1)
    """One row per step; peer i follows column i mod columns."""

    def rows(self) -> Matrix:
        """Return the user's matrix."""
        return self.matrix


class FedDrift2(_Patterned):
    """FedDrift's pattern of two concepts over ten columns and ten steps."""

    kind: Literal["feddrift-2"] = "feddrift-2"

    def rows(self) -> Matrix:
        """Return rows in which concept 1 spreads over the columns."""
        return FEDDRIFT_2


class FedDrift4(_Patterned):
    """FedDrift's pattern of four concepts over ten columns and ten steps."""

    kind: Literal["feddrift-4"] = "feddrift-4"

    def rows(self) -> Matrix:
        """Return rows in which concepts appear, end and return."""
        return FEDDRIFT_4


Drift = Annotated[
    NoDrift | RandomDrift | MatrixDrift | FedDrift2 | FedDrift4, Field(discriminator="kind")
]
