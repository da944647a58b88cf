"""Wait budget: the time of rounds that one peer may waste before rounds continue without it."""

from __future__ import annotations

from coterie.peer.transport_settings import BreakerSettings
from coterie.peer.types import Clock

FORGIVEN_SHARE = 0.05
"""Share of the passing time by which wasted time is forgiven."""
RELAPSE_FACTOR, MOST_RELAPSES = 4.0, 3
"""Each relapse makes the next pause longer: at most 64 times the wasted time."""
LONGEST_DOUBLED_SECONDS = 60.0
"""Failed trials double the pause up to this length: a trial costs rounds nothing."""


class WaitBudget:
    """Adds up the time that rounds wasted on one peer; pauses the peer after too much of it.

    The circuit breaker tests whether a peer is there, and any answer closes it. A peer that answers
    short calls at once but stalls every model keeps it closed. Therefore time is counted here.
    """

    def __init__(self, settings: BreakerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._wasted = 0.0
        self._counted_at = 0.0
        self._num_relapses = 0
        self._rest_seconds = 0.0
        self._rest_until: float | None = None

    @property
    def is_resting(self) -> bool:
        """Return whether rounds leave out the peer, until a trial beside them succeeds."""
        return self._rest_until is not None

    @property
    def is_due(self) -> bool:
        """Return whether the pause is over and a trial may be made."""
        return self._rest_until is not None and self._clock() >= self._rest_until

    def record_waste(self, seconds: float) -> None:
        """Record that a round waited so long in vain."""
        if self.is_resting:
            return
        now = self._clock()
        forgiven = FORGIVEN_SHARE * max(now - self._counted_at, 0.0)
        if self._is_long_ago(now):
            self._num_relapses = 0
        self._wasted = max(self._wasted - forgiven, 0.0) + seconds
        self._counted_at = now
        if self._wasted > self._settings.patience_seconds:
            longer = RELAPSE_FACTOR ** min(self._num_relapses, MOST_RELAPSES)
            self._rest(longer * max(self._wasted, self._settings.first_rest_seconds))
            self._num_relapses += 1
            self._wasted = 0.0

    def record_trial(self, *, is_well: bool) -> None:
        """Record the result of a trial; a success does not delete the history at once."""
        if not self.is_resting:
            return
        if is_well:
            self._rest_until = None
            self._counted_at = self._clock()
        else:
            doubled = min(2 * self._rest_seconds, LONGEST_DOUBLED_SECONDS)
            self._rest(max(self._rest_seconds, doubled))

    def _rest(self, seconds: float) -> None:
        self._rest_seconds = min(seconds, self._settings.longest_pause_seconds)
        self._counted_at = self._clock()
        self._rest_until = self._counted_at + self._rest_seconds

    def _is_long_ago(self, now: float) -> bool:
        """Return whether the last pause or waste is longer ago than the longest pause."""
        return now - self._counted_at > self._settings.longest_pause_seconds
