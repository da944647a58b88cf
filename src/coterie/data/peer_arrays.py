"""The user's own arrays as datasets of peers: each peer has training, validation and test data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.data.labelled_dataset import check_samples
from coterie.data.peer_datasets import PeerDatasets
from coterie.data.pools import PeerSamples, Pool, Samples
from coterie.errors import ConfigError, DataError
from coterie.processes.shared_memory import shared_array

Part = tuple[npt.ArrayLike, npt.ArrayLike]
"""Inputs (n, *shape) and targets (n,): integers to classify, floats for regression."""
PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class PeerData:
    """The data of one peer. Each part is (inputs, targets): arrays or CPU tensors.

    Parameters
    ----------
    train, validation, test
        Inputs, (n, ...), and targets, (n,): integers for classification, floats for regression.
        Scale inputs to about [-1, 1] beforehand.

    Examples
    --------
    >>> inputs, targets = np.zeros((20, 8), np.float32), np.arange(20) % 2
    >>> data = PeerData(train=(inputs, targets), validation=(inputs, targets))
    >>> data.test is None
    True
    """

    train: Part | None = None
    validation: Part | None = None
    test: Part | None = None


class PeerArrays(PeerDatasets):
    """Data in arrays, which do not change during a run.

    Inputs are not scaled: scale images to about [-1, 1] beforehand.
    """

    def __init__(self, peers: Sequence[PeerData], clusters: Sequence[int] | None = None) -> None:
        if not peers:
            raise ConfigError("The list of peers is empty. Give the data of at least one peer.")
        self.num_peers = len(peers)
        self._clusters = np.asarray(clusters if clusters is not None else [0] * len(peers))
        is_wrong = self._clusters.shape != (len(peers),) or self._clusters.dtype.kind not in "iu"
        if is_wrong or self._clusters.min() < 0:
            raise ConfigError(
                f"clusters is {self._clusters.tolist()}, but a list of {len(peers)} whole numbers "
                "from 0 is needed: the cluster of each peer."
            )
        self.cluster_names = tuple(f"cluster {n}" for n in range(int(self._clusters.max()) + 1))
        inputs, targets = _to_arrays("Peer 0, train data", peers[0].train)
        self.input_shape = tuple(inputs.shape[1:])
        self.is_classification = targets.dtype.kind in "iu"
        parts = [
            [self._checked(f"Peer {number}, {name} data", getattr(peer, name)) for name in PARTS]
            for number, peer in enumerate(peers)
        ]
        self.pools = [self._pool([part for mine in parts for part in mine])]
        ends = np.cumsum([len(targets) for mine in parts for _, targets in mine]).tolist()
        views = [Samples(0, start, end) for start, end in zip([0, *ends], ends, strict=False)]
        self._views = [PeerSamples(*views[3 * n : 3 * n + 3]) for n in range(len(peers))]
        highest = int(self.pools[0].targets.max())
        self.num_outputs = highest + 1 if self.is_classification else 1

    def step_of(self, round_number: int) -> int:
        """Return 0, the only step."""
        return 0

    def clusters(self, step: int) -> npt.NDArray[np.int64]:
        """Return the user's clusters, (K,)."""
        return self._clusters

    def load_step(self, step: int) -> list[PeerSamples]:
        """Return each peer's views."""
        return self._views

    def _checked(
        self, where: str, part: Part | None
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[Any]]:
        samples, labels = _to_arrays(where, part)
        if (labels.dtype.kind in "iu") != self.is_classification:
            kinds = "whole numbers (classes)", "floats (values to predict)"
            given, expected = kinds if labels.dtype.kind in "iu" else kinds[::-1]
            raise DataError(
                f"{where}: targets are {given}, but the train data of peer 0 has {expected}. Use "
                "the same type for all peers and parts."
            )
        if labels.ndim != 1 or samples.shape[1:] != self.input_shape:
            hint = ""
            if labels.ndim == 2:
                hint = " Give one target per sample: targets.argmax(axis=1) for one-hot labels, or "
                hint += "targets.squeeze(1) for a single column."
            shape = "".join(f", {size}" for size in self.input_shape)
            raise DataError(
                f"{where}: inputs have shape {samples.shape} and targets {labels.shape}, but "
                f"(n{shape}) and (n,) were expected.{hint}"
            )
        check_samples(where, samples, labels)
        if self.is_classification and labels.min() < 0:
            raise DataError(
                f"{where}: label {labels.min()} is negative. Number the classes from 0."
            )
        return samples, labels

    def _pool(self, parts: list[tuple[npt.NDArray[np.float32], npt.NDArray[Any]]]) -> Pool:
        """Copy all data into memory that worker processes share."""
        rows = sum(len(targets) for _, targets in parts)
        pool = Pool(
            shared_array((rows, *self.input_shape), np.float32),
            shared_array((rows,), np.int64 if self.is_classification else np.float32),
        )
        np.concatenate([inputs for inputs, _ in parts], out=pool.inputs)
        np.concatenate([targets for _, targets in parts], out=pool.targets, casting="unsafe")
        return pool


def _to_arrays(where: str, part: Part | None) -> tuple[npt.NDArray[np.float32], npt.NDArray[Any]]:
    """Return inputs as float32, and targets with their type; booleans become integers."""
    if part is None:
        raise DataError(f"{where} is missing. Give a pair (inputs, targets).")
    if not isinstance(part, tuple | list) or len(part) != 2:
        shape = getattr(part, "shape", None)
        given = f"array of shape {tuple(shape)}" if shape is not None else type(part).__name__
        raise DataError(f"{where} is one {given}. Give a pair (inputs, targets).")
    inputs, targets = part
    try:
        # A value that is too large becomes infinite; `check_samples` then reports its sample.
        with np.errstate(over="ignore"):
            samples, labels = np.asarray(inputs, dtype=np.float32), np.asarray(targets)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"{where}: inputs and targets must be arrays of numbers, of one shape per sample. "
            f"Converting them failed: {error}"
        ) from None
    if labels.dtype.kind == "b":
        labels = labels.astype(np.int64)
    if samples.ndim == 0 or labels.dtype.kind not in "iuf":
        raise DataError(
            f"{where}: inputs have shape {samples.shape} and targets have type {labels.dtype}, but "
            "an array of samples, and whole numbers (classes) or floats (values to predict) are "
            "needed. To number classes: np.unique(labels, return_inverse=True)[1]."
        )
    return samples, labels
