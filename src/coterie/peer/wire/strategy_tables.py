"""Checks of a strategy's message that travels with a model: the tables that strategies read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from coterie.peer.refusals import Reason, Refused
from coterie.strategies.requests import PEERS, Range

Arrays = Mapping[str, npt.NDArray[Any]]


def require_tables(arrays: Arrays, ranges: Mapping[str, Range]) -> None:
    """Refuse a message that names a peer twice, or with an invalid table.

    Peers are ids here, (n, 32) bytes. `ranges` lists the tables that the strategy reads, with the
    range of their values; arrays with other names are not checked.
    """
    ids = arrays.get(PEERS)
    if ids is not None and len(np.unique(ids, axis=0)) != len(ids):
        raise Refused(Reason.MALFORMED, "a message that names a peer twice")
    for name, (low, high) in ranges.items():
        if name in arrays:
            _require_table(name, arrays[name], ids, low, high)


def _require_table(
    name: str, values: npt.NDArray[Any], ids: npt.NDArray[Any] | None, low: float, high: float
) -> None:
    if ids is None:
        _refuse(Reason.WRONG_NAMES, name, "does not name its peers")
    if values.dtype != np.float64:
        _refuse(Reason.WRONG_DTYPE, name, f"is {values.dtype}, expected float64")
    if values.shape != (len(ids),):
        _refuse(Reason.WRONG_SHAPE, name, f"is of shape {values.shape} for {len(ids)} peers")
    if not np.isfinite(values).all():
        _refuse(Reason.NOT_FINITE, name, "holds NaN or infinite numbers")
    if not ((values >= low) & (values <= high)).all():
        _refuse(Reason.MALFORMED, name, f"holds numbers that are not from {low:g} to {high:g}")


def _refuse(reason: Reason, name: str, what: str) -> NoReturn:
    raise Refused(reason, f"the table '{name}' of the message {what}")
