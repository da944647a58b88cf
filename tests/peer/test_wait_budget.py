"""When rounds go on without a peer that wastes their time, with a clock that is moved by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from coterie.peer.discovery.wait_budget import FORGIVEN_SHARE, WaitBudget
from coterie.peer.transport_settings import BreakerSettings

SETTINGS = BreakerSettings()
HOUR = 3600.0


class Case:
    """One peer's account and its clock."""

    def __init__(self, settings: BreakerSettings = SETTINGS) -> None:
        self.now = 1000.0
        self.wait_budget = WaitBudget(settings, lambda: self.now)

    def waste(self, seconds: float) -> None:
        self.now += seconds
        self.wait_budget.record_waste(seconds)

    def rest_seconds(self) -> float:
        """Return how long it rests from now on."""
        begun_at = self.now
        while not self.wait_budget.is_due:
            self.now += 0.5
        return self.now - begun_at

    def rest_and_try(self, *, is_well: bool) -> float:
        seconds = self.rest_seconds()
        self.wait_budget.record_trial(is_well=is_well)
        return seconds


def test_a_little_waste_is_no_reason():
    case = Case()
    case.waste(SETTINGS.patience_seconds)
    assert not case.wait_budget.is_resting
    case.waste(0.5)
    assert case.wait_budget.is_resting
    assert not case.wait_budget.is_due


def test_waste_is_forgiven_as_time_passes():
    case = Case()
    case.waste(SETTINGS.patience_seconds)
    case.now += SETTINGS.patience_seconds / FORGIVEN_SHARE
    case.waste(SETTINGS.patience_seconds)
    assert not case.wait_budget.is_resting


def test_rests_are_as_long_as_what_was_wasted_and_longer_after_trials_that_fail():
    case = Case()
    case.waste(10.0)
    rests = [case.rest_and_try(is_well=False) for _ in range(5)]
    assert rests == pytest.approx([10, 20, 40, 60, 60], abs=0.5), "it is not found soon when back"
    case = Case()
    case.waste(100.0)
    assert [case.rest_and_try(is_well=False) for _ in range(2)] == pytest.approx([100, 100])


def test_rests_grow_with_every_relapse():
    case = Case()
    rests = []
    for _ in range(6):
        case.waste(10.0)
        rests.append(case.rest_and_try(is_well=True))
    assert rests == pytest.approx([10, 40, 160, 640, 640, 640], abs=0.5)


def test_no_rest_is_longer_than_the_longest():
    case = Case(BreakerSettings(longest_pause_seconds=25.0))
    case.waste(10.0)
    for is_well in (True, False) * 1000:
        assert case.rest_and_try(is_well=is_well) <= 25.5
        case.waste(10.0)


def test_a_trial_that_goes_well_ends_the_rest():
    case = Case()
    case.waste(10.0)
    case.rest_and_try(is_well=True)
    assert not case.wait_budget.is_resting
    assert not case.wait_budget.is_due


def test_what_is_long_ago_is_forgotten():
    case = Case()
    case.waste(10.0)
    case.rest_and_try(is_well=True)
    case.now += SETTINGS.longest_pause_seconds + 1
    case.waste(10.0)
    assert case.rest_seconds() == pytest.approx(10, abs=0.5)


def test_answers_that_come_late_from_several_calls_count_once_it_rests():
    case = Case()
    for _ in range(5):
        case.wait_budget.record_waste(10.0)  # calls that went on at the same time
    assert case.rest_seconds() == pytest.approx(10, abs=0.5)


def test_a_trial_that_ends_after_the_rest_was_ended_changes_nothing():
    case = Case()
    case.wait_budget.record_trial(is_well=False)
    assert not case.wait_budget.is_resting


def always() -> Iterator[bool]:
    return itertools.repeat(False)


def every_second_time() -> Iterator[bool]:
    return itertools.cycle([True, False])


def at_random() -> Iterator[bool]:
    rng = np.random.default_rng(0)
    while True:
        yield bool(rng.random() < 0.5)


@pytest.mark.parametrize("behaviour", [always, every_second_time, at_random])
@pytest.mark.parametrize("stall_seconds", [0.5, 3.0, 20.0, 70.0])
def test_whatever_it_does_a_peer_costs_rounds_little_of_their_time(
    behaviour: Callable[[], Iterator[bool]], stall_seconds: float
):
    """Rounds of a second, in each of which it is asked; trials beside them take no time."""
    case = Case()
    answers = behaviour()
    begun_at = case.now
    wasted = 0.0
    while case.now < begun_at + 4 * HOUR:
        if case.wait_budget.is_due:
            case.wait_budget.record_trial(is_well=next(answers))
        if not case.wait_budget.is_resting and not next(answers):
            case.waste(stall_seconds)
            if case.now > begun_at + HOUR:
                wasted += stall_seconds
        case.now += 1.0
    assert wasted / (case.now - begun_at - HOUR) < 0.1
