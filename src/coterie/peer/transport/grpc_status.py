"""Conversion of refusals to gRPC statuses and back."""

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
    Reason.WRONG_FROZEN_PART: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.NOT_WANTED: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.OUTDATED: grpc.StatusCode.FAILED_PRECONDITION,
    # Not UNAVAILABLE: the peer that says so is reachable, another one is not.
    Reason.UNREACHABLE: grpc.StatusCode.FAILED_PRECONDITION,
}
"""All other reasons travel as an invalid argument."""

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
"""For statuses that gRPC sets itself; a peer also sends the reason."""


class RefusedByPeer(Refused):
    """The peer itself refused; neither it nor the network failed."""


def refusal_response(
    reason: Reason, detail: str
) -> tuple[grpc.StatusCode, str, tuple[tuple[str, str]]]:
    """Return status, text and metadata of a refusal.

    The text may quote data from outside. The library sends any text that it can encode, but a lone
    surrogate would leave the caller without an answer, and a long text does not fit into a header.
    """
    return status_of(reason), _clean(detail), ((REASON_KEY, reason.value),)


def status_of(reason: Reason) -> grpc.StatusCode:
    """Return the status of a refusal."""
    return CODES.get(reason, grpc.StatusCode.INVALID_ARGUMENT)


def refusal_of(error: grpc.aio.AioRpcError) -> Refused:
    """Return the refusal behind a failed call; text from outside is made safe to print."""
    detail = _clean(error.details() or error.code().name)
    reason = _reason_in(error.trailing_metadata() or ())
    if reason is not None:
        return RefusedByPeer(reason, detail)
    return Refused(_REASONS.get(error.code(), Reason.MALFORMED), detail)


def _reason_in(metadata: Iterable[Any]) -> Reason | None:
    for key, value in metadata:
        if key == REASON_KEY:
            return next((reason for reason in Reason if reason.value == value), None)
    return None


def _clean(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)[:LONGEST_DETAIL]
