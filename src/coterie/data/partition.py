"""Partitions: which samples each peer has. Splits are disjoint: a sample belongs to one peer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from coterie.data.labelled_dataset import Dataset
from coterie.data.shifts import Concept
from coterie.errors import ConfigError, DataError
from coterie.settings import Settings

Rows = npt.NDArray[np.int64]


class IidLabels(Settings):
    """A peer's samples are drawn at random from those of its cluster."""

    kind: Literal["iid"] = "iid"


class DirichletLabels(Settings):
    """A peer's label proportions are drawn from Dirichlet(alpha) over its cluster's labels."""

    kind: Literal["dirichlet"] = "dirichlet"
    alpha: float = Field(gt=0)
    """Small values: few labels per peer. Large values: nearly IID."""


Labels = Annotated[IidLabels | DirichletLabels, Field(discriminator="kind")]


class EqualSizes(Settings):
    """All peers have the same number of training samples."""

    kind: Literal["equal"] = "equal"

    def sizes(self, mean: int, num_peers: int, rng: np.random.Generator) -> Rows:
        """Return the mean for every peer."""
        return np.full(num_peers, mean)


class SkewedSizes(Settings):
    """Sizes fall as rank^-exponent with the given mean: 0 is equal, 1 Zipf, 2 heavily skewed."""

    kind: Literal["skewed"] = "skewed"
    exponent: float = Field(1.0, ge=0)
    """How steeply sizes fall."""
    smallest: int = Field(1, ge=1)
    """The smallest number of samples."""

    def sizes(self, mean: int, num_peers: int, rng: np.random.Generator) -> Rows:
        """Return sizes that sum to mean × num_peers, in random order."""
        if self.smallest > mean:
            raise ConfigError(
                f"peers.sizes.smallest is {self.smallest}, but it can be at most the mean, which "
                f"is peers.train_size = {mean}. Lower it, or raise peers.train_size."
            )
        share = np.arange(1, num_peers + 1) ** -self.exponent
        spare = (mean - self.smallest) * num_peers
        sizes = self.smallest + divide(spare, share)
        return np.asarray(rng.permutation(sizes))


class ListedSizes(Settings):
    """A list with the number of training samples of each peer."""

    kind: Literal["listed"] = "listed"
    listed: tuple[int, ...]
    """The sizes, peer by peer."""

    def sizes(self, mean: int, num_peers: int, rng: np.random.Generator) -> Rows:
        """Return the list."""
        if len(self.listed) != num_peers or min(self.listed, default=0) < 1:
            raise ConfigError(
                f"peers.sizes.listed needs one positive number for each of the {num_peers} peers, "
                f"but has {len(self.listed)} numbers: {self.listed}."
            )
        return np.array(self.listed)


Sizes = Annotated[EqualSizes | SkewedSizes | ListedSizes, Field(discriminator="kind")]


@dataclass(frozen=True)
class Split:
    """The rows of its source that a peer trains on, and those that it validates on."""

    train: Rows
    validation: Rows


def divide(total: int, shares: npt.ArrayLike) -> Rows:
    """Return whole numbers with this sum, in proportion to shares (largest remainders)."""
    parts = np.asarray(shares, dtype=float)
    exact = total * parts / parts.sum()
    whole: Rows = np.floor(exact).astype(np.int64)
    # A stable sort breaks ties by position, so that the result is the same everywhere.
    first = np.argsort(-(exact - whole), kind="stable")[: total - int(whole.sum())]
    whole[first] += 1
    return whole


def cluster_of_peers(num_peers: int, num_clusters: int, shares: Sequence[float] | None) -> Rows:
    """Return each peer's cluster, (K,), in ascending order."""
    if shares is not None and len(shares) != num_clusters:
        raise ConfigError(
            f"peers.clusters gives {len(shares)} shares, but the shift makes {num_clusters} "
            "clusters. Give one share for each cluster."
        )
    if shares is not None and sum(shares) <= 0:
        raise ConfigError(
            f"peers.clusters is {tuple(shares)}, so all clusters are empty. Give at least one "
            "positive share."
        )
    counts = divide(num_peers, shares or (1,) * num_clusters)
    return np.repeat(np.arange(num_clusters, dtype=np.int64), counts)


def split(
    sources: Sequence[Dataset],
    concepts: Sequence[Concept],
    clusters: Rows,
    train_sizes: Rows,
    validation_size: int,
    labels: IidLabels | DirichletLabels,
    rng: np.random.Generator,
) -> list[Split]:
    """Divide the sources' training samples among the peers, without overlap."""
    order = [rng.permutation(len(source.targets)) for source in sources]
    free = [np.ones(len(source.targets), dtype=bool) for source in sources]
    sizes = train_sizes + validation_size
    splits = []
    for peer, cluster in enumerate(clusters):
        concept = concepts[cluster]
        source = sources[concept.source]
        available = order[concept.source]
        available = available[free[concept.source][available]]
        if concept.labels is not None:
            available = available[np.isin(source.targets[available], concept.labels)]
        size = int(sizes[peer])
        if size > len(available):
            raise _shortage(sources, concepts, clusters, sizes, int(cluster))
        if isinstance(labels, DirichletLabels) and source.is_classification:
            mine = _dirichlet(source.targets[available], available, size, labels.alpha, rng)
        else:
            mine = available[:size]
        free[concept.source][mine] = False
        splits.append(Split(mine[validation_size:], mine[:validation_size]))
    return splits


def _dirichlet(
    targets: npt.NDArray[np.int64], rows: Rows, size: int, alpha: float, rng: np.random.Generator
) -> Rows:
    """Return rows with Dirichlet(alpha) label proportions; others replace labels that run out."""
    present = np.unique(targets)
    proportions = rng.dirichlet(np.full(len(present), alpha))
    stock = [rows[targets == label] for label in present]
    taken = np.zeros(len(present), dtype=np.int64)
    left = np.array([len(part) for part in stock])
    while (missing := size - int(taken.sum())) > 0:
        weight = np.where(left > 0, np.maximum(proportions, 1e-12), 0.0)
        wish = np.minimum(rng.multinomial(missing, weight / weight.sum()), left)
        taken += wish
        left -= wish
    mine = np.concatenate([part[:count] for part, count in zip(stock, taken, strict=True)])
    return rng.permutation(mine)


def _shortage(
    sources: Sequence[Dataset],
    concepts: Sequence[Concept],
    clusters: Rows,
    sizes: Rows,
    cluster: int,
) -> DataError:
    """Return the error for a cluster without enough samples."""
    concept = concepts[cluster]
    source = sources[concept.source]
    available = len(concept.candidates(source.targets))
    rivals = [
        number
        for number, other in enumerate(concepts)
        if other.source == concept.source
        and (other.labels is None or concept.labels is None or {*other.labels} & {*concept.labels})
    ]
    asking = np.isin(clusters, rivals)
    what = "images" if concept.labels is None else f"images with labels {list(concept.labels)}"
    return DataError(
        f"{int(asking.sum())} peers ask for {int(sizes[asking].sum()):,} {what} of {source.name} "
        f"for training and validation, but there are only {available:,}. Lower peers.train_size, "
        "peers.validation_size or peers.count."
    )


def matching_test_rows(
    train_targets: npt.NDArray[np.int64],
    test_targets: npt.NDArray[np.int64],
    most: int | None = None,
) -> Rows:
    """Return as many test rows as possible, at most `most`, in the label proportions of training.

    Labels without test rows are left out.
    """
    labels, counts = np.unique(
        train_targets[np.isin(train_targets, test_targets)], return_counts=True
    )
    share = counts / counts.sum()
    stock = [np.flatnonzero(test_targets == label) for label in labels]
    total = min(len(rows) / part for rows, part in zip(stock, share, strict=True))
    if most is not None and most < total:
        wish = divide(most, share)
    else:
        wish = np.maximum(np.floor(total * share + 1e-9).astype(np.int64), 1)
    return np.sort(np.concatenate([rows[:n] for rows, n in zip(stock, wish, strict=True)]))
