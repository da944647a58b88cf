"""How much of a round's time one peer may waste before rounds go on without it."""

from __future__ import annotations

from coterie.peer.transport_settings import BreakerSettings
from coterie.peer.types import Clock

FORGIVEN_SHARE = 0.05
"""Wasted time is forgiven at this share of the time that passes."""
RELAPSE_FACTOR, MOST_RELAPSES = 4.0, 3
"""Each relapse makes the next rest longer: at most 64 times as long as what was wasted."""
LONGEST_DOUBLED_SECONDS = 60.0
"""A trial that fails makes no rest longer than this: it costs rounds nothing."""


class WaitBudget:
    """Adds up what rounds have waited in vain for one peer; rests after too much of it.

    The circuit breaker asks whether a peer is there at all, and any answer closes it. A peer that
    answers short calls at once and stalls every model keeps it closed. What counts here is time.
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
        """Return whether rounds do without the peer, until a trial beside them goes well."""
        return self._rest_until is not None

    @property
    def is_due(self) -> bool:
        """Return whether the rest is over, and a trial may be made."""
        return self._rest_until is not None and self._clock() >= self._rest_until

    def record_waste(self, seconds: float) -> None:
        """Note that a round has waited so long in vain."""
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
        """Note how a trial went; what has happened before is not forgotten at once."""
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
        """Whether the last rest ended, or time was last wasted, longer ago than any rest takes."""
        return now - self._counted_at > self._settings.longest_pause_seconds
