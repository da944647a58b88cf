"""What one peer may ask of another, with a clock that stands still until it is moved."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.peer.refusals import Reason, Refused
from coterie.peer.transport.call_limits import Pace, PeerLimits, TokenBucket
from coterie.peer.transport_settings import LimitSettings


class StillClock:
    """A clock that only moves when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


def test_tokens_are_used_up_and_grow_back(clock):
    bucket = TokenBucket(60, clock)
    assert sum(bucket.take() for _ in range(100)) == 60
    clock.now += 2.5
    assert sum(bucket.take() for _ in range(100)) == 2
    clock.now += 3600
    assert sum(bucket.take() for _ in range(100)) == 60, "more than a minute's worth was saved up"


def test_debts_are_paid_first(clock):
    bucket = TokenBucket(60, clock)
    bucket.spend(90)
    clock.now += 30
    assert not bucket.take()
    clock.now += 1
    assert bucket.take()


def test_a_clock_that_jumps_back_takes_nothing_away(clock):
    bucket = TokenBucket(60, clock)
    clock.now -= 600
    assert bucket.tokens == 60
    bucket.spend(60)
    clock.now += 1
    assert bucket.take()


@settings(deadline=None, derandomize=True, database=None)
@given(st.lists(st.tuples(st.floats(0, 30), st.integers(0, 50)), max_size=50))
def test_never_more_than_a_minutes_worth_and_what_grew_since(steps):
    clock = StillClock()
    begun_at = clock.now
    bucket = TokenBucket(30, clock)
    taken = 0
    for seconds, wanted in steps:
        clock.now += seconds
        taken += sum(bucket.take() for _ in range(wanted))
    assert taken <= 30 + (clock.now - begun_at) * 30 / 60 + 1e-6


def limits_of(clock: StillClock, **given) -> PeerLimits:
    return PeerLimits(LimitSettings(**given), clock)


def reason_of(context) -> Reason | None:
    try:
        with context:
            return None
    except Refused as rejected:
        return rejected.reason


def test_calls_are_limited_per_minute_and_peer(clock):
    limits = limits_of(clock, calls_per_minute=3)
    answers = [reason_of(limits.call("a")) for _ in range(5)]
    assert answers == [None, None, None, Reason.QUOTA, Reason.QUOTA]
    assert reason_of(limits.call("b")) is None, "one peer has used up what is another's"


def test_calls_at_once_are_limited_and_places_come_back(clock):
    limits = limits_of(clock, calls_at_once=2)
    with ExitStack() as stack:
        stack.enter_context(limits.call("a"))
        stack.enter_context(limits.call("a"))
        assert reason_of(limits.call("a")) is Reason.BUSY
        assert reason_of(limits.call("b")) is None
    assert reason_of(limits.call("a")) is None


def test_a_call_that_fails_gives_its_place_back(clock):
    limits = limits_of(clock, calls_at_once=1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), limits.call("a"):
            raise ZeroDivisionError
    assert reason_of(limits.call("a")) is None


def test_who_was_sent_too_much_waits(clock):
    limits = limits_of(clock, bytes_per_minute=600)
    with limits.pull("a"):
        limits.record_sent("a", 700)
    assert reason_of(limits.pull("a")) is Reason.QUOTA
    assert reason_of(limits.pull("b")) is None
    clock.now += 11
    assert reason_of(limits.pull("a")) is None


def test_pulls_at_once(clock):
    limits = limits_of(clock, pulls_at_once=1)
    with limits.pull("a"):
        assert reason_of(limits.pull("a")) is Reason.BUSY
        assert reason_of(limits.pull("b")) is None


def test_models_that_are_taken_in_at_once_by_peer_and_in_all(clock):
    limits = limits_of(clock, pulls_at_once=2, inbox_models=3)
    with ExitStack() as stack:
        for who in "aab":
            stack.enter_context(limits.accept_model(who))
        assert reason_of(limits.accept_model("a")) is Reason.BUSY
        assert reason_of(limits.accept_model("c")) is Reason.BUSY
    assert reason_of(limits.accept_model("a")) is None


@pytest.mark.parametrize("what", ["count_score", "count_push"])
def test_quota_per_round(clock, what):
    limits = limits_of(clock, scores_per_round=2, pushes_per_round=2)
    ask = getattr(limits, what)
    for round_number in (1, 2):
        ask("a", round_number)
        ask("a", round_number)
        with pytest.raises(Refused) as refused:
            ask("a", round_number)
        assert refused.value.reason is Reason.QUOTA
        ask("b", round_number)


def test_who_is_not_trusted_any_more_is_forgotten(clock):
    limits = limits_of(clock)
    for number in range(100):
        assert reason_of(limits.call(f"peer {number}")) is None
    limits.forget_others({"peer 1", "peer 2"})
    assert len(limits) == 2


def test_a_transfer_may_be_slow_at_first_but_not_for_ever(clock):
    pace = Pace(LimitSettings(slowest_bytes_per_second=100, slow_start_seconds=10), clock)
    assert pace.seconds_left is None, "who waits in line is not slow"
    clock.now += 100
    pace.begin()
    assert pace.seconds_left == 10
    clock.now += 8
    pace.begin()
    pace.record_progress(500)
    assert pace.seconds_left == pytest.approx(7)
    clock.now += 100
    assert pace.seconds_left == 0


def test_what_came_fast_earlier_gives_no_credit_for_a_pause(clock):
    pace = Pace(LimitSettings(slowest_bytes_per_second=100, slow_start_seconds=10), clock)
    pace.begin()
    pace.record_progress(10**6)
    clock.now += 1
    pace.record_progress(200)
    assert pace.seconds_left == pytest.approx(10 + 2)


def test_single_bytes_do_not_prolong_a_transfer(clock):
    pace = Pace(LimitSettings(slowest_bytes_per_second=100, slow_start_seconds=10), clock)
    pace.begin()
    for _ in range(10):
        clock.now += 1
        pace.record_progress(1)
    assert pace.seconds_left == pytest.approx(0.1)
