"""Why something from outside was refused: typed reasons, counted per peer, never a traceback."""

from __future__ import annotations

import logging
from collections import Counter
from enum import Enum

_log = logging.getLogger(__name__)


class Reason(Enum):
    """The reasons of the protocol; the value is what goes over the wire and into metrics."""

    UNTRUSTED = "untrusted"
    """The key is not, or no longer, among those trusted."""
    WRONG_VERSION = "wrong-version"
    WRONG_LAYOUT = "wrong-layout"
    """Another model: its layout hash is not mine."""
    MALFORMED = "malformed"
    """Not what the protocol says: a header that is no JSON, a field out of range, a bad name."""
    WRONG_NAMES = "wrong-names"
    WRONG_SHAPE = "wrong-shape"
    WRONG_DTYPE = "wrong-dtype"
    WRONG_OFFSETS = "wrong-offsets"
    """Tensors that overlap, leave gaps or lie outside the payload."""
    TOO_LARGE = "too-large"
    """More bytes, tensors or entries than allowed, or than announced."""
    TRUNCATED = "truncated"
    WRONG_CHECKSUM = "wrong-checksum"
    NOT_FINITE = "not-finite"
    """NaN or infinite weights."""
    NORM = "norm"
    """Finite weights, but of a norm no honest model has."""
    BOMB = "bomb"
    """Compressed data that grow beyond what was announced."""
    BAD_SIGNATURE = "bad-signature"
    OUTDATED = "outdated"
    """An address record or a goodbye older than what is known."""
    QUOTA = "quota"
    """The peer has asked for more than its share."""
    BUSY = "busy"
    """Back-pressure: try again later."""
    GONE = "gone"
    """The version asked for is no longer, or never was, offered."""
    NOT_WANTED = "not-wanted"
    """A push to somebody whose strategy takes none, or a metric that cannot be measured."""
    LATE = "late"
    """It did not come before the deadline."""
    UNREACHABLE = "unreachable"


class Refused(Exception):  # noqa: N818 — what happened says more than -Error
    """Something from outside was refused; `reason` says why for programs, the text for people."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason = reason
        self.detail = detail


class RefusalCounts:
    """How often which peer was refused for which reason."""

    def __init__(self, what: str = "refused") -> None:
        self._what = what
        self._counts: Counter[tuple[str, Reason]] = Counter()

    def count(self, peer_id: str, reason: Reason, detail: str = "") -> None:
        """Note one refusal; the 1st, 2nd, 4th, 8th … of a kind are logged, not a flood of them."""
        self._counts[peer_id, reason] += 1
        count = self._counts[peer_id, reason]
        if count & (count - 1) == 0:
            fields = {"peer": peer_id, "reason": reason.value, "count": count, "what": self._what}
            if detail:
                fields["detail"] = detail
            _log.warning("refusal", extra={"fields": fields})

    def of(self, peer_id: str) -> dict[Reason, int]:
        """Return the refusals of one peer."""
        return {why: count for (who, why), count in self._counts.items() if who == peer_id}

    def total(self) -> dict[Reason, int]:
        """Return the refusals of all peers together."""
        total: Counter[Reason] = Counter()
        for (_, reason), count in self._counts.items():
            total[reason] += count
        return dict(total)

    def rows(self) -> list[tuple[str, Reason, int]]:
        """Return who was refused why and how often."""
        return [(who, why, count) for (who, why), count in self._counts.items()]
