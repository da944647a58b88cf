"""Connects to a Ray cluster, or starts Ray on this computer.

Ray trusts its cluster: who can reach it can execute code on it. So Coterie never opens a cluster to
a network by itself.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from coterie.cluster.shipping import forget_shipped_data
from coterie.errors import ConfigError
from coterie.storage.files import reason_of

AUTO = "auto"
"""The address that joins the cluster this computer belongs to."""
REACH_SECONDS = 5.0
"""The longest time until a cluster must answer. Ray itself would try for two minutes."""
_START_CLUSTER = "Start one with: ray start --head"


@dataclass(frozen=True)
class ClusterInfo:
    """A cluster to which this process is connected."""

    address: str
    is_own: bool
    """Whether this process started it, on this computer only."""
    num_nodes: int
    num_cpus: int
    """Of all nodes together."""


def require_ray() -> None:
    """Refuse to continue without Ray; the error says how to install it."""
    if find_spec("ray") is None:
        raise ConfigError("Runs on a cluster need Ray. Install it: pip install 'coterie[ray]'")


@contextmanager
def connect(
    address: str | None, tell: Callable[[str], None], *, num_cpus: int | None = None
) -> Iterator[ClusterInfo]:
    """Connect to a cluster; at the end, disconnect from it or stop it, as it was before.

    Parameters
    ----------
    address
        None starts Ray on this computer; "auto" joins the cluster this computer belongs to;
        otherwise HOST:PORT of a cluster. A connection that this process has is used again.
    tell
        Shows a message to the user.
    num_cpus
        How many CPUs a new local cluster has; by default all cores of this computer.
    """
    require_ray()
    # Before the import, which reads it: no usage statistics are sent.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    was_connected = ray.is_initialized()
    try:
        if address is not None:
            _check_address(address)
        if not was_connected:
            with _keep_signal_handlers(), _silence_ray():
                _initialise(address, num_cpus)
        info = _describe(is_own=address is None and not was_connected)
        if not info.is_own:
            tell(f"Using the Ray cluster at {info.address}: {_size(info)}.")
        yield info
    finally:
        forget_shipped_data()
        if not was_connected:
            ray.shutdown()


def alive_nodes() -> list[dict[str, Any]]:
    """Return what Ray knows about each node of the cluster that is alive."""
    import ray

    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [node for node in nodes if node["Alive"]]


def _initialise(address: str | None, num_cpus: int | None) -> None:
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        # "local", because otherwise RAY_ADDRESS would name a cluster to join.
        ray.init("local", num_cpus=num_cpus, include_dashboard=False, **quiet)
        return
    try:
        ray.init(address, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise _explain_failure(address, error) from None


def _check_address(address: str) -> None:
    """Refuse an address where nothing answers."""
    if address.startswith("ray://"):
        raise ConfigError(
            f"--address {address}: Ray Client addresses cannot be used. Run the command on a "
            "computer of the cluster, with --address auto."
        )
    reached = _find_cluster() if address == AUTO else address
    host, _, port = reached.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError(
            f"--address {address}: expected {AUTO}, or HOST:PORT such as 10.0.0.1:6379."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"No Ray cluster answers at {reached}: {reason_of(error)}. Check the address and the "
            f"port; ray status shows whether a cluster runs. {_START_CLUSTER}"
        ) from None


def _find_cluster() -> str:
    """Return the address of the cluster this computer belongs to."""
    from ray._private.services import canonicalize_bootstrap_address_or_die

    try:
        return str(canonicalize_bootstrap_address_or_die(AUTO))
    except (ConnectionError, ValueError):
        raise ConfigError(
            f"--address {AUTO}: this computer belongs to no Ray cluster. {_START_CLUSTER}, give "
            "the address of a cluster as HOST:PORT, or leave out --address to use this computer "
            "alone."
        ) from None


def _explain_failure(address: str, error: Exception) -> ConfigError:
    first = str(error).strip().partition("\n\n")[0].replace("\n", " ")
    if "ersion mismatch" in str(error):
        first = "the versions of Ray and Python must be the same on all computers. " + first
    return ConfigError(
        f"The Ray cluster at {address} cannot be joined: {first.rstrip('.')}. If it needs a token, "
        "copy ~/.ray/auth_token from its first computer to this one and set RAY_AUTH_MODE=token."
    )


def _describe(*, is_own: bool) -> ClusterInfo:
    import ray

    nodes = alive_nodes()
    return ClusterInfo(
        address=ray.get_runtime_context().gcs_address,
        is_own=is_own,
        num_nodes=len(nodes),
        num_cpus=int(sum(node["Resources"].get("CPU", 0) for node in nodes)),
    )


def _size(info: ClusterInfo) -> str:
    nodes = "1 node" if info.num_nodes == 1 else f"{info.num_nodes} nodes"
    return f"{nodes} with {info.num_cpus} CPU{'s' * (info.num_cpus != 1)}"


@contextmanager
def _keep_signal_handlers() -> Iterator[None]:
    """Keep this process's signal handlers, and let a new local cluster ignore SIGHUP.

    A closed terminal sends SIGHUP to Ray's processes too, but they must last until this process has
    saved the runs. Ray itself protects them from Ctrl-C.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGHUP) if hasattr(signal, "SIGHUP") else (signal.SIGTERM,)
    before = {number: signal.getsignal(number) for number in numbers}
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextmanager
def _silence_ray() -> Iterator[None]:
    """Show no notes of Ray, only errors."""
    logger = logging.getLogger("ray")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
