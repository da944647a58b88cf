"""The settings of the network between peers: deadlines, limits, rests."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from coterie.settings import Settings


class DeadlineSettings(Settings):
    """How long a peer waits for others before it goes on without them."""

    connect_seconds: float = Field(5.0, gt=0, le=600)
    """For a connection to be made, handshake included."""
    call_seconds: float = Field(10.0, gt=0, le=600)
    """For a short call to be answered, beyond what it was asked to wait."""
    fetch_seconds: float = Field(60.0, gt=0, le=600)
    """For a model to arrive, and to be sent."""
    score_seconds: float = Field(60.0, gt=0, le=600)
    """For somebody to pull my model and to score it on its data."""
    round_seconds: float = Field(60.0, gt=0)
    """For others to reach the same point of a round, where rounds are aligned."""
    goodbye_seconds: float = Field(2.0, gt=0, le=600)
    """For telling everybody that this peer leaves."""


class LimitSettings(Settings):
    """What any one trusted peer may ask of this one, so that no one keeps it from the others."""

    calls_per_minute: int = Field(12_000, ge=1)
    """Calls of one peer; so many at once after a minute of silence."""
    calls_at_once: int = Field(16, ge=1)
    """Calls of one peer that are being answered at the same time."""
    pulls_at_once: int = Field(2, ge=1)
    """Models that one peer receives at the same time."""
    pulls_at_once_in_all: int = Field(8, ge=1)
    """Models that all peers together receive at the same time; others wait in line."""
    bytes_per_minute: int = Field(4 * 2**30, ge=1)
    """Bytes of models that one peer receives."""
    slowest_bytes_per_second: int = Field(16 * 2**10, ge=1)
    """A transfer that is slower than this is given up."""
    slow_start_seconds: float = Field(10.0, ge=0)
    """The time over which the speed of a transfer is measured."""
    scores_per_round: int = Field(50, ge=0)
    """Models that this peer scores for another within a round."""
    pushes_per_round: int = Field(4, ge=0)
    """Models that another may push to this peer within a round."""
    largest_message_bytes: int = Field(2**20, ge=1)
    """Of what a strategy says along with a model, such as a similarity table."""
    samples_ratio: float = Field(10.0, ge=1)
    """A merge by numbers of samples takes another for at most so many times my own number of
    samples, whatever it says: 1 lets no model count for more than mine."""
    inbox_models: int = Field(16, ge=1)
    """Models of others that this peer takes in at the same time, to score them or as pushes."""


class BreakerSettings(Settings):
    """When a peer that does not answer, or wastes time, is left alone, and for how long."""

    failures: int = Field(3, ge=1)
    """After so many failures in a row."""
    first_rest_seconds: float = Field(1.0, gt=0)
    """The first rest; each further one is twice as long."""
    longest_rest_seconds: float = Field(10.0, gt=0)
    """No rest is longer, so that a healed network is found soon."""
    patience_seconds: float = Field(3.0, ge=0)
    """Rounds at their own pace wait so long in vain for a peer before they go on without it."""
    longest_pause_seconds: float = Field(900.0, gt=0)
    """For no longer is a peer left alone that has wasted time, however often it has."""


class TransportSettings(Settings):
    """Everything about the network between peers."""

    precision: Literal["float32", "bfloat16"] = "float32"
    """What models are rounded to on the way, if both sides are willing."""
    compression: Literal["none", "zstd"] = "none"
    """Whether models are compressed on the way, if both sides are willing."""
    deadlines: DeadlineSettings = DeadlineSettings()
    limits: LimitSettings = LimitSettings()
    breaker: BreakerSettings = BreakerSettings()
