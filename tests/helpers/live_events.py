"""Viewers of the live page: they read server-sent events from a real socket, as a browser does."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

PATIENCE_SECONDS = 60.0


def address_of(process: subprocess.Popen[str]) -> str:
    """Wait until a started command prints the address of its page; return it."""
    for line in process.stderr:
        found = re.search(r"http://127\.0\.0\.1:\d+/", line)
        if found:
            return found[0]
    raise AssertionError("it ended without an address")


class Viewer(threading.Thread):
    """Receives all events until the end."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._where = urlsplit(address)
        self.parts: dict[str, Any] = {}
        self.texts: list[str] = []
        self.num_sent: dict[str, int] = {}
        self.names: list[str] = []
        self.start()

    def run(self) -> None:
        connection = http.client.HTTPConnection(self._where.hostname, self._where.port, timeout=60)
        connection.request("GET", "/events")
        for event, data in events(connection.getresponse()):
            self.names.append(event)
            if event == "update":
                self._take_in(json.loads(data))
        connection.close()

    def wait_for(self, condition: Callable[[Viewer], bool]) -> None:
        """Wait until the events received so far meet a condition."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition(self):
            assert time.monotonic() < deadline, (self.names, self.texts[-3:])
            time.sleep(0.02)

    def _take_in(self, update: dict[str, Any]) -> None:
        for name in update["parts"]:
            self.num_sent[name] = self.num_sent.get(name, 0) + 1
        known = {**self.parts, **update["parts"]}
        self.parts = {name: known[name] for name in update["names"]}
        self.texts.append(self.parts["progress"]["text"])


def events(response: http.client.HTTPResponse) -> Iterator[tuple[str, str]]:
    """Yield the name and the data of each event."""
    event = ""
    for line in response:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "event":
            event = value
        elif name == "data":
            yield event, value
