"""When a peer that does not answer is left alone, with a clock that is moved by hand."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.peer.discovery.circuit_breaker import BreakerState, CircuitBreaker
from coterie.peer.transport_settings import BreakerSettings


class Case:
    """A breaker and its clock."""

    def __init__(self, **given) -> None:
        self.now = 50.0
        settings = {"failures": 3, "first_rest_seconds": 1.0, "longest_rest_seconds": 10.0} | given
        self.breaker = CircuitBreaker(
            BreakerSettings(**settings), lambda: self.now, np.random.default_rng(0)
        )

    def fail(self, times: int = 1) -> None:
        for _ in range(times):
            self.breaker.record_failure()

    def rest_seconds(self) -> float:
        """Return how long it rests from now on."""
        begun_at = self.now
        while self.breaker.state is BreakerState.OPEN:
            self.now += 0.01
        return self.now - begun_at


def test_opens_after_failures_in_a_row():
    case = Case()
    case.fail(2)
    case.breaker.record_success()
    case.fail(2)
    assert case.breaker.state is BreakerState.CLOSED
    case.fail()
    assert case.breaker.state is BreakerState.OPEN
    assert not case.breaker.allow_call()


def test_after_a_rest_one_call_may_try():
    case = Case()
    case.fail(3)
    case.rest_seconds()
    assert case.breaker.state is BreakerState.HALF_OPEN
    assert [case.breaker.allow_call() for _ in range(3)] == [True, False, False]
    case.breaker.record_success()
    assert case.breaker.state is BreakerState.CLOSED
    assert all(case.breaker.allow_call() for _ in range(3))


def test_a_trial_of_which_nobody_hears_does_not_block_for_ever():
    case = Case()
    case.fail(3)
    case.rest_seconds()
    assert case.breaker.allow_call()
    case.rest_seconds()
    assert case.breaker.allow_call()


def test_rests_grow_with_jitter_up_to_the_longest():
    case = Case()
    case.fail(3)
    rests = []
    for _ in range(50):
        rests.append(case.rest_seconds())
        case.fail()
    for number, rest in enumerate(rests):
        longest = min(2.0**number, 10.0)
        assert longest / 2 - 0.02 <= rest <= longest + 0.02
    assert len({round(rest, 1) for rest in rests[10:]}) > 10, "there is no jitter"


def test_endless_failures_do_not_overflow():
    case = Case()
    case.fail(5000)
    assert case.rest_seconds() <= 10.02


def test_a_sign_of_life_shortens_a_long_rest_but_proves_nothing():
    case = Case(first_rest_seconds=1.0, longest_rest_seconds=1000.0)
    case.fail(20)
    case.breaker.record_sign_of_life()
    assert case.breaker.state is BreakerState.OPEN
    assert case.rest_seconds() <= 1.02
    assert case.breaker.allow_call()
    case.breaker.record_sign_of_life()
    assert not case.breaker.allow_call(), "there is a trial under way already"


def test_a_sign_of_life_changes_nothing_while_all_is_well():
    case = Case()
    case.fail(2)
    case.breaker.record_sign_of_life()
    case.fail()
    assert case.breaker.state is BreakerState.OPEN


@pytest.mark.parametrize("failures", [1, 2, 7])
def test_how_many_failures_is_a_setting(failures):
    case = Case(failures=failures)
    case.fail(failures - 1)
    assert case.breaker.allow_call()
    case.fail()
    assert not case.breaker.allow_call()
