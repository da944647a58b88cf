"""The settings of the network between peers: deadlines, limits and pauses."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from coterie.settings import Settings


class DeadlineSettings(Settings):
    """How long a peer waits for others before it continues without them."""

    connect_seconds: float = Field(5.0, gt=0, le=600)
    """For a connection, handshake included."""
    call_seconds: float = Field(10.0, gt=0, le=600)
    """For the answer to a short call, beyond the wait that the call asks for."""
    fetch_seconds: float = Field(60.0, gt=0, le=600)
    """For receiving a model, and for sending one."""
    score_seconds: float = Field(60.0, gt=0, le=600)
    """For another peer to pull this peer's model and to score it on its data."""
    round_seconds: float = Field(60.0, gt=0)
    """For others to reach the same point of a round, when rounds are aligned."""
    goodbye_seconds: float = Field(2.0, gt=0, le=600)
    """For telling all peers that this one leaves."""


class LimitSettings(Settings):
    """What one trusted peer may ask of this one, so that it cannot block the others."""

    calls_per_minute: int = Field(12_000, ge=1)
    """Calls of one peer; so many at once after a minute of silence."""
    calls_at_once: int = Field(16, ge=1)
    """Parallel calls of one peer."""
    pulls_at_once: int = Field(2, ge=1)
    """Models that one peer receives at the same time."""
    pulls_at_once_in_all: int = Field(8, ge=1)
    """Models that all peers together receive at the same time; others wait in a queue."""
    bytes_per_minute: int = Field(4 * 2**30, ge=1)
    """Bytes of models that one peer receives."""
    slowest_bytes_per_second: int = Field(16 * 2**10, ge=1)
    """Slower transfers are aborted."""
    slow_start_seconds: float = Field(10.0, ge=0)
    """The time over which the speed of a transfer is measured."""
    scores_per_round: int = Field(50, ge=0)
    """Models that this peer scores for another within a round."""
    pushes_per_round: int = Field(4, ge=0)
    """Models that another peer may push to this one within a round."""
    largest_message_bytes: int = Field(2**20, ge=1)
    """Of a strategy's message that travels with a model, such as a similarity table."""
    samples_ratio: float = Field(10.0, ge=1)
    """A merge weighted by numbers of samples counts another peer for at most this multiple of this
    peer's own samples, whatever it claims: 1 lets no model count for more than the own one."""
    inbox_models: int = Field(16, ge=1)
    """Models of others that this peer receives at the same time, to score them or as pushes."""


class BreakerSettings(Settings):
    """When a peer that fails or wastes time gets no calls, and for how long."""

    failures: int = Field(3, ge=1)
    """Failures in a row before the first pause."""
    first_rest_seconds: float = Field(1.0, gt=0)
    """The first pause; each further one is twice as long."""
    longest_rest_seconds: float = Field(10.0, gt=0)
    """The longest pause after failures; it is short, so that a healed network is found soon."""
    patience_seconds: float = Field(3.0, ge=0)
    """Time that rounds with own pace may waste on a peer before they continue without it."""
    longest_pause_seconds: float = Field(900.0, gt=0)
    """The longest pause of a peer that has wasted time, however often it did."""


class TransportSettings(Settings):
    """Everything about the network between peers."""

    precision: Literal["float32", "bfloat16"] = "float32"
    """The precision of models in transit, if both sides accept it."""
    compression: Literal["none", "zstd"] = "none"
    """Whether models are compressed in transit, if both sides accept it."""
    deadlines: DeadlineSettings = DeadlineSettings()
    limits: LimitSettings = LimitSettings()
    breaker: BreakerSettings = BreakerSettings()
