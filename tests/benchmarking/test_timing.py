"""How benchmarks are timed: candidates in turn, CPU time, the best repeat."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from coterie.benchmarking.timing import CompiledTime, best_rates, time_compiled_code


def burn(seconds: float) -> None:
    """Spend CPU time in this thread."""
    begun = time.thread_time()
    while time.thread_time() - begun < seconds:
        pass


def test_every_repeat_runs_all_sides_in_turn():
    ran = []
    candidates = {name: lambda name=name: ran.append(name) or 1 for name in "abc"}
    best_rates(candidates, 2, lambda: ran.append("tick"))
    assert ran == ["a", "b", "c", "tick", "a", "b", "c", "tick"]


def test_the_best_repeat_counts_and_waiting_does_not():
    efforts = iter([0.1, 0.02, 0.1])

    def work() -> int:
        time.sleep(0.15)
        burn(next(efforts))
        return 100

    rate = best_rates({"side": work}, 3, lambda: None)["side"]
    assert 100 / 0.1 < rate <= 100 / 0.02


def test_time_in_compiled_code_is_summed_over_threads():
    """Only what happens in the library counts, and the CPU time of one thread not for another."""
    library = SimpleNamespace(train=burn, evaluate=time.sleep)
    compiled = CompiledTime()
    with time_compiled_code(library, compiled), ThreadPoolExecutor(2) as threads:
        list(threads.map(library.train, [0.05, 0.05]))
        threads.submit(library.evaluate, 0.1).result()
        burn(0.05)
    assert compiled.seconds == pytest.approx(0.1, abs=0.03)


def test_the_library_is_as_before_even_after_an_error():
    def refuse() -> None:
        raise ValueError

    library = SimpleNamespace(train=refuse, evaluate=len)
    with pytest.raises(ValueError), time_compiled_code(library, CompiledTime()):  # noqa: PT011
        library.train()
    assert (library.train, library.evaluate) == (refuse, len)
