"""Poisoned peers: their choice, and how they change their labels, strategies and models.

They train honestly, so that their published models are similar to those of honest peers. Results do
not include them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.attacks.impostors import Liar, WrongClusterImpostor
from coterie.attacks.poison_settings import PoisonSettings
from coterie.data.peer_datasets import PeerDatasets
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
"""The kinds that publish another model than they trained."""


class Poisoning:
    """The poisoned peers of one run."""

    def __init__(
        self,
        settings: PoisonSettings,
        datasets: PeerDatasets,
        layout: Layout,
        keys: Sequence[Key],
        seed: int,
    ) -> None:
        self._settings = settings
        self._seed = seed
        self._datasets = datasets
        self._layout = layout
        self._keys = keys
        self._everywhere = poisoned_peers(settings, datasets, seed)
        first = datasets.first_peer
        self.peers: Mask = self._everywhere[first : first + datasets.num_peers]
        """Which peers of this runtime are poisoned in some round, (K,)."""
        self._num_pools = len(datasets.pools)
        self.pools = self._mislabelled_pools()
        """The pools of the data; with flipped labels, also a copy of each with other labels."""
        self._merged: dict[int, Matrix] = {}
        """Models of poisoned peers before this round's training."""

    def is_active(self, round_number: int) -> bool:
        """Return whether poisoned peers are hostile in a round."""
        return self._settings.kind != "none" and round_number >= self._settings.from_round

    def starts_flipping(self, round_number: int) -> bool:
        """Return whether labels are flipped from this round on."""
        return self._settings.kind == "label-flip" and round_number == self._settings.from_round

    def present_peers(self, round_number: int) -> Mask:
        """Return which peers of the whole network have not left it, (K,)."""
        if self._settings.kind == "absent" and self.is_active(round_number):
            return ~self._everywhere
        return np.ones_like(self._everywhere)

    def wrap_strategies(self, strategies: list[Strategy]) -> list[Strategy]:
        """Return each peer's strategy; those of poisoned peers are wrapped."""
        kinds = {"delusional": WrongClusterImpostor, "liar": Liar}
        if self._settings.kind not in kinds:
            return strategies
        impostor = kinds[self._settings.kind]
        return [
            impostor(strategy, self._settings.from_round) if poisoned else strategy
            for strategy, poisoned in zip(strategies, self.peers, strict=True)
        ]

    def flip_labels(self, samples: list[PeerSamples], round_number: int) -> list[PeerSamples]:
        """Return the peers' data in a round, with flipped labels for poisoned peers."""
        if self._settings.kind != "label-flip" or not self.is_active(round_number):
            return samples
        # A drift fills the pools again in every step, so their labels are flipped again.
        for honest, flipped in zip(
            self._datasets.pools, self.pools[self._num_pools :], strict=True
        ):
            highest = self._highest_label()
            np.subtract(highest, honest.targets, out=flipped.targets, casting="unsafe")
        return [
            self._mislabelled(mine) if poisoned else mine
            for mine, poisoned in zip(samples, self.peers, strict=True)
        ]

    def _highest_label(self) -> int:
        """Return what targets are subtracted from: values only change their sign."""
        if self._datasets.is_classification:
            return self._datasets.num_outputs - 1
        return 1 if self._datasets.task.loss == "bce" else 0

    def _mislabelled(self, samples: PeerSamples) -> PeerSamples:
        train, validation = (self._moved(part) for part in (samples.train, samples.validation))
        return PeerSamples(train, validation, samples.test)

    def _moved(self, samples: Samples) -> Samples:
        return replace(samples, pool=samples.pool + self._num_pools)

    def _mislabelled_pools(self) -> list[Pool]:
        """Return the pools, and copies with flipped labels that share the inputs."""
        pools = self._datasets.pools
        if self._settings.kind != "label-flip":
            return pools
        others = [
            Pool(pool.inputs, shared_array(pool.targets.shape, pool.targets.dtype))
            for pool in pools
        ]
        return [*pools, *others]

    def forging_peers(self, round_number: int) -> Mask:
        """Return the peers that publish a forged model, (K,)."""
        if self._settings.kind in FORGERIES and self.is_active(round_number):
            return self.peers
        return np.zeros_like(self.peers)

    def is_stale(self, peer: int, round_number: int) -> bool:
        """Return whether a peer publishes its last honest model."""
        return self._settings.kind == "stale" and bool(self.forging_peers(round_number)[peer])

    def keep_merged(self, peer: int, round_number: int, merged: Matrix) -> None:
        """Keep a model (P,) before training, if its update will be flipped."""
        if self._settings.kind == "sign-flip" and self.forging_peers(round_number)[peer]:
            self._merged[peer] = merged.copy()

    def forge(self, peer: int, round_number: int, trained: Matrix, published: Matrix) -> None:
        """Write the forged model that a poisoned peer publishes, (P,).

        Values that are not trained stay honest: a negative running variance would reveal it.
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

    def save(self, published: Matrix) -> dict[str, Matrix]:
        """Return the models that poisoned peers have published, by their numbers as text."""
        first = self._datasets.first_peer
        return {str(first + row): published[row] for row in np.flatnonzero(self.peers).tolist()}

    def restore(self, published: Matrix, saved: dict[str, Matrix] | Matrix) -> None:
        """Take back what `save` returned."""
        if not isinstance(saved, dict):  # checkpoints of earlier versions
            published[self.peers] = saved
            return
        for number, model in saved.items():
            published[int(number) - self._datasets.first_peer] = model


def check_poison(
    poison: PoisonSettings, datasets: PeerDatasets, strategy: Strategy | ServerStrategy, seed: int
) -> None:
    """Refuse poison that cannot work with these peers or this strategy."""
    if poison.kind == "none":
        return
    if isinstance(strategy, ServerStrategy):
        raise ConfigError(
            f"poison.kind = {poison.kind} needs peers that exchange models, but strategy "
            f"'{strategy.name}' has a server. Remove the poison, or use another strategy."
        )
    if poison.kind == "delusional" and len(datasets.cluster_names) < 2:
        raise ConfigError(
            "poison.kind = delusional needs at least two true clusters, but there is only one. Use "
            "another kind of poison, or a shift."
        )
    if poisoned_peers(poison, datasets, seed).all():
        raise ConfigError(
            f"poison leaves none of the {datasets.num_peers} peers honest, so there are no "
            "results. Use a smaller poison.share or poison.count."
        )


def poisoned_peers(poison: PoisonSettings, datasets: PeerDatasets, seed: int) -> Mask:
    """Return the poisoned peers of the network, (K,).

    The draw depends on the seed and the peers alone.
    """
    poisoned = np.zeros(datasets.num_peers_in_network, dtype=bool)
    if poison.kind == "none":
        return poisoned
    candidates = _candidates(poison, datasets)
    count = _count(poison, len(candidates))
    # The same peers as in a delusional Oracle, to make both experiments comparable.
    in_order = poison.kind == "delusional" and poison.cluster is not None
    if not in_order:
        candidates = generator(seed, "poisoned").permutation(candidates)
    poisoned[candidates[:count]] = True
    return poisoned


def _candidates(poison: PoisonSettings, datasets: PeerDatasets) -> npt.NDArray[np.int64]:
    if poison.cluster is None:
        return np.arange(datasets.num_peers_in_network)
    num_clusters = len(datasets.cluster_names)
    if poison.cluster >= num_clusters:
        raise ConfigError(
            f"poison.cluster is {poison.cluster}, but the {num_clusters} true clusters are "
            f"numbered 0 to {num_clusters - 1}."
        )
    members: npt.NDArray[np.int64] = np.flatnonzero(datasets.clusters(0) == poison.cluster)
    if not len(members):
        raise ConfigError(
            f"poison.cluster is {poison.cluster}, but no peer begins in this true cluster. Name "
            f"one of {', '.join(map(str, np.unique(datasets.clusters(0))))}."
        )
    return members


def _count(poison: PoisonSettings, num_candidates: int) -> int:
    if poison.share is not None:
        return math.floor(poison.share * num_candidates + 0.5)
    count = poison.count or 0
    if count > num_candidates:
        where = "" if poison.cluster is None else f" that begin in cluster {poison.cluster}"
        raise ConfigError(
            f"poison.count is {count}, but there are only {num_candidates} peers{where}. Use at "
            f"most {num_candidates}, or poison.share."
        )
    return count


def _add_noise(values: npt.NDArray[Any], random: np.random.Generator) -> None:
    """Add normal noise to the values of a tensor (n,), with their standard deviation."""
    values += values.std() * random.standard_normal(len(values), dtype=np.float32)
