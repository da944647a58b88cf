"""The user's own arrays as datasets of peers: each peer has training, validation and test data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from coterie.data.convert_samples import ConvertedPart, as_targets_of, convert_part, pad_to
from coterie.data.holdout import random_holdout, stratified_holdout
from coterie.data.labelled_dataset import check_samples
from coterie.data.peer_datasets import PeerDatasets
from coterie.data.pools import (
    Array,
    ModelInputs,
    PeerSamples,
    Pool,
    Samples,
    list_inputs,
    map_inputs,
)
from coterie.errors import ConfigError, DataError
from coterie.processes.shared_memory import shared_array
from coterie.randomness import generator
from coterie.tasks import Task, task_for

Part: TypeAlias = Any
"""A pair (inputs, targets), or a dataset of such pairs; see `PeerData`."""
PARTS = ("train", "validation", "test")
TakesIntegers: TypeAlias = Callable[[ModelInputs], bool]


@dataclass(frozen=True)
class PeerData:
    """The data of one peer.

    Parameters
    ----------
    train, validation, test
        A pair (inputs, targets) of arrays, tensors, lists or data frames, with samples in the first
        dimension. Inputs may be several arrays: a tuple, or a dict of arguments of the model's
        `forward`. Whole numbers, such as tokens, stay whole numbers; sequences of unequal lengths
        are padded with zeros. Or a torch or Hugging Face dataset. Scale inputs to about [-1, 1]
        beforehand. Without validation or test data, a fifth of the training data is held out.

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

    def __init__(
        self,
        peers: Sequence[PeerData],
        clusters: Sequence[int] | None = None,
        task: Task | None = None,
        takes_integers: TakesIntegers | None = None,
    ) -> None:
        """Copy the peers' data; without a task, the targets of peer 0 decide what it is.

        If the model does not take whole numbers as inputs, they become floats.
        """
        if not peers:
            raise ConfigError("The list of peers is empty. Give the data of at least one peer.")
        self.num_peers = len(peers)
        self._clusters = _checked_clusters(clusters, len(peers))
        self.cluster_names = tuple(f"cluster {n}" for n in range(int(self._clusters.max()) + 1))
        self.held_out = tuple(
            name for name in PARTS[1:] if any(getattr(each, name) is None for each in peers)
        )
        """The parts that were taken from the training data of some peer."""
        parts = _alike(
            [part for number, each in enumerate(peers) for part in _parts_of(number, each)]
        )
        first = parts[0]
        self.task = task or _task_for(first.targets)
        if takes_integers is not None and not takes_integers(first.inputs):
            parts = [replace(part, inputs=map_inputs(_as_floats, part.inputs)) for part in parts]
            first = parts[0]
        self._first = replace(first, targets=as_targets_of(self.task.loss, first.targets))
        self.input_shape = tuple(list_inputs(first.inputs)[0].shape[1:])
        parts = [self._checked(_where(place), part) for place, part in enumerate(parts)]
        self.pools = [_pool(parts)]
        ends = np.cumsum([len(part.targets) for part in parts]).tolist()
        views = [Samples(0, start, end) for start, end in zip([0, *ends], ends, strict=False)]
        self._views = [PeerSamples(*views[3 * n : 3 * n + 3]) for n in range(len(peers))]
        targets = self.pools[0].targets
        self.is_classification = targets.dtype == np.int64
        each = int(np.prod(targets.shape[1:]))
        self.num_outputs = int(targets.max()) + 1 if self.is_classification else each

    def step_of(self, round_number: int) -> int:
        """Return 0, the only step."""
        return 0

    def clusters(self, step: int) -> npt.NDArray[np.int64]:
        """Return the user's clusters, (K,)."""
        return self._clusters

    def load_step(self, step: int) -> list[PeerSamples]:
        """Return each peer's views."""
        return self._views

    def _checked(self, where: str, part: ConvertedPart) -> ConvertedPart:
        """Return a part with targets of the task's type; refuse what differs from peer 0."""
        if (part.targets.dtype.kind == "i") != (self._first.targets.dtype.kind == "i") and (
            self.task.loss == "cross-entropy" or not isinstance(self.task.loss, str)
        ):
            kinds = "whole numbers (classes)", "floats (values to predict)"
            given, expected = kinds if part.targets.dtype.kind == "i" else kinds[::-1]
            raise DataError(
                f"{where}: targets are {given}, but the train data of peer 0 has {expected}. Use "
                "the same type for all peers and parts."
            )
        targets = as_targets_of(self.task.loss, part.targets)
        if _kinds(part.inputs) != _kinds(self._first.inputs) or (
            targets.shape[1:] != self._first.targets.shape[1:]
        ):
            raise DataError(
                f"{where}: inputs are {_shapes(part.inputs)} and targets {_shape(targets)}, but "
                f"{_shapes(self._first.inputs)} and {_shape(self._first.targets)} were expected, "
                "as in the train data of peer 0."
            )
        for array in list_inputs(part.inputs):
            check_samples(where, array, targets)
        if self.task.loss == "cross-entropy" and targets.ndim == 1 and targets.min() < 0:
            raise DataError(
                f"{where}: label {targets.min()} is negative. Number the classes from 0."
            )
        self.task.check_targets(where, targets)
        return replace(part, targets=targets)


def _checked_clusters(clusters: Sequence[int] | None, count: int) -> npt.NDArray[np.int64]:
    checked = np.asarray(clusters if clusters is not None else [0] * count)
    is_wrong = checked.shape != (count,) or checked.dtype.kind not in "iu"
    if is_wrong or checked.min() < 0:
        raise ConfigError(
            f"clusters is {checked.tolist()}, but a list of {count} whole numbers from 0 is "
            "needed: the cluster of each peer."
        )
    return checked


def _where(place: int) -> str:
    """Return the name of a part, for errors."""
    return f"Peer {place // len(PARTS)}, {PARTS[place % len(PARTS)]} data"


def _parts_of(number: int, peer: PeerData) -> list[ConvertedPart]:
    """Return the training, validation and test data of a peer, held out where missing."""
    first = number * len(PARTS)
    if peer.train is None:
        raise DataError(f"{_where(first)} is missing. Give a pair (inputs, targets).")
    train = convert_part(_where(first), peer.train)
    rest = []
    for place, name in enumerate(PARTS[1:], first + 1):
        part = getattr(peer, name)
        if part is None:
            train, held_out = _hold_out(_where(first), train, f"hold out {name}", number)
            rest.append(held_out)
        else:
            rest.append(convert_part(_where(place), part))
    return [train, *rest]


def _hold_out(
    where: str, part: ConvertedPart, purpose: str, number: int
) -> tuple[ConvertedPart, ConvertedPart]:
    """Divide a part in two; each class has a fifth of its samples in the second."""
    if len(list_inputs(part.inputs)[0]) != len(part.targets):
        check_samples(where, list_inputs(part.inputs)[0], part.targets)
    if len(part.targets) < 2:
        raise DataError(
            f"{where}: {len(part.targets)} sample is too few to hold one out for validation or "
            "test. Give more training data, or all three parts."
        )
    random = generator(0, purpose, number)
    is_classes = part.targets.dtype == np.int64 and part.targets.ndim == 1
    kept, held_out = stratified_holdout(part.targets, random) if is_classes else ((), ())
    if not len(held_out):
        kept, held_out = random_holdout(len(part.targets), random)
    return _rows(part, kept), _rows(part, held_out)


def _rows(part: ConvertedPart, rows: npt.NDArray[np.intp] | tuple[()]) -> ConvertedPart:
    numbers = np.asarray(rows, np.intp)
    inputs = map_inputs(lambda each: each[numbers], part.inputs)
    return replace(part, inputs=inputs, targets=part.targets[numbers])


def _alike(parts: list[ConvertedPart]) -> list[ConvertedPart]:
    """Give all parts the same types of inputs, and sequences of one length if some differed.

    Inputs are floats if those of any part are. What cannot be made alike is refused later.
    """
    kinds = [[(each.dtype, each.ndim) for each in list_inputs(part.inputs)] for part in parts]
    if len({tuple(ndim for _, ndim in kind) for kind in kinds}) > 1:
        return parts
    if any(kind != kinds[0] for kind in kinds):
        parts = [replace(part, inputs=map_inputs(_as_floats, part.inputs)) for part in parts]
    if not any(part.had_unequal_lengths for part in parts):
        return parts
    of_parts = [
        [each.shape[1] if each.ndim > 1 else 0 for each in list_inputs(part.inputs)]
        for part in parts
    ]
    longest = [max(lengths) for lengths in zip(*of_parts, strict=True)]
    return [replace(part, inputs=pad_to(part.inputs, longest)) for part in parts]


def _task_for(targets: Array) -> Task:
    """Return the task that targets suggest; refuse those that may mean two things."""
    if targets.ndim == 2 and np.isin(targets, (0, 1)).all() and (targets.sum(axis=1) == 1).all():
        raise DataError(
            f"The targets of peer 0 have shape {targets.shape} with a single 1 in each row. If "
            "these are classes, give targets.argmax(axis=1). If they are labels of which a sample "
            "may have several, add task='bce'."
        )
    return task_for(targets)


def _as_floats(array: Array) -> Array:
    return array.astype(np.float32)


def _shape(array: Array) -> str:
    sizes = "".join(f", {size}" for size in array.shape[1:])
    return f"(n{sizes or ','})"


def _shapes(inputs: ModelInputs) -> str:
    """Return the types and shapes of inputs, for errors."""
    if isinstance(inputs, dict):
        return ", ".join(f"{name}: {each.dtype} {_shape(each)}" for name, each in inputs.items())
    return ", ".join(f"{each.dtype} {_shape(each)}" for each in list_inputs(inputs))


def _kinds(inputs: ModelInputs) -> list[tuple[Any, ...]]:
    """Return what must be equal for all peers: names, types and shapes."""
    names = list(inputs) if isinstance(inputs, dict) else range(len(list_inputs(inputs)))
    arrays = list_inputs(inputs)
    return [(name, each.dtype, each.shape[1:]) for name, each in zip(names, arrays, strict=True)]


def _pool(parts: Sequence[ConvertedPart]) -> Pool:
    """Copy all data into memory that worker processes share."""
    targets = _joined([part.targets for part in parts])
    first = parts[0].inputs
    if isinstance(first, dict):
        named = [part.inputs for part in parts if isinstance(part.inputs, dict)]
        return Pool({name: _joined([each[name] for each in named]) for name in first}, targets)
    columns = zip(*(list_inputs(part.inputs) for part in parts), strict=True)
    joined = tuple(_joined(list(arrays)) for arrays in columns)
    return Pool(joined if isinstance(first, tuple) else joined[0], targets)


def _joined(arrays: Sequence[Array]) -> Array:
    shape = (sum(map(len, arrays)), *arrays[0].shape[1:])
    joined = shared_array(shape, arrays[0].dtype)
    np.concatenate(arrays, out=joined)
    return joined
