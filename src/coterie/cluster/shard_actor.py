"""The actor on a node of a cluster that has one shard of a run."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from coterie.cluster.shipping import RunParcel
from coterie.data.peer_datasets import PeerDatasets
from coterie.experiments.config import build_model
from coterie.runtime.settings import SimulationSettings
from coterie.simulation.shards.shard import Shard
from coterie.simulation.shards.shard_plan import ShardPlan
from coterie.simulation.shards.shard_runtime import Kind, Sent, Served, Wanted
from coterie.strategies import make_strategy
from coterie.strategies.server.server_strategy import ServerStrategy
from coterie.strategies.strategy import Strategy


@dataclass(frozen=True)
class RunParts:
    """What a simulation is made of."""

    datasets: PeerDatasets
    build: Callable[[], nn.Module]
    make_strategy: Callable[[], Strategy | ServerStrategy]
    settings: SimulationSettings


class Recipe(Protocol):
    """How a node makes the parts of a run."""

    def make(self, folder: Path) -> RunParts:
        """Return the parts; temporary files go into `folder`."""


@dataclass(frozen=True)
class ParcelRecipe:
    """A run that a configuration describes."""

    parcel: RunParcel

    def make(self, folder: Path) -> RunParts:
        """Return the parts; temporary files go into `folder`."""
        parcel = self.parcel.open_on_node(folder)
        config, datasets = parcel.config, parcel.make_datasets()
        return RunParts(
            datasets,
            lambda: build_model(config, datasets.num_outputs),
            lambda: make_strategy(config.strategy["name"], config.strategy_options()),
            config,
        )


@dataclass(frozen=True)
class Opened:
    """What a shard says when it is ready."""

    trainer: str
    """Shards with equal names give the same bits."""
    messages: tuple[str, ...]
    """For the user."""


class ShardActor:
    """A Ray actor with one shard; its methods are called by `ray_shards`."""

    def __init__(self) -> None:
        self._scratch = Path(tempfile.mkdtemp(prefix="coterie-shard-"))
        self._opened: Shard | None = None

    def open(self, recipe: Recipe, plan: ShardPlan, place: int, threads: int) -> Opened:
        """Make the shard at this place of a plan."""
        import torch

        torch.set_num_threads(1)
        messages: list[str] = []
        parts = recipe.make(self._scratch)
        self._opened = Shard(
            parts.datasets,
            parts.build,
            parts.make_strategy,
            parts.settings,
            plan,
            place,
            threads=threads,
            tell=messages.append,
        )
        return Opened(self._opened.state.trainer.name, tuple(messages))

    @property
    def _shard(self) -> Shard:
        if self._opened is None:
            raise RuntimeError("The shard is not open.")
        return self._opened

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of the shard."""
        return getattr(self._shard, method)(*arguments, **named)

    def collect(self, kind: Kind, num_shards: int) -> list[Any]:
        """Return the shards that are needed, and what is wanted of each shard."""
        wanted = self._shard.collect(kind)
        return [tuple(wanted), *(wanted.get(place) for place in range(num_shards))]

    def serve(self, wanted: Wanted) -> Served:
        """Return what another shard wants."""
        return self._shard.serve(wanted)

    def record_watched(self, *served: Served) -> None:
        """Record what watched peers measure, with the models of all others."""
        self._shard.record_watched(*served)

    def answer(self, kind: Kind, batch: int, num_shards: int, *served: Served) -> list[Any]:
        """Return the next kind and the shards something was sent to, and what each is sent."""
        next_kind, sent = self._shard.answer(kind, batch, *served)
        return [(next_kind, tuple(sent)), *(sent.get(place) for place in range(num_shards))]

    def accept(self, sent: Sent) -> None:
        """Take what peers of another shard sent."""
        self._shard.accept(sent)

    def end_shard(self) -> None:
        """End the trainer and free the memory, so that another shard can be opened."""
        if self._opened is not None:
            self._opened.__exit__()
            self._opened = None

    def close(self) -> None:
        """Delete temporary files; the process ends after this."""
        shutil.rmtree(self._scratch, ignore_errors=True)
