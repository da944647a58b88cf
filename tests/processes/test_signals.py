"""Requests to stop: each is noticed once, and what was inherited as ignored stays ignored."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from coterie.errors import Interrupted, TrainingError
from coterie.processes.signals import (
    SAME_REQUEST_SECONDS,
    SIGNAL_NAMES,
    StopRequest,
    handle_signals,
    interrupted_by_signals,
    stop_by_signal,
    stop_source,
)

every_signal = pytest.mark.parametrize("number", SIGNAL_NAMES, ids=SIGNAL_NAMES.values())


@contextmanager
def ignored(number: int) -> Iterator[None]:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


@every_signal
def test_a_request_is_told_once_and_says_how_it_came(number):
    messages: list[str] = []
    with stop_by_signal(messages.append) as asked:
        assert not asked()
        signal.raise_signal(number)
        assert asked()
    assert stop_source(asked) == SIGNAL_NAMES[number]
    assert len(messages) == 1


@every_signal
def test_what_is_ignored_stays_ignored(number):
    with ignored(number), interrupted_by_signals(), stop_by_signal(pytest.fail) as asked:
        signal.raise_signal(number)
        assert not asked()


@every_signal
def test_handlers_are_given_back(number):
    before = signal.getsignal(number)
    with interrupted_by_signals(), stop_by_signal(len):
        assert signal.getsignal(number) is not before
    assert signal.getsignal(number) is before


def test_only_ctrl_c_again_stops_at_once():
    """A shell sends SIGHUP again to its jobs, and `timeout` SIGTERM to its group."""
    with stop_by_signal(len) as asked:
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGHUP, signal.SIGHUP):
            signal.raise_signal(number)
        assert asked()
        with pytest.raises(Interrupted, match="at once"):
            signal.raise_signal(signal.SIGINT)


def test_sigterm_much_later_stops_at_once(monkeypatch):
    with stop_by_signal(len) as asked:
        signal.raise_signal(signal.SIGTERM)
        monkeypatch.setattr(asked, "_made_at", asked._made_at - 2 * SAME_REQUEST_SECONDS)
        with pytest.raises(Interrupted, match="at once"):
            signal.raise_signal(signal.SIGTERM)


@every_signal
def test_a_request_that_was_never_noticed_is_passed_on(number):
    with pytest.raises(Interrupted, match=SIGNAL_NAMES[number]), stop_by_signal(len):
        signal.raise_signal(number)


def test_a_failure_does_not_hide_a_request():
    def diverge() -> None:
        with stop_by_signal(len):
            signal.raise_signal(signal.SIGINT)
            raise TrainingError("diverged")

    with pytest.raises(Interrupted) as stopped:
        diverge()
    assert str(stopped.value.__cause__) == "diverged"


def test_a_request_that_could_not_be_raised_is_not_lost(monkeypatch):
    """In a destructor Python prints an exception and goes on."""

    class Fragile:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    def begin() -> None:
        with stop_by_signal(pytest.fail):
            pytest.fail("this must not begin")

    with interrupted_by_signals():
        monkeypatch.setattr(sys, "unraisablehook", lambda messages: None)
        fragile = Fragile()
        del fragile
        with pytest.raises(Interrupted, match="Ctrl-C"):
            begin()


def test_a_message_that_cannot_be_written_stops_nothing():
    def fail(message: str) -> None:
        raise OSError("the terminal is gone")

    with stop_by_signal(fail) as asked:
        signal.raise_signal(signal.SIGHUP)
        assert asked()


def test_the_output_of_a_closed_terminal_goes_nowhere():
    """Whatever is printed after the terminal was closed would be an error otherwise."""
    program = """
import os, pty, sys, time
from coterie.processes.signals import stop_by_signal

child, terminal = pty.fork()
if child:
    assert b"ready" in os.read(terminal, 100)
    os.close(terminal)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
with stop_by_signal(print) as asked:
    print("ready", flush=True)
    while not asked():  # no pause(): the signal may come just before it
        time.sleep(0.01)
    print("a message", flush=True)
os._exit(7)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert done.returncode == 7


def test_a_request_without_a_signal_is_named_like_the_usual_one():
    assert stop_source(lambda: True) == stop_source(StopRequest()) == "Ctrl-C"


def test_handlers_of_others_come_back_after_an_exception():
    before = {number: signal.getsignal(number) for number in SIGNAL_NAMES}

    def fail(number: int, frame: object) -> None:
        raise Interrupted("now")

    with pytest.raises(Interrupted), handle_signals(fail):
        os.kill(os.getpid(), signal.SIGTERM)
    assert {number: signal.getsignal(number) for number in SIGNAL_NAMES} == before
