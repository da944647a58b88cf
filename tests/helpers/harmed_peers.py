"""Peers on computers whose training and disk can be held up from outside, in networks of their own.

What their processes need to know and nothing more: each loads this module anew.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

HOLD, HELD = "hold", "held"
"""While a file of the first name is in a peer's folder it stops at the step named in it, once it
has done that step as often as said there, and tells so by the second."""
TRAIN, SAVE = "train", "save"
NEW_NETWORK = 0x40000000


def run_harmed(folder: str, namespace: str | None) -> None:
    """Be the peer of a folder."""
    from coterie.learning.native.native_trainer import NativeTrainer
    from coterie.swarm import peer_processes

    if namespace is not None:
        _enter_network(namespace)
    train, synchronise = NativeTrainer.train, os.fsync
    num_done = Counter[str]()

    def slow_train(self: NativeTrainer, jobs: Any) -> list[float]:
        _wait_if_held(Path(folder), TRAIN, num_done)
        return train(self, jobs)

    def slow_synchronise(descriptor: int) -> None:
        if "/checkpoints/" in os.readlink(f"/proc/self/fd/{descriptor}"):
            _wait_if_held(Path(folder), SAVE, num_done)
        synchronise(descriptor)

    NativeTrainer.train = slow_train  # type: ignore[method-assign]
    os.fsync = slow_synchronise
    peer_processes._run(folder)


def _wait_if_held(folder: Path, step: str, num_done: Counter[str]) -> None:
    hold = folder / HOLD
    num_done[step] += 1
    try:
        held, count = hold.read_text().split()
    except (FileNotFoundError, ValueError):  # it is not there, or being written
        return
    if held != step or num_done[step] <= int(count):
        return
    (folder / HELD).touch()
    while hold.exists():
        time.sleep(0.01)


def _enter_network(namespace: str) -> None:
    """Move this process, which has one thread yet, into a network namespace."""
    descriptor = os.open(namespace, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "cannot enter the network namespace")
    finally:
        os.close(descriptor)
