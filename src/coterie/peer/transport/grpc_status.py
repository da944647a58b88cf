"""Reasons as gRPC statuses, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc

from coterie.peer.refusals import Reason, Refused

REASON_KEY = "coterie-reason"
LONGEST_DETAIL = 200

CODES = {
    Reason.UNTRUSTED: grpc.StatusCode.PERMISSION_DENIED,
    Reason.QUOTA: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.BUSY: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.GONE: grpc.StatusCode.NOT_FOUND,
    Reason.LATE: grpc.StatusCode.DEADLINE_EXCEEDED,
    Reason.WRONG_VERSION: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.WRONG_LAYOUT: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.NOT_WANTED: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.OUTDATED: grpc.StatusCode.FAILED_PRECONDITION,
    # Not UNAVAILABLE: the one who says so is there, it is a third that is not.
    Reason.UNREACHABLE: grpc.StatusCode.FAILED_PRECONDITION,
}
"""Everything else is an invalid argument."""

_REASONS = {
    grpc.StatusCode.UNAVAILABLE: Reason.UNREACHABLE,
    grpc.StatusCode.CANCELLED: Reason.UNREACHABLE,
    grpc.StatusCode.INTERNAL: Reason.UNREACHABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED: Reason.LATE,
    grpc.StatusCode.PERMISSION_DENIED: Reason.UNTRUSTED,
    grpc.StatusCode.UNAUTHENTICATED: Reason.UNTRUSTED,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Reason.TOO_LARGE,
    grpc.StatusCode.NOT_FOUND: Reason.GONE,
    grpc.StatusCode.UNIMPLEMENTED: Reason.WRONG_VERSION,
}
"""By the statuses that gRPC gives itself; a peer also tells the reason."""


class RefusedByPeer(Refused):
    """The peer itself refused, rather than that it or the network failed."""


def answer(reason: Reason, detail: str) -> tuple[grpc.StatusCode, str, tuple[tuple[str, str]]]:
    """Return what says to a caller that it is refused: status, text, and metadata.

    The text may quote what came from outside. The library sends any text that it can encode, but a
    lone surrogate leaves the caller without an answer, and a long one is more than a header holds.
    """
    return status_of(reason), _clean(detail), ((REASON_KEY, reason.value),)


def status_of(reason: Reason) -> grpc.StatusCode:
    """Return the status under which a refusal travels."""
    return CODES.get(reason, grpc.StatusCode.INVALID_ARGUMENT)


def refusal(error: grpc.aio.AioRpcError) -> Refused:
    """Return what a failed call means; text from outside is made fit for a terminal."""
    detail = _clean(error.details() or error.code().name)
    told = _told(error.trailing_metadata() or ())
    if told is not None:
        return RefusedByPeer(told, detail)
    return Refused(_REASONS.get(error.code(), Reason.MALFORMED), detail)


def _told(metadata: Iterable[Any]) -> Reason | None:
    for key, value in metadata:
        if key == REASON_KEY:
            return next((reason for reason in Reason if reason.value == value), None)
    return None


def _clean(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)[:LONGEST_DETAIL]
