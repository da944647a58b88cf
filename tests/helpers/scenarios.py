"""Scenarios of images that tell who they are, so that tests see what every peer holds."""

import numpy as np

from coterie.data.labelled_dataset import Dataset
from coterie.data.scenario import PeerSettings, Scenario
from coterie.data.shifts import NoShift

SWAP_LABELS = (0, 1, 3, 4, 5, 7, 8, 9)
SWAPS = ((), ((0, 1),), ((3, 4),), ((5, 7),))


def _dataset(per_label=60, test_per_label=8, num_labels=10, mark=7, name="marks"):
    """Images of 2×2 pixels that tell who they are: number (two digits), label, and where from.

    The mark is at the lower right; it is one higher in test images.
    """

    def make(count, mark):
        targets = np.random.default_rng(mark).permutation(np.arange(num_labels).repeat(count))
        number = np.arange(len(targets))
        pixels = [number // 256, number % 256, targets, np.full_like(number, mark)]
        return np.stack(pixels, axis=1).astype(np.uint8).reshape(-1, 1, 2, 2), targets

    train, test = make(per_label, mark), make(test_per_label, mark + 1)
    return Dataset(name, *train, *test, classes=tuple(map(str, range(num_labels))))


def _scenario(shift=None, drift=None, sources=None, rounds=0, seed=0, **peers):
    sources = sources or [_dataset()]
    peers = {"count": 8, "train_size": 20, "validation_size": 5} | peers
    concepts = (shift or NoShift()).concepts(sources, seed)
    return Scenario(sources, concepts, PeerSettings(**peers), drift, rounds=rounds, seed=seed)


def _read(scenario, samples, angle=0):
    """Return (numbers, labels shown, marks, targets) of samples, after turning them back."""
    pool, rows = scenario.pools[samples.pool], samples.rows()
    upright = np.rot90(pool.inputs[rows], int(-angle // 90), axes=(2, 3))
    pixels = np.rint((upright + 1) * 127.5).astype(np.int64).reshape(-1, 4)
    return pixels[:, 0] * 256 + pixels[:, 1], pixels[:, 2], pixels[:, 3], pool.targets[rows]


def _numbers(scenario, peer, angle=0):
    """Return the numbers of all private images of a peer."""
    return np.concatenate(
        [_read(scenario, part, angle)[0] for part in (peer.train, peer.validation)]
    )


def _contents(scenario, step):
    """Everything a scenario holds in a step, as bytes."""
    views = scenario.load_step(step)
    return [
        (pool.inputs[part.rows()].tobytes(), pool.targets[part.rows()].tobytes())
        for view in views
        for part in (view.train, view.validation, view.test)
        for pool in [scenario.pools[part.pool]]
    ]


def _meaning(shift, cluster, shown):
    meaning = np.arange(10)
    for first, second in getattr(shift, "swaps", ((),) * 9)[cluster]:
        meaning[[first, second]] = second, first
    return meaning[shown]
