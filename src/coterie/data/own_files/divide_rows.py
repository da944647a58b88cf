"""Divides each peer's rows into training, validation and test data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coterie.data.own_files.owned_samples import OwnedSamples, Rows, count_of
from coterie.errors import DataError
from coterie.randomness import generator

PARTS_OF_FIVE = np.array([0, 1, 0, 2, 0])
"""Of five rows three are for training (0), one for validation (1) and one for the test (2)."""
VALIDATION_SHARE = 0.2
"""The last part of a window is for validation."""
MOST_NAMED = 3


@dataclass(frozen=True)
class Parts:
    """The rows of one peer in one step."""

    train: Rows
    validation: Rows
    test: Rows


@dataclass(frozen=True)
class Division:
    """Which rows each peer has in each step; peers with too few rows are left out."""

    peers: Rows
    """The numbers of the peers that have enough rows."""
    steps: tuple[tuple[Parts, ...], ...]
    """[step][peer]: the rows; test rows of a step are in the window of the next."""
    notes: tuple[str, ...]
    """Which peers were left out, for the user."""


def divide_at_random(
    samples: OwnedSamples, min_rows: int, seed: int, most_training: int | None = None
) -> Division:
    """Give each peer 60% of its rows for training, 20% for validation and 20% for the test.

    Each class is divided in these proportions, and the draw depends on the peer's name only: a
    peer keeps its parts if others come or go.
    """
    rows_of = _rows_of_peers(samples)
    enough = np.array([len(rows) >= min_rows for rows in rows_of])
    peers, notes = _left_out(samples, enough, f"fewer than {count_of(min_rows, 'row')}")
    parts = tuple(_divide(samples, rows_of[peer], peer, seed, most_training) for peer in peers)
    return Division(peers, (parts,), notes)


def keep_division(samples: OwnedSamples) -> Division:
    """Return the parts that the samples already have."""
    parts = samples.parts
    if parts is None:
        raise ValueError("these samples have no parts")
    every = tuple(
        Parts(*(rows[parts[rows] == part] for part in range(3))) for rows in _rows_of_peers(samples)
    )
    return Division(np.arange(len(every)), (every,), ())


def divide_by_time(samples: OwnedSamples, num_windows: int, min_rows: int) -> Division:
    """Cut time into windows with equally many rows: train on one, test on the next.

    Of a peer's rows in a window the last fifth, in time, is for validation. Windows are the same
    for all peers, and rows of the same time are in the same window.
    """
    window = _windows(samples, num_windows)
    rows_of = _rows_of_peers(samples)
    counts = np.array([np.bincount(window[rows], minlength=num_windows) for rows in rows_of])
    peers, notes = _left_out(
        samples,
        counts.min(axis=1) >= min_rows,
        f"fewer than {count_of(min_rows, 'row')} in one of {num_windows} windows of time",
    )
    in_order = [_in_order(samples, rows_of[peer], window) for peer in peers]
    steps = tuple(
        tuple(_at_time(mine[step], mine[step + 1]) for mine in in_order)
        for step in range(num_windows - 1)
    )
    return Division(peers, steps, notes)


def _divide(
    samples: OwnedSamples, rows: Rows, peer: int, seed: int, most_training: int | None
) -> Parts:
    """Divide one peer's rows, class by class."""
    rng = generator(seed, "own files", samples.peer_names[peer])
    shuffled = rng.permutation(rows)
    if samples.classes:
        shuffled = shuffled[np.argsort(samples.targets[shuffled], kind="stable")]
    # The pattern runs through all classes, so that the whole has the right proportions too.
    places = np.resize(PARTS_OF_FIVE, len(rows))
    train, validation, test = (shuffled[places == part] for part in range(3))
    if most_training is not None and most_training < len(train):
        # Spread over all classes, which are one after another.
        train = train[np.arange(most_training) * len(train) // most_training]
    return Parts(np.sort(train), np.sort(validation), np.sort(test))


def _at_time(now: Rows, later: Rows) -> Parts:
    held_out = max(1, round(VALIDATION_SHARE * len(now)))
    return Parts(now[:-held_out], now[-held_out:], later)


def _windows(samples: OwnedSamples, num_windows: int) -> Rows:
    """Return the window of each row."""
    times = _times(samples)
    if len(np.unique(times)) < num_windows:
        raise DataError(
            f"{samples.where} has {len(np.unique(times))} different times, too few for "
            f"{num_windows} windows. Lower --windows."
        )
    places = np.arange(1, num_windows) * len(times) // num_windows
    return np.searchsorted(np.sort(times)[places], times, side="right").astype(np.int64)


def _in_order(samples: OwnedSamples, rows: Rows, window: Rows) -> list[Rows]:
    """Return a peer's rows of each window, in the order of time."""
    ordered = rows[np.argsort(_times(samples)[rows], kind="stable")]
    return np.split(ordered, np.searchsorted(window[ordered], np.arange(1, window.max() + 1)))


def _times(samples: OwnedSamples) -> Rows:
    if samples.times is None:
        raise DataError(f"{samples.where}: name the column of the time with --time.")
    return samples.times


def _rows_of_peers(samples: OwnedSamples) -> list[Rows]:
    order = np.argsort(samples.owners, kind="stable").astype(np.int64)
    ends = np.cumsum(np.bincount(samples.owners, minlength=len(samples.peer_names)))
    return np.split(order, ends[:-1])


def _left_out(
    samples: OwnedSamples, enough: npt.NDArray[np.bool_], reason: str
) -> tuple[Rows, tuple[str, ...]]:
    """Return the peers that stay, and a note about the others."""
    few = [samples.peer_names[peer] for peer in np.flatnonzero(~enough)]
    if not enough.any():
        raise DataError(
            f"{samples.where}: all {count_of(len(few), 'peer')} have {reason}. Lower "
            f"--min-rows{' or --windows' * (samples.times is not None)}, or name another column "
            "with --peers-by."
        )
    note = f"{count_of(len(few), 'peer')} with {reason} left out: {_listed(few)}."
    return np.flatnonzero(enough), (note,) if few else ()


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_NAMED])
    return f"{shown}, …" if len(names) > MOST_NAMED else shown
