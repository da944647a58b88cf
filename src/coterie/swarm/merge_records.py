"""Joins the records of peers, each with its own numbers, to rounds as a simulation has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError

from coterie.data.peer_datasets import PeerDatasets
from coterie.errors import StorageError
from coterie.experiments.growing_tables import GrowingTables
from coterie.peer.peer_run import PEERS, RUN
from coterie.runtime.estimate_records import recorded_peers
from coterie.runtime.exchange_log import ExchangeLog
from coterie.runtime.round import MEASURES, Columns, Round
from coterie.runtime.run_tables import SCHEMAS
from coterie.storage.files import read_small
from coterie.strategies.strategy import GroundTruth

NUMBERED = ("peer", "other", "receiver", "sender")
"""The columns that hold numbers of peers."""
COPIED = ("arrivals", "listed_neighbours", "efforts", "beliefs")
"""Tables that are copied, except for numbers and clusters."""
TABLES = ("metrics", "exchanges", "chosen_neighbours", *COPIED, "timings")
"""The tables to read; the others follow from them."""
LAST = np.iinfo(np.int32).max
Tables = Mapping[str, Columns]


class PeerRecords:
    """The records of one peer, updated while it runs."""

    def __init__(self, folder: Path, ids: Sequence[str]) -> None:
        self._run = folder / RUN
        self._ids = ids
        self._parts = GrowingTables(self._run, TABLES)
        self._numbers: npt.NDArray[np.int32] = np.zeros(0, np.int32)

    def refresh(self) -> None:
        """Read new records."""
        self._parts.refresh()
        path = self._run / PEERS
        if path.exists():
            self._numbers = _true_numbers(path, self._ids)

    @property
    def last_round(self) -> int:
        """The last complete round; −1 if there is none."""
        last: int | None = pc.max(self._parts.table(self._run, "timings")["round"]).as_py()
        return -1 if last is None else last

    def columns(self, name: str, first: int, last: int) -> Columns:
        """Return the rows of some rounds, with the numbers of the simulation."""
        table = self._parts.table(self._run, name)
        within = pc.and_(
            pc.greater_equal(table["round"], first), pc.less_equal(table["round"], last)
        )
        rows: pa.Table = table.filter(within)
        return {
            column: self._numbers[values] if column in NUMBERED else values
            for column in rows.column_names
            for values in (rows[column].to_numpy(),)
        }


def join_records(peers: Sequence[PeerRecords], first: int, last: int) -> dict[int, Tables]:
    """Return the rows of all peers for each of some rounds, ordered by peer."""
    tables = {name: _joined_table(peers, name, first, last) for name in TABLES}
    _weigh_pushes(tables["exchanges"], lambda: _joined_table(peers, "arrivals", 0, LAST))
    rounds: dict[int, Tables] = {}
    for number in range(first, last + 1):
        rounds[number] = {
            name: {key: values[_place(columns["round"], number)] for key, values in columns.items()}
            for name, columns in tables.items()
        }
    return rounds


def to_round(number: int, tables: Tables, data: PeerDatasets) -> Round:
    """Return the records of all peers of one round as if a simulation had run it."""
    step = data.step_of(number)
    clusters = data.clusters(step)
    metrics, exchanges = tables["metrics"], tables["exchanges"]
    peers = metrics["peer"]
    online, stopped = np.zeros((2, data.num_peers), dtype=bool)
    online[peers] = metrics["status"] != "offline"
    stopped[peers] = metrics["status"] == "stopped"
    now = Round(
        number=number,
        step=step,
        online=online,
        stopped=stopped,
        truth=GroundTruth(clusters),
        exchanges=ExchangeLog(
            exchanges["kind"].tolist(),
            exchanges["receiver"].tolist(),
            exchanges["sender"].tolist(),
            exchanges["bytes"].tolist(),
            exchanges["delivered"].tolist(),
            exchanges["weight"].tolist(),
        ),
        chosen=_chosen(tables, data.num_peers),
    )
    for name in MEASURES:
        now.measures[name][peers] = metrics[name]
    copied = {name: _with_clusters(tables[name], clusters) for name in COPIED}
    # As in a simulation: in large networks, only some peers' estimates are recorded.
    asked = np.isin(copied["beliefs"]["peer"], recorded_peers(data.clusters(0)))
    now.estimates = {key: values[asked] for key, values in copied["beliefs"].items()}
    now.arrivals, now.listed = copied["arrivals"], copied["listed_neighbours"]
    now.efforts = copied["efforts"]
    return now


def _true_numbers(path: Path, ids: Sequence[str]) -> npt.NDArray[np.int32]:
    """Return the number in the simulation of each peer, by this peer's own numbers."""
    try:
        met = TypeAdapter(list[dict[str, str]]).validate_json(read_small(path))
        return np.array([ids.index(each["id"]) for each in met], np.int32)
    except (ValidationError, ValueError, KeyError):
        raise StorageError(
            f"{path} is damaged: expected the ids of the peers behind the numbers. Remove the "
            "run folder and run the swarm again."
        ) from None


def _joined_table(peers: Sequence[PeerRecords], name: str, first: int, last: int) -> Columns:
    parts = [peer.columns(name, first, last) for peer in peers]
    columns = {key: np.concatenate([part[key] for part in parts]) for key in SCHEMAS[name].names}
    order = np.argsort(columns["round"], kind="stable")
    return {key: values[order] for key, values in columns.items()}


def _weigh_pushes(exchanges: Columns, arrivals: Callable[[], Columns]) -> None:
    """Set the merge weights of pushed models: the sender recorded the push, not its use."""
    pushes = np.flatnonzero(exchanges["kind"] == "push")
    if not len(pushes):
        return
    arrived = arrivals()
    keys = zip(*(arrived[name].tolist() for name in ("peer", "other", "other_round")), strict=True)
    weights = dict(zip(keys, arrived["weight"].tolist(), strict=True))
    for row in pushes:
        # A push sends the model published in the round before.
        published = int(exchanges["round"][row]) - 1
        key = (int(exchanges["receiver"][row]), int(exchanges["sender"][row]), published)
        exchanges["weight"][row] = weights.get(key, np.nan)


def _place(rounds: npt.NDArray[np.int32], number: int) -> slice:
    """Return the slice of a round's rows, among rows ordered by round."""
    return slice(*np.searchsorted(rounds, [number, number + 1]))


def _chosen(tables: Tables, num_peers: int) -> list[npt.NDArray[np.int64] | None]:
    """Return the lists of neighbours; None for peers without a list."""
    listed = tables["listed_neighbours"]
    chosen: list[npt.NDArray[np.int64] | None] = [None] * num_peers
    for peer in tables["chosen_neighbours"]["peer"].tolist():
        chosen[peer] = listed["other"][listed["peer"] == peer].astype(np.int64)
    return chosen


def _with_clusters(columns: Columns, clusters: npt.NDArray[np.int64]) -> Columns:
    """Return columns without the round, and with the true clusters, which peers do not know."""
    true: dict[str, Callable[[], npt.NDArray[np.int64]]] = {
        "cluster": lambda: clusters[columns["peer"]],
        "other_cluster": lambda: clusters[columns["other"]],
    }
    return {
        key: true[key]() if key in true else values
        for key, values in columns.items()
        if key != "round"
    }
