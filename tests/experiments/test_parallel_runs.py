"""Work in processes of its own: messages, failures, kills and wishes to stop."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial

import psutil
import pytest

from coterie.errors import DataError, Interrupted, WorkerDied
from coterie.experiments import parallel_runs
from coterie.experiments.parallel_runs import ParallelRuns, ParentLink, Work

NEVER: Callable[[], bool] = lambda: False  # noqa: E731 — short for what is asked again and again


class Heard:
    """Everything that workers said, and how they ended."""

    def __init__(self) -> None:
        self.messages: dict[str, list[object]] = {}
        self.ends: dict[str, Exception | None] = {}

    def run(self, count: int, work: dict[str, Work], stop: Callable[[], bool] = NEVER) -> None:
        def listen(name: str, message: object) -> None:
            self.messages.setdefault(name, []).append(message)

        pool = ParallelRuns(count, on_message=listen, on_end=self.ends.__setitem__)
        pool.run(iter(work.items()), stop)


@pytest.fixture
def heard():
    """Return an empty record; after the test no process may be left."""
    before = set(psutil.Process().children())
    yield Heard()
    assert set(psutil.Process().children()) == before


def speak(link: ParentLink, *, words: list[str]) -> None:
    for word in words:
        link.send(word)


def meet(link: ParentLink, *, mine: str, others: str) -> None:
    """End only when another worker is running at the same time."""
    open(mine, "w").close()
    deadline = time.monotonic() + 20
    while not os.path.exists(others):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def wait_to_stop(link: ParentLink) -> None:
    link.send(os.getpid())
    while not link.asked_to_stop():
        time.sleep(0.01)
    raise Interrupted("as you wish")


def test_everything_said_is_heard_in_order(heard):
    heard.run(2, {name: partial(speak, words=[name, "x", "y"]) for name in "abcde"})
    assert heard.messages == {name: [name, "x", "y"] for name in "abcde"}
    assert heard.ends == dict.fromkeys("abcde")


def test_as_many_at_a_time_as_asked(heard, tmp_path):
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    heard.run(
        2, {"1": partial(meet, mine=one, others=two), "2": partial(meet, mine=two, others=one)}
    )
    assert heard.ends == {"1": None, "2": None}


def test_never_more_at_a_time_than_asked(heard):
    most = 0
    # Other tests leave a process to fork from behind, for those to come.
    before = set(psutil.Process().children())

    def count(link: ParentLink) -> None:
        time.sleep(0.1)

    def stop() -> bool:
        nonlocal most
        most = max(most, len(set(psutil.Process().children()) - before))
        return False

    heard.run(2, dict.fromkeys("abcdef", count), stop)
    assert len(heard.ends) == 6
    assert most == 2


def test_an_error_for_people_comes_with_its_notes(heard):
    def fail(link: ParentLink) -> None:
        error = DataError("no data")
        error.add_note("get some")
        raise error

    heard.run(2, {"bad": fail, "good": partial(speak, words=["fine"])})
    assert heard.ends["good"] is None
    assert type(heard.ends["bad"]) is DataError
    assert str(heard.ends["bad"]) == "no data"
    assert heard.ends["bad"].__notes__ == ["get some"]


def test_a_defect_comes_with_its_traceback(heard):
    heard.run(2, {"bad": lambda line: 1 / 0})
    assert isinstance(heard.ends["bad"], RuntimeError)
    assert "ZeroDivisionError" in str(heard.ends["bad"])
    assert "test_parallel_runs.py" in str(heard.ends["bad"])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGUSR1])
def test_a_killed_worker_is_reported(heard, number):
    heard.run(2, {"dead": lambda line: os.kill(os.getpid(), number), "well": lambda line: None})
    assert isinstance(heard.ends["dead"], WorkerDied)
    assert number.name in str(heard.ends["dead"])
    assert "--side-by-side" in str(heard.ends["dead"])
    assert heard.ends["well"] is None


def test_asked_to_stop_nothing_more_is_started(heard):
    heard.run(2, dict.fromkeys("abcd", wait_to_stop), lambda: len(heard.messages) == 2)
    assert set(heard.ends) == {"a", "b"}
    assert all(isinstance(error, Interrupted) for error in heard.ends.values())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_workers_leave_signals_to_their_parent(heard, number):
    """A terminal sends Ctrl-C to workers too; they go on until they are asked to stop."""
    signalled: list[float] = []

    def stop() -> bool:
        if "a" in heard.messages and not signalled:
            os.kill(heard.messages["a"][0], number)
            signalled.append(time.monotonic())
        return bool(signalled) and time.monotonic() > signalled[0] + 0.3

    heard.run(1, {"a": wait_to_stop}, stop)
    assert isinstance(heard.ends["a"], Interrupted)


def test_a_second_wish_to_stop_ends_all_at_once(heard):
    def stop() -> bool:
        if len(heard.messages) == 2:
            raise Interrupted("at once")
        return False

    def forever(link: ParentLink) -> None:
        link.send("here")
        time.sleep(60)

    with pytest.raises(Interrupted, match="at once"):
        heard.run(2, dict.fromkeys("ab", forever), stop)


def test_spawned_where_forks_are_not_safe(monkeypatch):
    monkeypatch.setattr(parallel_runs, "can_fork", lambda: False)
    heard = Heard()
    heard.run(1, {"a": partial(speak, words=["spawned"])})
    assert heard.messages == {"a": ["spawned"]}
    assert heard.ends == {"a": None}
