"""Shifts: how the clusters' data differ. Each kind of shift defines one `Concept` per cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from coterie.data.cifar100_names import CIFAR100_SUPERCLASSES
from coterie.data.labelled_dataset import Dataset
from coterie.errors import ConfigError, DataError, suggest
from coterie.randomness import generator
from coterie.settings import Settings


@dataclass(frozen=True)
class Concept:
    """How the data of one cluster are made from a source."""

    name: str
    source: int = 0
    rotation: float = 0.0
    labels: tuple[int, ...] | None = None
    swaps: tuple[tuple[int, int], ...] = ()
    label_offset: int = 0

    def candidates(self, targets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the rows of targets with the labels of this concept."""
        if self.labels is None:
            return np.arange(len(targets))
        return np.flatnonzero(np.isin(targets, self.labels))

    def relabel(self, targets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the labels after the swaps and the offset."""
        meaning = targets.copy()
        for first, second in self.swaps:
            meaning[targets == first] = second
            meaning[targets == second] = first
        return meaning + self.label_offset


class NoShift(Settings):
    """The data of all peers come from one distribution."""

    kind: Literal["none"] = "none"

    def concepts(self, sources: Sequence[Dataset], seed: int) -> tuple[Concept, ...]:
        """Return a single concept."""
        return (Concept("all"),)


class RotationShift(Settings):
    """Each cluster's images are rotated by another angle."""

    kind: Literal["rotation"] = "rotation"
    angles: tuple[float, ...] = Field(min_length=1)
    """One angle per cluster, in degrees, counter-clockwise."""

    def concepts(self, sources: Sequence[Dataset], seed: int) -> tuple[Concept, ...]:
        """Return one concept per angle."""
        return tuple(Concept(f"{angle:g}°", rotation=angle) for angle in self.angles)


class LabelShift(Settings):
    """Each cluster has only the samples of some labels."""

    kind: Literal["labels"] = "labels"
    groups: tuple[Annotated[tuple[int, ...], Field(min_length=1)], ...] = Field(min_length=1)
    """The labels of each cluster."""

    def concepts(self, sources: Sequence[Dataset], seed: int) -> tuple[Concept, ...]:
        """Return one concept per group of labels."""
        return tuple(label_concept(group) for group in self.groups)


class RandomLabelShift(Settings):
    """Each cluster has only the samples of some labels: disjoint random sets of `size` labels."""

    kind: Literal["random-labels"] = "random-labels"
    groups: int = Field(2, ge=1)
    """The number of clusters."""
    size: int = Field(4, ge=1)
    """Labels per cluster."""
    labels: tuple[int, ...] = tuple(range(10))
    """The labels to draw from."""

    def concepts(self, sources: Sequence[Dataset], seed: int) -> tuple[Concept, ...]:
        """Return one concept per drawn set of labels."""
        wanted = self.groups * self.size
        labels = tuple(dict.fromkeys(self.labels))
        if wanted > len(labels):
            raise ConfigError(
                f"shift: {self.groups} disjoint groups of {self.size} labels need {wanted} labels, "
                f"but shift.labels has only {len(labels)}. Lower shift.groups or shift.size."
            )
        drawn = generator(seed, "random-labels").permutation(labels)[:wanted]
        groups = drawn.reshape(self.groups, self.size).tolist()
        return tuple(label_concept(tuple(sorted(group))) for group in groups)


class SuperclassShift(Settings):
    """Each cluster has only the images of some CIFAR-100 superclasses (the true coarse labels)."""

    kind: Literal["superclasses"] = "superclasses"
    groups: tuple[Annotated[tuple[str, ...], Field(min_length=1)], ...] = Field(min_length=1)
    """The superclasses of each cluster, by their official names."""

    def concepts(self, sources: Sequence[Dataset], seed: int) -> tuple[Concept, ...]:
        """Return one concept per group of superclasses."""
        number = {name: index for index, name in enumerate(sources[0].classes)}
        made = []
        for position, group in enumerate(self.groups):
            names = [name for superclass in group for name in _members(superclass)]
            missing = [name for name in names if name not in number]
            if missing:
                raise DataError(
                    f"{sources[0].name} has no class '{missing[0]}'. shift.kind = superclasses "
                    "needs a dataset with the class names of CIFAR-100."
                )
            labels = tuple(sorted(number[name] for name in names))
            made.append(Concept(f"group {position + 1}", labels=labels))
        return tuple(made)


class LabelSwapShift(Settings):
    """All clusters have the same images, but in some clusters pairs of labels are swapped."""

    kind: Literal["label-swap"] = "label-swap"
    labels: tuple[int, ...] | None = None
    """The labels that are used; all when not given."""
    swaps: tuple[tuple[tuple[int, int], ...], ...] = Field(min_length=1)
    """The swapped pairs of each cluster."""

    def concepts(self, sources: Sequence[Dataset], seed: int) -> tuple[Concept, ...]:
        """Return one concept per set of swapped pairs; an empty set swaps nothing."""
        for pairs in self.swaps:
            named = [label for pair in pairs for label in pair]
            if len(named) != len(set(named)):
                raise ConfigError(
                    f"shift.swaps: {pairs} has a label twice. In one cluster each label can be "
                    "swapped with only one other."
                )
        return tuple(
            Concept(
                "swap " + " ".join(f"{a}↔{b}" for a, b in pairs) if pairs else "no swap",
                labels=self.labels,
                swaps=pairs,
            )
            for pairs in self.swaps
        )


class DatasetShift(Settings):
    """Each cluster has another dataset, with its labels moved by an offset."""

    kind: Literal["datasets"] = "datasets"
    label_offsets: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    """A number to add to the labels of each dataset; 0 when not given."""

    def concepts(self, sources: Sequence[Dataset], seed: int) -> tuple[Concept, ...]:
        """Return one concept per dataset."""
        offsets = self.label_offsets or (0,) * len(sources)
        if len(offsets) != len(sources):
            raise ConfigError(
                f"shift.label_offsets has {len(offsets)} numbers for {len(sources)} datasets. "
                "Give one for each dataset."
            )
        return tuple(
            Concept(source.name, source=index, label_offset=offset)
            for index, (source, offset) in enumerate(zip(sources, offsets, strict=True))
        )


Shift = Annotated[
    NoShift
    | RotationShift
    | LabelShift
    | RandomLabelShift
    | SuperclassShift
    | LabelSwapShift
    | DatasetShift,
    Field(discriminator="kind"),
]


def label_concept(labels: tuple[int, ...]) -> Concept:
    """Return the concept of one label group."""
    return Concept("labels " + ",".join(map(str, labels)), labels=labels)


def _members(superclass: str) -> tuple[str, ...]:
    if superclass not in CIFAR100_SUPERCLASSES:
        raise ConfigError(
            f"CIFAR-100 has no superclass '{superclass}'."
            f"{suggest(superclass, CIFAR100_SUPERCLASSES)}"
        )
    return CIFAR100_SUPERCLASSES[superclass]


def check_labels(concepts: Sequence[Concept], sources: Sequence[Dataset]) -> None:
    """Raise a DataError if a group of labels or a swap has a label without images."""
    for number, concept in enumerate(concepts):
        source = sources[concept.source]
        if not source.is_classification:
            continue
        swapped = {label for pair in concept.swaps for label in pair}
        for label in sorted({*(concept.labels or ()), *swapped}):
            for part, targets in (("train", source.targets), ("test", source.test_targets)):
                if not np.any(targets == label):
                    raise DataError(
                        f"Cluster {number} ('{concept.name}') needs label {label}, but "
                        f"{source.name} has no {part} image with it. Its labels are 0 to "
                        f"{len(source.classes) - 1}."
                    )
