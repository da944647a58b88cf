"""How often something happened with each peer, for peers with which it happened at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.strategies.parts.peer_rows import PeerRows
from coterie.strategies.strategy import Peers

_NEVER = np.array((0,), [("count", np.int64)])
_SAVED_NAMES = {"count": "counts"}


class PeerCounts:
    """A count for each peer; 0 for all that were never counted.

    Examples
    --------
    >>> counts = PeerCounts()
    >>> counts.add((3, 7))
    >>> counts.add((3,))
    >>> counts.peers, counts.of(np.array([2, 3, 7]))
    (array([3, 7]), array([0, 2, 1]))
    """

    def __init__(self) -> None:
        self._rows = PeerRows(_NEVER)

    @property
    def peers(self) -> Peers:
        """The peers that were counted, (n,), ascending."""
        return self._rows.peers

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """The counts of these peers, (n,)."""
        return np.asarray(self._rows.values["count"])

    def add(self, peers: Sequence[int]) -> None:
        """Count each of the peers once more; a peer can be named several times."""
        places = self._rows.list_peers(np.array(peers, np.int64))
        np.add.at(self.counts, places, 1)

    def of(self, peers: Peers) -> npt.NDArray[np.int64]:
        """Return the counts of peers, (n,)."""
        return np.asarray(self._rows.of(peers)["count"])

    def save(self) -> dict[str, Any]:
        """Return the counts as plain data."""
        return self._rows.save(_SAVED_NAMES)

    def restore(self, saved: Mapping[str, Any] | npt.NDArray[np.int64]) -> None:
        """Restore what `save` returned; earlier versions saved one count for each peer, (K,)."""
        columns = saved if isinstance(saved, Mapping) else {"counts": saved}
        self._rows.restore(columns, _SAVED_NAMES)
        self._rows.keep(self.counts > 0)
