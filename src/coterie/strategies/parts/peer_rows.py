"""Rows of numbers about some peers; the memory depends on these peers, not on the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.strategies.requests import PEERS
from coterie.strategies.strategy import Peers

Rows = npt.NDArray[np.void]
"""A structured array, (n,): one row per peer."""


class PeerRows:
    """One row for each listed peer, in ascending order of peers; all others have the same row.

    Parameters
    ----------
    unlisted
        The row of all peers that are not listed, with the names and types of the columns.

    Examples
    --------
    >>> rows = PeerRows(np.array((0.0, -1.0), dtype=[("sum", np.float64), ("last", np.float64)]))
    >>> places = rows.list_peers(np.array([7, 2]))
    >>> rows.values["sum"][places] = [70.0, 20.0]
    >>> rows.peers
    array([2, 7])
    >>> rows.of(np.array([1, 2, 7]))["sum"]
    array([ 0., 20., 70.])
    """

    def __init__(self, unlisted: npt.NDArray[Any]) -> None:
        self._unlisted = unlisted
        self.peers: Peers = np.zeros(0, np.int64)
        """The listed peers, (n,), ascending."""
        self.values: Rows = np.full(0, unlisted)
        """Their rows, (n,)."""

    def of(self, peers: Peers) -> Rows:
        """Return a copy of the rows of peers, (n,)."""
        places, is_listed = self._find(peers)
        if is_listed.all():
            return self.values[places]
        rows = np.full(len(peers), self._unlisted)
        rows[is_listed] = self.values[places[is_listed]]
        return rows

    def list_peers(self, peers: Peers) -> npt.NDArray[np.int64]:
        """List peers that are not listed yet; return the places of all of them in `values`, (n,).

        A peer can be named several times.
        """
        places, is_listed = self._find(peers)
        if is_listed.all():
            return places
        self._insert(np.unique(peers[~is_listed]))
        return self.peers.searchsorted(peers)

    def keep(self, chosen: npt.NDArray[np.bool_]) -> None:
        """Keep only the chosen rows, (n,) booleans; the other peers are not listed any more."""
        self.peers, self.values = self.peers[chosen], self.values[chosen]

    def clear(self) -> None:
        """Remove all peers from the list."""
        self.keep(np.zeros(len(self.peers), dtype=bool))

    def save(self, names: Mapping[str, str]) -> dict[str, npt.NDArray[Any]]:
        """Return the peers and their columns, (n,) each; `names` are {column: saved name}."""
        columns = {saved: self.values[name].copy() for name, saved in names.items()}
        return {PEERS: self.peers.copy(), **columns}

    def restore(self, saved: Mapping[str, Any], names: Mapping[str, str]) -> None:
        """Restore what `save` returned.

        Earlier versions saved one entry for each peer of the network, without a list of peers. Then
        all of them are listed.
        """
        columns = {name: saved[saved_name] for name, saved_name in names.items()}
        count = len(next(iter(columns.values())))
        self.peers = np.array(saved.get(PEERS, np.arange(count)), np.int64)
        self.values = np.full(count, self._unlisted)
        for name, column in columns.items():
            self.values[name] = column

    def _find(self, peers: Peers) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return the places of peers, and which are listed, (n,) each."""
        places = self.peers.searchsorted(peers)
        if not len(self.peers):
            return places, np.zeros(len(peers), dtype=bool)
        return places, np.asarray(self.peers.take(places, mode="clip") == peers)

    def _insert(self, peers: Peers) -> None:
        """Insert peers that are not listed, ascending, without naming one twice."""
        count = len(self.peers) + len(peers)
        places = self.peers.searchsorted(peers) + np.arange(len(peers))
        is_old = np.ones(count, dtype=bool)
        is_old[places] = False
        listed = np.empty(count, np.int64)
        listed[places], listed[is_old] = peers, self.peers
        values = np.full(count, self._unlisted)
        values[is_old] = self.values
        self.peers, self.values = listed, values
