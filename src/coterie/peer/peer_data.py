"""The data and the model of one real peer."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from coterie.data.npz import read_peer
from coterie.data.peer_arrays import PeerArrays, PeerData, TakesIntegers
from coterie.data.peer_datasets import PeerDatasets
from coterie.data.pools import PeerSamples, Samples
from coterie.errors import ConfigError, DataError
from coterie.learning.module_calls import integer_check
from coterie.models.architectures import architecture, check_fits
from coterie.peer.peer_config import DataStep, PeerConfig, PeerModelSettings, PeerTaskSettings
from coterie.tasks import Task


class LocalPeerData(PeerDatasets):
    """The data of one peer, which may change from one round to the next."""

    def __init__(
        self,
        steps: Sequence[PeerData],
        begins: Sequence[int],
        task: Task | None = None,
        takes_integers: TakesIntegers | None = None,
    ) -> None:
        first = PeerArrays([steps[0]], None, task, takes_integers)
        self.task = first.task
        parts = [first]
        for data, begin in zip(steps[1:], begins[1:], strict=True):
            with _explained(begin):
                parts.append(PeerArrays([data], None, self.task, takes_integers))
        for number, part in enumerate(parts):
            if (part.input_shape, part.is_classification) != (
                first.input_shape,
                first.is_classification,
            ):
                raise DataError(
                    f"The data from round {begins[number]} on differ from those of round 0: "
                    f"samples of shape {part.input_shape} instead of {first.input_shape}, or "
                    "values instead of classes. Expected the same shape and type of targets."
                )
        self.num_peers = 1
        self.has_true_clusters = False
        self.cluster_names = ("unknown",)
        self.input_shape = first.input_shape
        self.is_classification = first.is_classification
        self.num_outputs = max(part.num_outputs for part in parts)
        self.pools = [pool for part in parts for pool in part.pools]
        self._begins = np.asarray(begins)
        self._views = [_in_pool(part.load_step(0)[0], place) for place, part in enumerate(parts)]

    def step_of(self, round_number: int) -> int:
        """Return the data step of a round."""
        return int(np.searchsorted(self._begins, round_number, side="right")) - 1

    def clusters(self, step: int) -> npt.NDArray[np.int64]:
        """Return one cluster: a real peer does not know the true clusters."""
        return np.zeros(1, np.int64)

    def load_step(self, step: int) -> list[PeerSamples]:
        """Return the peer's samples in a step."""
        return [self._views[step]]


@contextmanager
def _explained(begin: int) -> Iterator[None]:
    """Say of which step the data cannot be used."""
    try:
        yield
    except (ConfigError, DataError) as error:
        raise DataError(
            f"The data from round {begin} on differ from those of round 0: {error}"
        ) from None


def _in_pool(views: PeerSamples, pool: int) -> PeerSamples:
    """Return the same samples as views of another pool."""
    return PeerSamples(
        *(
            Samples(pool, view.start, view.stop)
            for view in (views.train, views.validation, views.test)
        )
    )


def read_local_data(config: PeerConfig, folder: Path) -> LocalPeerData:
    """Read all data named in peer.yaml, which lies in `folder`."""
    takes_integers = None
    if config.model.function is not None:
        build = import_function(config.model.function, folder, "model.function")
        takes_integers = integer_check(build)
    return LocalPeerData(
        [_read(step, folder) for step in config.data],
        [step.round for step in config.data],
        _task_of(config.task, folder),
        takes_integers,
    )


def _task_of(settings: PeerTaskSettings, folder: Path) -> Task | None:
    """Return the task named in peer.yaml; None if the data decide."""
    if settings.function is not None:
        made = import_function(settings.function, folder, "task.function")()
        if not isinstance(made, Task):
            raise ConfigError(
                f"task.function = {settings.function} returned {type(made).__name__}. Expected a "
                "coterie.Task."
            )
        return made
    if settings.file is not None:
        raise ConfigError(
            f"task.file = {settings.file} is for coterie run. A peer's own task is a function that "
            "returns it: task.function = module:function."
        )
    if settings.loss is None:
        if settings != PeerTaskSettings():
            raise ConfigError("task: a score or metrics need task.loss too, such as cross-entropy.")
        return None
    return settings.make(Task(settings.loss))


def model_builder(
    settings: PeerModelSettings, data: PeerDatasets, folder: Path
) -> Callable[[], nn.Module]:
    """Return a function that builds the model."""
    if settings.function is not None:
        build = import_function(settings.function, folder, "model.function")
        if not isinstance(build(), nn.Module):
            raise ConfigError(f"model.function = {settings.function} returns no new torch module.")
        return build
    named = architecture(str(settings.name))
    check_fits(named, data.input_shape)
    outputs = settings.outputs or (named.default_outputs if data.is_classification else 1)
    if data.num_outputs > outputs:
        raise ConfigError(
            f"model.outputs is {outputs}, but the labels of this peer go up to "
            f"{data.num_outputs - 1}. Set it to the number of classes over all peers."
        )
    return lambda: named.build(outputs)


def import_function(name: str, folder: Path, setting: str) -> Callable[[], Any]:
    """Return the function that a setting names as module:function."""
    module_name, _, function_name = name.partition(":")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        found = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{setting} = {name} cannot be found: {error}. Expected a function of a module in "
            f"{folder} or of an installed package."
        ) from None
    if not callable(found):
        raise ConfigError(f"{setting} = {name} is not a function. Expected module:function.")
    return found  # type: ignore[no-any-return]


def _read(step: DataStep, folder: Path) -> PeerData:
    if step.file is not None:
        return read_peer(folder / step.file)
    found = import_function(str(step.function), folder, "data.function")()
    if not isinstance(found, PeerData):
        raise ConfigError(
            f"data.function = {step.function} returned {type(found).__name__}. Expected a "
            "coterie.PeerData."
        )
    return found
