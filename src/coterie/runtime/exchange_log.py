"""The log of one round's exchanges: sender, receiver, size, delivery and merge weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.strategies.requests import PEERS, Message

ID_BYTES = 32
"""The size of a peer's id on a real network: the SHA-256 of its public key."""
SERVER = -1
"""The number that stands for the server in exchanges of server-side strategies."""

COLUMNS = ("kind", "receiver", "sender", "num_bytes", "delivered", "weight")


def message_bytes(message: Message) -> int:
    """Return the size of a message on a real network, where peers have ids instead of numbers."""
    return sum(
        array.size * ID_BYTES if name == PEERS else array.nbytes for name, array in message.items()
    )


@dataclass
class ExchangeLog:
    """Columns of equal length, one row per model sent over the network."""

    kind: list[str] = field(default_factory=list)
    receiver: list[int] = field(default_factory=list)
    sender: list[int] = field(default_factory=list)
    num_bytes: list[int] = field(default_factory=list)
    delivered: list[bool] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    """The first row of each batch of requests, by the batch's place in the round, so that the logs
    of shards can be joined."""
    elsewhere: list[tuple[int, int, int, int | float]] = field(default_factory=list)
    """What is about models that another shard logged: the batch in which it was recorded, receiver,
    sender, and bytes of a reply (int) or a merge weight (float)."""
    _last: dict[tuple[int, int], int] = field(default_factory=dict)

    def begin_batch(self, place: int) -> None:
        """Begin the rows of requests that are answered together."""
        self.starts[place] = len(self.kind)

    def add(self, kind: str, receiver: int, sender: int, num_bytes: int, delivered: bool) -> None:
        """Log one model sent; `kind` is fetch, probe, push, download or upload."""
        if delivered and kind != "probe":
            self._last[receiver, sender] = len(self.kind)
        self.kind.append(kind)
        self.receiver.append(receiver)
        self.sender.append(sender)
        self.num_bytes.append(num_bytes)
        self.delivered.append(delivered)
        self.weight.append(float("nan"))

    def add_reply_bytes(self, receiver: int, sender: int, num_bytes: int) -> None:
        """Add the bytes of a receiver's report to those of the model that it is about."""
        self._note(receiver, sender, num_bytes)

    def record_merge_weight(self, receiver: int, sender: int, weight: float) -> None:
        """Record the weight with which the model last received from a sender was merged."""
        self._note(receiver, sender, float(weight))

    def _note(self, receiver: int, sender: int, what: float) -> None:
        """Add bytes (int) or a weight (float) to the row of the model last received."""
        place = self._last.get((receiver, sender))
        if place is None:
            batch = next(reversed(self.starts), 0)
            self.elsewhere.append((batch, receiver, sender, what))
        elif isinstance(what, int):
            self.num_bytes[place] += what
        else:
            self.weight[place] = what

    @classmethod
    def joined(cls, logs: Sequence[ExchangeLog]) -> ExchangeLog:
        """Return one log of shards: in the order of batches, and in a batch in that of peers."""
        whole = cls()
        batches = [log.batches() for log in logs]
        for place in sorted(set().union(*batches)):
            for log, rows in zip(logs, batches, strict=True):
                if place in rows:
                    whole._extend(log, rows[place])
            for log in logs:
                for batch, receiver, sender, what in log.elsewhere:
                    if batch == place:
                        whole._note(receiver, sender, what)
        return whole

    def _extend(self, log: ExchangeLog, rows: slice) -> None:
        """Add rows of another log."""
        begin = len(self.kind)
        for name in COLUMNS:
            getattr(self, name).extend(getattr(log, name)[rows])
        for place in range(begin, len(self.kind)):
            if self.delivered[place] and self.kind[place] != "probe":
                self._last[self.receiver[place], self.sender[place]] = place

    def close(self) -> None:
        """Forget what is needed only to add rows and weights."""
        self._last.clear()

    def batches(self) -> dict[int, slice]:
        """Return the rows of each batch, by its place."""
        starts = list(self.starts.values())
        ends = [*starts, len(self.kind)][1:]
        rows = (slice(start, end) for start, end in zip(starts, ends, strict=True))
        return dict(zip(self.starts, rows, strict=True))

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns as arrays."""
        return {
            "kind": np.array(self.kind, dtype=object),
            "receiver": np.array(self.receiver, dtype=np.int32),
            "sender": np.array(self.sender, dtype=np.int32),
            "bytes": np.array(self.num_bytes, dtype=np.int64),
            "delivered": np.array(self.delivered, dtype=bool),
            "weight": np.array(self.weight, dtype=np.float64),
        }


def traffic(columns: dict[str, npt.NDArray[Any]], num_peers: int) -> dict[str, npt.NDArray[Any]]:
    """Return models and bytes sent and received per peer, (K,); lost models count as sent."""
    counts: dict[str, npt.NDArray[Any]] = {}
    for side, peers, counted in (
        ("received", columns["receiver"], columns["delivered"]),
        ("sent", columns["sender"], np.ones(len(columns["sender"]), dtype=bool)),
    ):
        keep = counted & (peers >= 0)
        size = columns["bytes"][keep].astype(np.float64)
        counts[f"models_{side}"] = np.bincount(peers[keep], minlength=num_peers).astype(np.int32)
        counts[f"bytes_{side}"] = np.bincount(peers[keep], size, num_peers).astype(np.int64)
    return counts


def chosen_statistics(
    chosen: Sequence[npt.NDArray[np.int64] | None], clusters: npt.NDArray[np.int64]
) -> dict[str, npt.NDArray[Any]]:
    """Return, per peer with a list of neighbours, how many of them are of its true cluster.

    `num_true` is the number of other peers in its cluster.
    """
    lists = [(peer, listed) for peer, listed in enumerate(chosen) if listed is not None]
    peers = np.array([peer for peer, _ in lists], np.int64)
    same = [np.count_nonzero(clusters[listed] == clusters[peer]) for peer, listed in lists]
    return {
        "peer": peers.astype(np.int32),
        "cluster": clusters[peers].astype(np.int32),
        "num_chosen": np.array([len(listed) for _, listed in lists], np.int32),
        "num_same_cluster": np.array(same, np.int32),
        "num_true": (np.bincount(clusters)[clusters[peers]] - 1).astype(np.int32),
    }


def neighbour_statistics(
    columns: dict[str, npt.NDArray[Any]], clusters: npt.NDArray[np.int64]
) -> dict[str, npt.NDArray[Any]]:
    """Return, per peer (K,), how many delivered models came from its true cluster, and weights."""
    between_peers = columns["delivered"] & (columns["receiver"] >= 0) & (columns["sender"] >= 0)
    useful = between_peers & (columns["kind"] != "probe")
    receiver, sender = columns["receiver"][useful], columns["sender"][useful]
    weight = np.nan_to_num(columns["weight"][useful])
    same = clusters[receiver] == clusters[sender]
    num_peers = len(clusters)
    return {
        "num_received": np.bincount(receiver, minlength=num_peers).astype(np.int32),
        "num_same_cluster": np.bincount(receiver[same], minlength=num_peers).astype(np.int32),
        "weight_others": np.bincount(receiver, weight, num_peers),
        "weight_same_cluster": np.bincount(receiver[same], weight[same], num_peers),
    }
