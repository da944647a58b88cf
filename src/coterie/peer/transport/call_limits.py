"""Limits on the calls of one peer: tokens that refill, and slots for parallel calls."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from coterie.peer.refusals import Reason, Refused
from coterie.peer.transport_settings import LimitSettings
from coterie.peer.types import Clock, PeerKey


class TokenBucket:
    """A number of tokens per minute; unused ones add up to a minute's worth."""

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._capacity = per_minute
        self._clock = clock
        self._tokens = per_minute
        self._filled_at = clock()

    @property
    def tokens(self) -> float:
        """Return the number of tokens; negative after more was spent than there was."""
        now = self._clock()
        # A clock that is set back must not take tokens away.
        grown = max(now - self._filled_at, 0.0) * self._capacity / 60
        self._tokens = min(self._tokens + grown, self._capacity)
        self._filled_at = now
        return self._tokens

    def take(self) -> bool:
        """Take one token, if there is one."""
        if self.tokens < 1:
            return False
        self._tokens -= 1
        return True

    def spend(self, amount: float) -> None:
        """Take tokens, if need be into debt, which refills first."""
        self._tokens = self.tokens - amount


class Slots:
    """Limits how many things run in parallel."""

    def __init__(self, count: int, what: str) -> None:
        self._free = count
        self._what = what

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold a slot; refuse at once if none is free, because waiting calls would pile up."""
        if self._free < 1:
            raise Refused(Reason.BUSY, f"too many {self._what} at once; try again later")
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1


@dataclass
class _Share:
    """The usage of one peer."""

    calls: TokenBucket
    bytes: TokenBucket
    calls_at_once: Slots
    pulls_at_once: Slots
    accepted_at_once: Slots
    round: int = -1
    num_scores: int = 0
    num_pushes: int = 0


class PeerLimits:
    """The limits of all peers; only trusted peers have an entry, so their number is bounded."""

    def __init__(self, settings: LimitSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._shares: dict[PeerKey, _Share] = {}
        self._inbox = Slots(settings.inbox_models, "models to score or to take, of all peers,")

    def __len__(self) -> int:
        return len(self._shares)

    def forget_others(self, trusted: Collection[PeerKey]) -> None:
        """Forget all peers but the trusted ones."""
        for peer_id in [each for each in self._shares if each not in trusted]:
            del self._shares[peer_id]

    @contextmanager
    def call(self, peer_id: PeerKey) -> Iterator[None]:
        """Allow one call, or refuse it."""
        share = self._share(peer_id)
        with share.calls_at_once.hold():
            if not share.calls.take():
                raise Refused(
                    Reason.QUOTA, f"more than {self._settings.calls_per_minute} calls per minute"
                )
            yield

    @contextmanager
    def pull(self, peer_id: PeerKey) -> Iterator[None]:
        """Allow one transfer of a model, or refuse it."""
        share = self._share(peer_id)
        with share.pulls_at_once.hold():
            if share.bytes.tokens <= 0:
                raise Refused(
                    Reason.QUOTA, f"more than {self._settings.bytes_per_minute} bytes per minute"
                )
            yield

    @contextmanager
    def accept_model(self, peer_id: PeerKey) -> Iterator[None]:
        """Let a peer make this one receive a model, to score it or as a push, or refuse it."""
        with self._share(peer_id).accepted_at_once.hold(), self._inbox.hold():
            yield

    def record_sent(self, peer_id: PeerKey, num_bytes: int) -> None:
        """Count bytes of a model sent to a peer."""
        self._share(peer_id).bytes.spend(num_bytes)

    def count_score(self, peer_id: PeerKey, round_number: int) -> None:
        """Count one score for a peer in the current round, or refuse it."""
        share = self._share_of_round(peer_id, round_number)
        if share.num_scores >= self._settings.scores_per_round:
            raise Refused(
                Reason.QUOTA, f"more than {self._settings.scores_per_round} scores in a round"
            )
        share.num_scores += 1

    def count_push(self, peer_id: PeerKey, round_number: int) -> None:
        """Count one push of a peer in the current round, or refuse it."""
        share = self._share_of_round(peer_id, round_number)
        if share.num_pushes >= self._settings.pushes_per_round:
            raise Refused(
                Reason.QUOTA, f"more than {self._settings.pushes_per_round} pushes in a round"
            )
        share.num_pushes += 1

    def _share_of_round(self, peer_id: PeerKey, round_number: int) -> _Share:
        share = self._share(peer_id)
        if share.round != round_number:
            share.round, share.num_scores, share.num_pushes = round_number, 0, 0
        return share

    def _share(self, peer_id: PeerKey) -> _Share:
        if peer_id not in self._shares:
            self._shares[peer_id] = _Share(
                TokenBucket(self._settings.calls_per_minute, self._clock),
                TokenBucket(self._settings.bytes_per_minute, self._clock),
                Slots(self._settings.calls_at_once, "calls"),
                Slots(self._settings.pulls_at_once, "transfers"),
                Slots(self._settings.pulls_at_once, "models to score or to take"),
            )
        return self._shares[peer_id]


class Pace:
    """Aborts transfers that are slower than the slowest allowed speed.

    A fast start gives no credit for a later pause: the remaining time is never more than the window
    plus the time of the last piece.
    """

    def __init__(self, settings: LimitSettings, clock: Clock) -> None:
        self._window = settings.slow_start_seconds
        self._slowest = settings.slowest_bytes_per_second
        self._clock = clock
        self._until: float | None = None

    def begin(self) -> None:
        """Start the clock, unless it has started."""
        if self._until is None:
            self._until = self._clock() + self._window

    def record_progress(self, num_bytes: int) -> None:
        """Count received or sent bytes."""
        if self._until is not None:
            latest = self._clock() + self._window
            self._until = min(self._until, latest) + num_bytes / self._slowest

    @property
    def seconds_left(self) -> float | None:
        """Return how long the next piece may take; None before the transfer has begun."""
        return None if self._until is None else max(self._until - self._clock(), 0.0)
