"""Peers with data of their own: the samples of files as datasets of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coterie.data.own_files.divide_rows import Division, Parts
from coterie.data.own_files.owned_samples import OwnedSamples
from coterie.data.peer_datasets import NO_CLUSTERS, PeerDatasets
from coterie.data.pools import PeerSamples, Pool, Samples
from coterie.processes.shared_memory import shared_array
from coterie.tasks import Task, TaskSettings

FARTHEST = 10.0
"""Standardised numbers are limited to this many standard deviations from the mean."""
Values = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Scale:
    """The mean and the standard deviation of numbers."""

    mean: float
    deviation: float


class OwnedPeers(PeerDatasets):
    """Peers whose data lie in files; it is not known which of them are similar."""

    has_true_clusters = False
    cluster_names = NO_CLUSTERS

    def __init__(
        self,
        samples: OwnedSamples,
        division: Division,
        *,
        rounds: int,
        task: TaskSettings | None = None,
    ) -> None:
        self._division = division
        self._rounds = rounds
        self.num_peers = len(division.peers)
        self.peer_names = tuple(samples.peer_names[peer] for peer in division.peers)
        self.input_shape = tuple(samples.inputs.shape[1:])
        self.is_classification = bool(samples.classes)
        self.num_outputs = len(samples.classes) or 1
        self.classes = samples.classes
        self.target_scale = None if samples.classes else self._scale_of_targets(samples)
        """Of values to predict, over the training rows of all peers; None for classes."""
        self.task = (task or TaskSettings()).make(self._suggest_task())
        self.notes = (*samples.notes, *division.notes)
        self.pools = [self._fill_pool(samples)]

    @property
    def num_steps(self) -> int:
        """The number of steps: windows of time that peers train on."""
        return len(self._division.steps)

    @property
    def sizes(self) -> tuple[int, int]:
        """Training and validation samples per peer: means over peers and steps."""
        parts = [part for step in self._division.steps for part in step]
        train, validation = (
            np.mean([len(getattr(part, name)) for part in parts])
            for name in ("train", "validation")
        )
        return round(train), round(validation)

    def step_of(self, round_number: int) -> int:
        """Return the step of a round: rounds are divided equally among the windows of time."""
        step = max(round_number - 1, 0) * self.num_steps // max(self._rounds, 1)
        return min(step, self.num_steps - 1)

    def clusters(self, step: int) -> npt.NDArray[np.int64]:
        """Return one cluster: true clusters are unknown."""
        return np.zeros(self.num_peers, np.int64)

    def load_step(self, step: int) -> list[PeerSamples]:
        """Return each peer's views of the pool."""
        return self._views[step]

    def _suggest_task(self) -> Task:
        """Return classes, or the root of the squared error in the units of the label."""
        if self.target_scale is None:
            return Task("cross-entropy")
        return Task("mse", "rmse", unit=self.target_scale.deviation)

    def _scale_of_targets(self, samples: OwnedSamples) -> Scale:
        rows = np.concatenate([part.train for part in self._division.steps[0]])
        values = samples.targets[rows].astype(np.float64)
        return Scale(float(values.mean()), float(values.std()) or 1.0)

    def _fill_pool(self, samples: OwnedSamples) -> Pool:
        """Copy all samples in use into shared memory, peer by peer, and note the views."""
        order, self._views = _arrange(self._division)
        kind = np.int64 if samples.inputs.dtype.kind == "i" else np.float32
        inputs = shared_array((len(order), *self.input_shape), kind)
        targets = shared_array((len(order),), np.int64 if self.is_classification else np.float32)
        inputs[:] = samples.inputs[order]
        targets[:] = samples.targets[order]
        if self.target_scale is not None:
            targets[:] = (targets - self.target_scale.mean) / self.target_scale.deviation
        if samples.scaled is not None:
            self._standardise(inputs, samples.scaled)
        return Pool(inputs, targets)

    def _standardise(self, inputs: Values, columns: npt.NDArray[np.int64]) -> None:
        """Standardise each peer's numbers by its training samples of the first step."""
        for peer, first in enumerate(self._views[0]):
            last = self._views[-1][peer]
            mine = slice(first.train.start, last.test.stop)
            train = inputs[first.train.start : first.train.stop, columns]
            inputs[mine, columns] = standardise(inputs[mine, columns], train)


def standardise(values: Values, train: Values) -> Values:
    """Return (values − mean) / deviation of the training rows; 0 for what has neither.

    Missing values (NaN) and columns that are constant in training become 0. Other values are
    limited to ±10 deviations, so that a rare extreme does not break training.
    """
    known = ~np.isnan(train)
    count = np.maximum(known.sum(axis=0), 1)
    exact = np.where(known, train, 0).astype(np.float64)
    mean = exact.sum(axis=0) / count
    deviation = np.sqrt((np.where(known, exact - mean, 0) ** 2).sum(axis=0) / count)
    varies = deviation > 1e-6 * np.maximum(np.abs(mean), 1e-30)
    scaled = (values - mean) / np.where(varies, deviation, 1)
    usable = varies & ~np.isnan(values)
    return np.where(usable, np.clip(scaled, -FARTHEST, FARTHEST), 0).astype(np.float32)


def _arrange(division: Division) -> tuple[npt.NDArray[np.int64], list[list[PeerSamples]]]:
    """Return the rows in the order of the pool, and each peer's views in each step.

    A peer's rows lie together. The test rows of a window are the samples of the next one, so they
    are stored once.
    """
    order: list[npt.NDArray[np.int64]] = []
    views: list[list[PeerSamples]] = [[] for _ in division.steps]
    end = 0
    for peer in range(len(division.peers)):
        steps = [step[peer] for step in division.steps]
        for number, part in enumerate(steps):
            views[number].append(_views_of(part, end))
            end += len(part.train) + len(part.validation)
            order += [part.train, part.validation]
        order.append(steps[-1].test)
        end += len(steps[-1].test)
    return np.concatenate(order), views


def _views_of(part: Parts, start: int) -> PeerSamples:
    ends = start + np.cumsum([len(part.train), len(part.validation), len(part.test)])
    middle, end, last = (int(each) for each in ends)
    return PeerSamples(Samples(0, start, middle), Samples(0, middle, end), Samples(0, end, last))
