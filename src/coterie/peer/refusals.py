"""Refusals of data and calls from outside: typed reasons, counted per peer, no tracebacks."""

from __future__ import annotations

import logging
from collections import Counter
from enum import Enum

_log = logging.getLogger(__name__)


class Reason(Enum):
    """The reasons of the protocol; the value is used on the wire and in metrics."""

    UNTRUSTED = "untrusted"
    """The key is not trusted, or not any more."""
    WRONG_VERSION = "wrong-version"
    WRONG_LAYOUT = "wrong-layout"
    """Another model: its layout hash differs."""
    WRONG_FROZEN_PART = "wrong-frozen-part"
    """The same layers, but other frozen parameters: their digest differs."""
    MALFORMED = "malformed"
    """Against the protocol: a header that is not JSON, a field out of range, a wrong name."""
    WRONG_NAMES = "wrong-names"
    WRONG_SHAPE = "wrong-shape"
    WRONG_DTYPE = "wrong-dtype"
    WRONG_OFFSETS = "wrong-offsets"
    """Tensors that overlap, leave gaps or lie outside the payload."""
    TOO_LARGE = "too-large"
    """More bytes, tensors or entries than allowed or announced."""
    TRUNCATED = "truncated"
    WRONG_CHECKSUM = "wrong-checksum"
    NOT_FINITE = "not-finite"
    """NaN or infinite weights."""
    NORM = "norm"
    """Finite weights with a norm that no honest model has."""
    BOMB = "bomb"
    """Compressed data that grow beyond the announced size."""
    BAD_SIGNATURE = "bad-signature"
    OUTDATED = "outdated"
    """An address record or a goodbye older than the known one."""
    QUOTA = "quota"
    """The peer asked for more than its share."""
    BUSY = "busy"
    """Back-pressure: try again later."""
    GONE = "gone"
    """The requested version is not offered any more, or never was."""
    NOT_WANTED = "not-wanted"
    """A push to a peer whose strategy takes none, or a metric that cannot be computed."""
    LATE = "late"
    """It missed the deadline."""
    UNREACHABLE = "unreachable"


class Refused(Exception):  # noqa: N818 — the protocol's word; it is an answer, not an error
    """Something from outside was refused: `reason` is for programs, the text for people."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason = reason
        self.detail = detail


class RefusalCounts:
    """Counts refusals by peer and reason."""

    def __init__(self, what: str = "refused") -> None:
        self._what = what
        self._counts: Counter[tuple[str, Reason]] = Counter()

    def count(self, peer_id: str, reason: Reason, detail: str = "") -> None:
        """Count one refusal; only the 1st, 2nd, 4th, 8th … of the same are logged."""
        self._counts[peer_id, reason] += 1
        count = self._counts[peer_id, reason]
        if count & (count - 1) == 0:
            fields = {"peer": peer_id, "reason": reason.value, "count": count, "what": self._what}
            if detail:
                fields["detail"] = detail
            _log.warning("refusal", extra={"fields": fields})

    def of(self, peer_id: str) -> dict[Reason, int]:
        """Return the refusals of one peer."""
        return {
            reason: count for (other, reason), count in self._counts.items() if other == peer_id
        }

    def total(self) -> dict[Reason, int]:
        """Return the refusals of all peers together."""
        total: Counter[Reason] = Counter()
        for (_, reason), count in self._counts.items():
            total[reason] += count
        return dict(total)

    def rows(self) -> list[tuple[str, Reason, int]]:
        """Return all counts as rows of peer, reason and count."""
        return [(other, reason, count) for (other, reason), count in self._counts.items()]
