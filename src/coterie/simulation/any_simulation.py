"""What a simulation offers to those that run it: in one process, or divided into shards."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from coterie.data.peer_datasets import PeerDatasets
from coterie.learning.trainer import Matrix
from coterie.runtime.round_runner import AnyRun
from coterie.runtime.settings import SimulationSettings
from coterie.simulation.guesses import TestGuess


class AnySimulation(AnyRun, Protocol):
    """All peers of a run."""

    datasets: PeerDatasets
    settings: SimulationSettings

    @property
    def poisoned(self) -> npt.NDArray[np.bool_]:
        """Which peers are poisoned in some round, (K,); results do not include them."""

    @property
    def frozen_digest(self) -> str:
        """The SHA-256 of what is frozen in the models; empty if nothing is."""

    def best_models(self) -> Matrix:
        """Return a copy of every peer's best model, (K, P)."""

    def validate_best(self) -> npt.NDArray[np.float64]:
        """Return validation losses and scores of the best models, (2, K)."""

    def validate_untrained(self) -> npt.NDArray[np.float64]:
        """Return validation losses and scores of the initial models, (2, K).

        They replace the working models, so this is for finished runs.
        """

    def guess_tests(self) -> list[TestGuess] | None:
        """Return the best constant answer for each peer's test data; None if there is none."""
