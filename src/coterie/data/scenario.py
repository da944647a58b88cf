"""A scenario: which data each peer has, and when it changes. All strategies see the same one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from coterie.data.drift import Drift, NoDrift
from coterie.data.images import normalise, rotate
from coterie.data.labelled_dataset import Dataset, Inputs, Targets
from coterie.data.partition import (
    DirichletLabels,
    EqualSizes,
    IidLabels,
    Labels,
    ListedSizes,
    Sizes,
    Split,
    cluster_of_peers,
    matching_test_rows,
    split,
)
from coterie.data.peer_datasets import PeerDatasets
from coterie.data.pools import PeerSamples, Pool, Samples
from coterie.data.shifts import Concept, check_labels
from coterie.errors import ConfigError, DataError
from coterie.processes.shared_memory import shared_array
from coterie.randomness import generator
from coterie.settings import Settings
from coterie.tasks import Task, TaskSettings

CHUNK = 2048
"""How many images are normalised and rotated at once, which bounds the memory."""


class PeerSettings(Settings):
    """How many peers there are and how much data each has."""

    count: int = Field(40, ge=1)
    """How many peers (K)."""
    clusters: tuple[Annotated[float, Field(ge=0)], ...] | None = None
    """Relative cluster sizes; equal when not given."""
    train_size: int = Field(ge=1)
    """Training samples per peer; the mean where sizes differ."""
    validation_size: int = Field(ge=1)
    """Validation samples per peer."""
    test_size: int | None = Field(None, ge=1)
    """Test samples per cluster; all of the dataset when not given."""
    sizes: Sizes = EqualSizes()
    labels: Labels = IidLabels()

    @property
    def num_samples(self) -> int:
        """The number of samples of all peers for training and validation."""
        listed = self.sizes.listed if isinstance(self.sizes, ListedSizes) else ()
        return (sum(listed) or self.train_size * self.count) + self.validation_size * self.count


@dataclass(frozen=True)
class _Step:
    clusters: npt.NDArray[np.int64]
    splits: list[Split]

    @property
    def num_rows(self) -> int:
        return sum(len(part.train) + len(part.validation) for part in self.splits)


class Scenario(PeerDatasets):
    """Peers in clusters: a shift defines the concepts, and drift moves peers between them."""

    def __init__(
        self,
        sources: Sequence[Dataset],
        concepts: Sequence[Concept],
        peers: PeerSettings,
        drift: Drift | None = None,
        *,
        rounds: int = 0,
        seed: int = 0,
        task: TaskSettings | None = None,
    ) -> None:
        self._sources = list(sources)
        self._concepts = list(concepts)
        self._settings = peers
        self._drift = drift or NoDrift()
        self._check()
        self.num_peers = peers.count
        self.cluster_names = tuple(concept.name for concept in concepts)
        self.input_shape = sources[0].shape
        self.is_classification = sources[0].is_classification
        suggested = Task("cross-entropy" if self.is_classification else "mse")
        self.task = (task or TaskSettings()).make(suggested)
        self.task.check_targets(sources[0].name, sources[0].targets)
        self.num_outputs = max(
            (len(sources[c.source].classes) or 1) + c.label_offset for c in concepts
        )
        self._steps = self._plan(rounds, seed)
        self.pools = [self._new_private_pool()]
        self._test = self._add_test_pools(seed)

    def detach(self) -> None:
        """After a fork, stop sharing the pool that each step overwrites; the others stay shared."""
        if len(self._steps) > 1:
            self.pools[0] = self._new_private_pool()

    def step_of(self, round_number: int) -> int:
        """Return the step of a round."""
        return self._drift.step_of(round_number)

    def clusters(self, step: int) -> npt.NDArray[np.int64]:
        """Return each peer's true cluster in a step, (K,)."""
        return self._steps[step].clusters

    def load_step(self, step: int) -> list[PeerSamples]:
        """Fill the private pool with the data of a step and return each peer's views."""
        return self.load_part(step, range(self.num_peers))

    def load_part(self, step: int, numbers: range) -> list[PeerSamples]:
        """Fill the private pool with the data of some peers and return their views."""
        plan = self._steps[step]
        views: dict[int, PeerSamples] = {}
        position = 0
        here = slice(numbers.start, numbers.stop)
        for number, concept in enumerate(self._concepts):
            members = (numbers.start + np.flatnonzero(plan.clusters[here] == number)).tolist()
            start = position
            for peer in members:
                part = plan.splits[peer]
                middle = position + len(part.train)
                end = middle + len(part.validation)
                views[peer] = PeerSamples(
                    Samples(0, position, middle),
                    Samples(0, middle, end),
                    self._test_of(number, part),
                )
                position = end
            rows = [
                rows
                for peer in members
                for rows in (plan.splits[peer].train, plan.splits[peer].validation)
            ]
            if rows:
                source = self._sources[concept.source]
                self._fill(
                    self.pools[0],
                    start,
                    np.concatenate(rows),
                    concept,
                    source.inputs,
                    source.targets,
                )
        return [views[peer] for peer in numbers]

    def _check(self) -> None:
        shapes = {source.shape for source in self._sources}
        if len(shapes) > 1 or len({source.is_classification for source in self._sources}) > 1:
            raise ConfigError(
                "All datasets of a run must have samples of the same shape and the same type of "
                f"targets: classes, or values to predict. These have shapes {sorted(shapes)}: "
                f"{', '.join(source.name for source in self._sources)}."
            )
        if any(concept.rotation for concept in self._concepts) and len(next(iter(shapes))) != 3:
            raise ConfigError(
                f"shift.kind = rotation needs images, but {self._sources[0].name} has samples of "
                f"shape {self._sources[0].shape}."
            )
        check_labels(self._concepts, self._sources)

    def _check_number_of_samples(self) -> None:
        """Refuse more samples than the sources have, before anything is planned for the peers."""
        available = sum(len(source.targets) for source in self._sources)
        asked, count = self._settings.num_samples, self._settings.count
        if asked > available:
            names = ", ".join(dict.fromkeys(source.name for source in self._sources))
            raise DataError(
                f"{count:,} peers ask for {asked:,} images of {names} for training and validation, "
                f"but there are only {available:,}: {available / count:.1f} for each. Lower "
                "peers.train_size, peers.validation_size or peers.count."
            )

    def _plan(self, rounds: int, seed: int) -> list[_Step]:
        """Return the rows of each peer in each step; no image is read yet."""
        settings = self._settings
        self._check_number_of_samples()
        start = cluster_of_peers(settings.count, len(self._concepts), settings.clusters)
        sizes = settings.sizes.sizes(settings.train_size, settings.count, generator(seed, "sizes"))
        steps = []
        for step, clusters in enumerate(
            self._drift.clusters(start, self._drift.num_steps(rounds), seed)
        ):
            unknown = clusters[(clusters < 0) | (clusters >= len(self._concepts))]
            if len(unknown):
                raise ConfigError(
                    f"The drift uses concept {unknown[0]}, but the shift has only "
                    f"{len(self._concepts)} (numbered from 0)."
                )
            splits = split(
                self._sources,
                self._concepts,
                clusters,
                sizes,
                settings.validation_size,
                settings.labels,
                generator(seed, "split", step),
            )
            steps.append(_Step(clusters, splits))
        return steps

    def _new_private_pool(self) -> Pool:
        """Return pool 0, for the peers' private data, with space for the largest step."""
        return self._new_pool(max(step.num_rows for step in self._steps))

    def _new_pool(self, rows: int) -> Pool:
        return Pool(
            shared_array((rows, *self.input_shape), np.float32),
            shared_array((rows,), np.int64 if self.is_classification else np.float32),
        )

    def _add_test_pools(self, seed: int) -> list[Samples]:
        """Add one pool of test data per concept; concepts with the same inputs share them."""
        inputs_of: dict[tuple[object, ...], Inputs] = {}
        views = []
        for concept in self._concepts:
            source = self._sources[concept.source]
            rows = concept.candidates(source.test_targets)
            if self._settings.test_size is not None and not self._has_label_mixes:
                shuffled = generator(seed, "test", concept.source).permutation(rows)
                rows = np.sort(shuffled[: self._settings.test_size])
            key = (concept.source, concept.rotation, concept.labels)
            if key in inputs_of:
                meaning = concept.relabel(source.test_targets[rows])
                self.pools.append(Pool(inputs_of[key], meaning))
            else:
                pool = self._new_pool(len(rows))
                self._fill(pool, 0, rows, concept, source.test_inputs, source.test_targets)
                self.pools.append(pool)
                inputs_of[key] = pool.only_inputs
            views.append(Samples(len(self.pools) - 1, 0, len(rows)))
        return views

    @property
    def _has_label_mixes(self) -> bool:
        """Whether label proportions, and with them the test rows, differ between peers."""
        return isinstance(self._settings.labels, DirichletLabels) and self.is_classification

    def _test_of(self, cluster: int, part: Split) -> Samples:
        """Return test data with the peer's distribution: its cluster and its label proportions."""
        test = self._test[cluster]
        if not self._has_label_mixes:
            return test
        concept = self._concepts[cluster]
        mine = concept.relabel(self._sources[concept.source].targets[part.train])
        targets = self.pools[test.pool].targets
        chosen = matching_test_rows(mine, targets, self._settings.test_size)
        return Samples(test.pool, test.start, test.stop, chosen)

    def _fill(
        self,
        pool: Pool,
        start: int,
        rows: npt.NDArray[np.int64],
        concept: Concept,
        inputs: Inputs,
        targets: Targets,
    ) -> None:
        """Normalise, rotate and relabel rows of a source, and write them into a pool."""
        for first in range(0, len(rows), CHUNK):
            chunk = rows[first : first + CHUNK]
            images = normalise(inputs[chunk])
            if concept.rotation:
                images = rotate(images, concept.rotation)
            place = slice(start + first, start + first + len(chunk))
            pool.only_inputs[place] = images
            meaning = targets[chunk]
            pool.targets[place] = concept.relabel(meaning) if self.is_classification else meaning
