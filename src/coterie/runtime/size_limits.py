"""Refuses sizes that this computer cannot hold, before anything is allocated."""

from __future__ import annotations

import psutil

from coterie.errors import ConfigError

MAX_RUNS = 10_000
"""The largest number of runs of one command."""
MAX_THREADS = 1024
"""Threads or processes that may train at the same time."""
VALUE_BYTES, ROW_BYTES = 4, 8
"""The size of a model's value, and of the number of a sample."""
MATRICES = 3
"""Models that each peer has: its working, its published and its best one."""


def check_number_of_runs(count: int, what: str) -> None:
    """Refuse too many runs."""
    if count > MAX_RUNS:
        raise ConfigError(
            f"{what} are {count:,} runs, but one command can have at most {MAX_RUNS:,}. Use fewer, "
            "or several commands."
        )


def check_models(
    num_peers: int,
    size: int,
    num_server_models: int = 0,
    *,
    compares_bests: bool = False,
    shared_bytes: int = 0,
) -> None:
    """Refuse more models than fit into memory, beside a frozen part that all peers share."""
    per_peer = size * VALUE_BYTES * (MATRICES + compares_bests)
    needed = per_peer * num_peers + size * VALUE_BYTES * num_server_models + shared_bytes
    fitting = max(_memory() - shared_bytes, 0) // per_peer
    advice = f"At most {fitting:,} such peers fit. Lower peers.count, or use a smaller model."
    if num_server_models * size * VALUE_BYTES > _memory():
        advice = "Lower the number of models of the server."
    check_memory(
        needed,
        f"{num_peers:,} peers with models of {size:,} values "
        f"({MATRICES + compares_bests} models each"
        f"{f', and {num_server_models:,} of the server' if num_server_models > 1 else ''})",
        advice,
    )


def check_epochs(epochs: int, train_size: int, key: str) -> None:
    """Refuse more epochs than those whose order of samples fits into memory."""
    check_memory(
        epochs * train_size * ROW_BYTES,
        f"{key} = {epochs:,}: the order of {train_size:,} samples in all epochs",
        "Lower it.",
    )


def check_memory(needed: int, what: str, advice: str) -> None:
    """Refuse what needs more bytes than this computer has."""
    if needed > _memory():
        raise ConfigError(
            f"{what} would need {_written(needed)} of memory, but this computer has "
            f"{_written(_memory())}. {advice}"
        )


def _memory() -> int:
    return int(psutil.virtual_memory().total)


def _written(size: int) -> str:
    return f"{size / 1e9:,.0f} GB" if size >= 1e10 else f"{size / 1e9:.1f} GB"
