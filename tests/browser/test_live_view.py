"""The live page in a real browser: it renders, follows a run, and makes no other requests."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from commands import end, start
from live_events import address_of
from watching_runs import create


def said(page, text: str) -> None:
    """Wait until the page says something."""
    page.locator("#live-status", has_text=text).wait_for(timeout=90_000)


@contextmanager
def held_early(process: subprocess.Popen[str], run: Path) -> Iterator[None]:
    """Hold a run once it has recorded some rounds: a slow browser would only see its end."""
    deadline = time.monotonic() + 60
    while len(list(run.glob("metrics/*.parquet"))) < 2 and not (run / "metrics.parquet").exists():
        assert time.monotonic() < deadline, "the run has recorded nothing"
        time.sleep(0.02)
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:  # otherwise the run would stay stopped
        process.send_signal(signal.SIGCONT)


def test_a_run_is_followed_from_before_it_begins_until_its_end(browser, tmp_path):
    folder = tmp_path / "out"
    watcher = start("watch", folder)
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    faults: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    try:
        address = address_of(watcher)
        page.goto(address)
        words = page.locator("#live-status")
        said(page, "there is no such folder yet")
        create(folder, ["local", "dac"], [0], **{"rounds": 60, "strategy.fetches": 2})
        run = start("resume", folder, "--threads", 1)
        with held_early(run, folder / "local-seed0"):
            curves = page.locator("#curves .scatterlayer path")
            curves.first.wait_for(state="attached", timeout=60_000)
            early = page.locator("#curves .picture").inner_html()
            assert "rounds" in words.inner_text()
        said(page, "2 of 2 runs done, finished")
        assert end(run).code == 0
        page.wait_for_function(
            "early => document.querySelector('#curves .picture').innerHTML !== early", arg=early
        )
        assert page.locator("#live-progress").evaluate("bar => bar.value === bar.max")
        page.locator("#graph").scroll_into_view_if_needed()
        page.locator("#graph circle").first.wait_for(state="attached")
        assert page.locator("#graph circle").count() == 8
        narrow = browser.new_page(viewport={"width": 400, "height": 800})
        narrow.goto(address)
        narrow.locator("#curves .scatterlayer path").first.wait_for(state="attached")
        assert narrow.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        narrow.close()
    finally:
        watcher.send_signal(signal.SIGINT)
        answer = end(watcher)
    assert answer.code == 0
    said(page, "has ended")
    assert f"coterie watch {folder}" in words.inner_text()
    assert page.locator("#curves .scatterlayer path").count() > 0
    page.close()
    assert faults == []
    assert all(url.startswith((address, "data:", "blob:")) for url in asked)
