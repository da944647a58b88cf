"""Poisoned peers: who they are, and what they do to their labels, strategies and models.

They take part like everybody else and train honestly inside, so that what they publish is near
what honest peers expect. Nobody's results count them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.attacks.impostors import DeludedImpostor, Liar
from coterie.attacks.poison_settings import PoisonSettings
from coterie.data.peer_datasets import World
from coterie.data.pools import PeerSamples, Pool, Samples
from coterie.errors import ConfigError
from coterie.learning.trainer import Matrix
from coterie.models.layout import Layout
from coterie.processes.shared_memory import shared_array
from coterie.randomness import Key, generator
from coterie.strategies.server.server_strategy import ServerStrategy
from coterie.strategies.strategy import Strategy

Mask = npt.NDArray[np.bool_]
FORGERIES = frozenset({"sign-flip", "noise", "stale"})
"""Kinds that publish another model than the one they trained."""


class Poisoning:
    """The poisoned peers of one run."""

    def __init__(
        self,
        settings: PoisonSettings,
        world: World,
        layout: Layout,
        keys: Sequence[Key],
        seed: int,
    ) -> None:
        self._settings = settings
        self._seed = seed
        self._world = world
        self._layout = layout
        self._keys = keys
        self.peers: Mask = poisoned_peers(settings, world, seed)
        """Who is poisoned sooner or later, (K,)."""
        self._num_pools = len(world.pools)
        self.pools = self._mislabelled_pools()
        """The world's pools; where labels are flipped, followed by each with other labels."""
        self._merged: dict[int, Matrix] = {}
        """What poisoned peers will train in this round, before they do."""

    def has_begun(self, round_number: int) -> bool:
        """Whether poisoned peers misbehave in a round."""
        return self._settings.kind != "none" and round_number >= self._settings.from_round

    def relabels(self, round_number: int) -> bool:
        """Whether labels are flipped for the first time in a round."""
        return self._settings.kind == "label-flip" and round_number == self._settings.from_round

    def present(self, round_number: int) -> Mask:
        """Return who has not been removed from the network, (K,)."""
        if self._settings.kind == "absent" and self.has_begun(round_number):
            return ~self.peers
        return np.ones_like(self.peers)

    def impostors(self, strategies: list[Strategy]) -> list[Strategy]:
        """Return each peer's strategy: honest ones, or what poisoned peers have instead."""
        kinds = {"delusional": DeludedImpostor, "liar": Liar}
        if self._settings.kind not in kinds:
            return strategies
        impostor = kinds[self._settings.kind]
        return [
            impostor(strategy, self._settings.from_round) if poisoned else strategy
            for strategy, poisoned in zip(strategies, self.peers, strict=True)
        ]

    def labelled(self, samples: list[PeerSamples], round_number: int) -> list[PeerSamples]:
        """Return the peers' data as they see them in a round."""
        if self._settings.kind != "label-flip" or not self.has_begun(round_number):
            return samples
        # Pools are filled anew in every step of a drift, so their labels are turned round anew.
        for honest, flipped in zip(self._world.pools, self.pools[self._num_pools :], strict=True):
            highest = self._world.num_outputs - 1 if self._world.is_classification else 0
            np.subtract(highest, honest.targets, out=flipped.targets, casting="unsafe")
        return [
            self._mislabelled(mine) if poisoned else mine
            for mine, poisoned in zip(samples, self.peers, strict=True)
        ]

    def _mislabelled(self, samples: PeerSamples) -> PeerSamples:
        train, validation = (self._moved(part) for part in (samples.train, samples.validation))
        return PeerSamples(train, validation, samples.test)

    def _moved(self, samples: Samples) -> Samples:
        return replace(samples, pool=samples.pool + self._num_pools)

    def _mislabelled_pools(self) -> list[Pool]:
        """Return room for labels that differ; the inputs are the same memory."""
        pools = self._world.pools
        if self._settings.kind != "label-flip":
            return pools
        others = [
            Pool(pool.inputs, shared_array(pool.targets.shape, pool.targets.dtype))
            for pool in pools
        ]
        return [*pools, *others]

    def forges(self, round_number: int) -> Mask:
        """Return who publishes something else than its working model, (K,)."""
        if self._settings.kind in FORGERIES and self.has_begun(round_number):
            return self.peers
        return np.zeros_like(self.peers)

    def is_stale(self, peer: int, round_number: int) -> bool:
        """Whether a peer publishes nothing new."""
        return self._settings.kind == "stale" and bool(self.forges(round_number)[peer])

    def note_merged(self, peer: int, round_number: int, merged: Matrix) -> None:
        """Keep a model (P,) that is about to be trained, if its update will be flipped."""
        if self._settings.kind == "sign-flip" and self.forges(round_number)[peer]:
            self._merged[peer] = merged.copy()

    def forge(self, peer: int, round_number: int, trained: Matrix, published: Matrix) -> None:
        """Write what a poisoned peer publishes instead of what it trained, both (P,).

        What is not trained, such as running variances, stays as it is: a negative one would give
        any forger away.
        """
        if self._settings.kind == "stale":
            return
        published[:] = trained
        if self._settings.kind == "sign-flip":
            merged = self._merged.pop(peer, trained)
            for part in self._layout.trainable_slices():
                published[part] = merged[part] - (trained[part] - merged[part])
        else:
            random = generator(self._seed, "poisoned noise", self._keys[peer], round_number)
            for entry in self._layout.entries:
                if entry.trainable:
                    _add_noise(published[entry.start : entry.stop], random)

    def save(self, published: Matrix) -> Matrix:
        """Return the models that poisoned peers have published, which others' are not like."""
        return published[self.peers]

    def restore(self, published: Matrix, saved: Matrix) -> None:
        """Take back what `save` returned."""
        published[self.peers] = saved


def check_poison(
    poison: PoisonSettings, world: World, strategy: Strategy | ServerStrategy, seed: int
) -> None:
    """Refuse poison that cannot work with these peers or this strategy."""
    if poison.kind == "none":
        return
    if isinstance(strategy, ServerStrategy):
        raise ConfigError(
            f"poison.kind = {poison.kind} needs peers that exchange models, but strategy "
            f"'{strategy.name}' has a server in the middle. Leave poison out, or use another "
            "strategy."
        )
    if poison.kind == "delusional" and len(world.cluster_names) < 2:
        raise ConfigError(
            "poison.kind = delusional needs at least two true clusters, but here is only one: "
            "nobody could be mistaken. Choose another kind, or a shift."
        )
    if poisoned_peers(poison, world, seed).all():
        raise ConfigError(
            f"poison would leave none of the {world.num_peers} peers honest, so there would be no "
            "results. Use a smaller poison.share or poison.count."
        )


def poisoned_peers(poison: PoisonSettings, world: World, seed: int) -> Mask:
    """Return who is poisoned, (K,): a draw that depends on nothing but the seed and the peers."""
    poisoned = np.zeros(world.num_peers, dtype=bool)
    if poison.kind == "none":
        return poisoned
    candidates = _candidates(poison, world)
    count = _count(poison, len(candidates))
    # Those that a delusional Oracle has too, so that both experiments can be compared.
    in_order = poison.kind == "delusional" and poison.cluster is not None
    if not in_order:
        candidates = generator(seed, "poisoned").permutation(candidates)
    poisoned[candidates[:count]] = True
    return poisoned


def _candidates(poison: PoisonSettings, world: World) -> npt.NDArray[np.int64]:
    if poison.cluster is None:
        return np.arange(world.num_peers)
    num_clusters = len(world.cluster_names)
    if poison.cluster >= num_clusters:
        raise ConfigError(
            f"poison.cluster is {poison.cluster}, but the {num_clusters} true clusters are "
            f"numbered 0 to {num_clusters - 1}."
        )
    members: npt.NDArray[np.int64] = np.flatnonzero(world.clusters(0) == poison.cluster)
    if not len(members):
        raise ConfigError(
            f"poison.cluster is {poison.cluster}, but nobody begins in this true cluster. Name one "
            f"of {', '.join(map(str, np.unique(world.clusters(0))))}."
        )
    return members


def _count(poison: PoisonSettings, num_candidates: int) -> int:
    if poison.share is not None:
        return math.floor(poison.share * num_candidates + 0.5)
    count = poison.count or 0
    if count > num_candidates:
        whose = "" if poison.cluster is None else f" that begin in cluster {poison.cluster}"
        raise ConfigError(
            f"poison.count is {count}, but there are only {num_candidates} peers{whose}. Use at "
            f"most {num_candidates}, or poison.share."
        )
    return count


def _add_noise(values: npt.NDArray[Any], random: np.random.Generator) -> None:
    """Add normal noise to one tensor's values (n,), as wide as they are."""
    values += values.std() * random.standard_normal(len(values), dtype=np.float32)
