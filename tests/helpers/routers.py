"""A network of its own for every peer, and a router between them that loses, delays and cuts."""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import select
import shutil
import struct
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from harmed_peers import NEW_NETWORK

_MAKE_INTERFACE = 0x400454CA
_POINT_TO_POINT, _NO_INFORMATION = 0x0001, 0x1000
_LARGEST_PACKET = 65536
Pair = tuple[int, int]


class Router:
    """Namespaces 10.77.0.1, 10.77.0.2, …: each host's packets come here and are passed on.

    A kernel may come without what delays or drops packets, so it is done here, packet by packet;
    above them it is the kernel's own TCP that runs into trouble.
    """

    def __init__(self, num_hosts: int) -> None:
        self.loss = 0.0
        self.delay_seconds = 0.0
        self.is_cut: Callable[[int, int], bool] = lambda source, target: False
        self.passed: Counter[Pair] = Counter()
        """How many packets, by host from and to."""
        self.lost: Counter[Pair] = Counter()
        self.cut: Counter[Pair] = Counter()
        self._random = np.random.default_rng(0)
        self._waiting: list[tuple[float, int, Pair, bytes]] = []
        self._num_seen = 0
        self._interfaces: list[int] = []
        self._namespaces: list[int] = []
        self._wake, self._stop = os.pipe()
        worker = threading.Thread(target=self._make_all, args=(num_hosts,))
        worker.start()
        worker.join()
        if len(self._interfaces) < num_hosts:
            self._close_all()
            pytest.skip(f"no network namespaces can be made here: {self._problem}")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Router:
        return self

    def __exit__(self, *_: object) -> None:
        os.write(self._stop, b"x")
        self._thread.join()
        self._close_all()

    def address(self, host: int) -> str:
        return f"10.77.0.{host + 1}"

    def namespace(self, host: int) -> str:
        return f"/proc/{os.getpid()}/fd/{self._namespaces[host]}"

    def _make_all(self, num_hosts: int) -> None:
        """Make all hosts, in a thread that is thrown away with the last one's namespace."""
        self._problem = ""
        if shutil.which("ip") is None:
            self._problem = "there is no command ip"
            return
        try:
            for host in range(num_hosts):
                self._make(host)
        except (OSError, subprocess.CalledProcessError) as error:
            self._problem = str(error)

    def _make(self, host: int) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        if library.unshare(NEW_NETWORK):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._namespaces.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY))
        interface = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        self._interfaces.append(interface)
        request = struct.pack("16sH22x", b"tun0", _POINT_TO_POINT | _NO_INFORMATION)
        fcntl.ioctl(interface, _MAKE_INTERFACE, request)
        for command in (
            ["ip", "link", "set", "lo", "up"],
            ["ip", "address", "add", f"{self.address(host)}/24", "dev", "tun0"],
            ["ip", "link", "set", "tun0", "up"],
        ):
            subprocess.run(command, check=True, capture_output=True)

    def _close_all(self) -> None:
        for descriptor in (*self._interfaces, *self._namespaces, self._wake, self._stop):
            os.close(descriptor)

    def _run(self) -> None:
        hosts = {descriptor: host for host, descriptor in enumerate(self._interfaces)}
        while True:
            ready, _, _ = select.select([self._wake, *hosts], [], [], self._patience())
            if self._wake in ready:
                return
            for descriptor in ready:
                self._take(hosts[descriptor], os.read(descriptor, _LARGEST_PACKET))
            while self._waiting and self._waiting[0][0] <= time.monotonic():
                _, _, pair, packet = heapq.heappop(self._waiting)
                self._pass_on(pair, packet)

    def _patience(self) -> float | None:
        if not self._waiting:
            return None
        return max(self._waiting[0][0] - time.monotonic(), 0.0)

    def _take(self, source: int, packet: bytes) -> None:
        target = packet[19] - 1
        is_known = packet[0] >> 4 == 4 and packet[16:19] == b"\x0a\x4d\x00"
        if not is_known or not 0 <= target < len(self._interfaces):
            return  # such as what IPv6 says to whoever is there
        pair = source, target
        if self.is_cut(source, target):
            self.cut[pair] += 1
        elif self._random.random() < self.loss:
            self.lost[pair] += 1
        elif self.delay_seconds:
            self._num_seen += 1
            due = time.monotonic() + self.delay_seconds
            heapq.heappush(self._waiting, (due, self._num_seen, pair, packet))
        else:
            self._pass_on(pair, packet)

    def _pass_on(self, pair: Pair, packet: bytes) -> None:
        try:
            os.write(self._interfaces[pair[1]], packet)
        except BlockingIOError:
            self.lost[pair] += 1
        else:
            self.passed[pair] += 1
