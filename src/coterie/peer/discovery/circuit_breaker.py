"""Circuit breaker: stops calls to a peer that does not answer."""

from __future__ import annotations

from enum import Enum

import numpy as np

from coterie.peer.transport_settings import BreakerSettings
from coterie.peer.types import Clock


class BreakerState(Enum):
    """Whether a peer may be called."""

    CLOSED = "closed"
    """All calls are allowed."""
    OPEN = "open"
    """No calls until the pause is over."""
    HALF_OPEN = "half-open"
    """One call may test whether the peer is back."""


class CircuitBreaker:
    """Opens after failures in a row, pauses longer each time, and closes after one success."""

    def __init__(self, settings: BreakerSettings, clock: Clock, rng: np.random.Generator) -> None:
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._num_failures = 0
        self._tried_at = 0.0
        self._rest_until: float | None = None

    @property
    def state(self) -> BreakerState:
        """Return whether the peer may be called now."""
        if self._rest_until is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if self._clock() < self._rest_until else BreakerState.HALF_OPEN

    def allow_call(self) -> bool:
        """Return whether a call may be made now; after a pause, only one call is allowed."""
        if self.state is BreakerState.HALF_OPEN:
            # Not a flag that the result resets: a cancelled call has no result.
            self._tried_at = self._clock()
            self._rest_until = self._tried_at + self._rest_seconds()
            return True
        return self.state is BreakerState.CLOSED

    def record_success(self) -> None:
        """Record that the peer answered."""
        self._num_failures = 0
        self._rest_until = None

    def record_failure(self) -> None:
        """Record that the peer did not answer, or not as it should."""
        self._num_failures += 1
        self._tried_at = self._clock()
        if self._num_failures >= self._settings.failures:
            self._rest_until = self._tried_at + self._rest_seconds()

    def record_sign_of_life(self) -> None:
        """Record a call from the peer: no proof that it answers, but a reason to try again soon."""
        if self._rest_until is not None:
            soon = self._tried_at + self._settings.first_rest_seconds
            self._rest_until = min(self._rest_until, soon)

    def _rest_seconds(self) -> float:
        # With more doublings the pause would be the longest anyway, and the power would overflow.
        num_doublings = min(max(self._num_failures - self._settings.failures, 0), 32)
        rest = self._settings.first_rest_seconds * 2.0**num_doublings
        # Jitter, so that peers that were cut off together do not return at the same instant.
        share = 0.5 + 0.5 * float(self._rng.random())
        return min(rest, self._settings.longest_rest_seconds) * share
