"""The output of a peer: records, checkpoints, models and its status."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from pydantic import TypeAdapter, ValidationError

from coterie.errors import StorageError
from coterie.peer.discovery.address_book import AddressBook
from coterie.runtime.checkpoints import Checkpoints
from coterie.runtime.recorder import Recorder
from coterie.runtime.round import Round
from coterie.runtime.round_runner import RoundRunner
from coterie.storage.files import make_folder, read_small, write_atomically, write_text
from coterie.storage.tensor_files import write_tensors
from coterie.tasks.score import ACCURACY, TaskScore

RUN = "run"
STATUS, PEERS, MODELS = "status.json", "peers.json", "models.safetensors"


@dataclass(frozen=True)
class PeerStatus:
    """The status of a peer when it was last written."""

    name: str
    peer_id: str
    process: int
    address: str = ""
    state: str = "starting"
    """starting, running, finished or stopped."""
    round: int = -1
    """The last finished round."""
    rounds: int | None = None
    score: TaskScore = ACCURACY
    """What is measured."""
    validation_score: float | None = None
    validation_loss: float | None = None
    test_score: float | None = None
    num_known: int = 0
    """The number of other peers that could be asked."""
    num_fetched: int = 0
    """The number of models that arrived in the last round."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """What this peer refused of others, by reason."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """What others did not answer, by reason."""
    updated: float = 0.0
    """Seconds since 1970, by the peer's own clock."""


class PeerRun:
    """The folder with the records of a peer's rounds."""

    def __init__(
        self, folder: Path, address_book: AddressBook, rounds: int | None, score: TaskScore
    ) -> None:
        self.folder = folder / RUN
        self._status_path = folder / STATUS
        self._address_book = address_book
        self._num_named = 0
        make_folder(self.folder)
        self.recorder = Recorder(self.folder)
        self.checkpoints = Checkpoints(self.folder / "checkpoints")
        identity = address_book.identity
        self.status = PeerStatus(
            identity.name, identity.peer_id, os.getpid(), rounds=rounds, score=score
        )

    def record_round(self, now: Round, **more: object) -> None:
        """Update the status after a recorded round; `more` is added to it."""
        self._name_peers()
        kinds = now.exchanges.kind
        has_arrived = [
            kind == "fetch" and is_delivered
            for kind, is_delivered in zip(kinds, now.exchanges.delivered, strict=True)
        ]
        tested = _known(now, "test_score")
        self.update_status(
            state="running",
            round=now.number,
            validation_score=_known(now, "validation_score_trained"),
            validation_loss=_known(now, "validation_loss_trained"),
            test_score=self.status.test_score if tested is None else tested,
            num_fetched=sum(has_arrived),
            **more,
        )

    def update_status(self, **changes: object) -> None:
        """Change the status and write it for `coterie peer status`."""
        self.status = replace(self.status, **changes, updated=time.time())  # type: ignore[arg-type]
        write_text(self._status_path, json.dumps(asdict(self.status), indent=2), durable=False)

    def keep_models(self, run: RoundRunner) -> None:
        """Save the best model, which is the one to use, and the last one."""

        def fill(file: BinaryIO) -> str:
            state = run.state
            metadata = {"layout": state.layout.fingerprint}
            if not state.build.frozen.is_empty:
                metadata["frozen"] = state.build.frozen.digest
            write_tensors(file, {"best": state.best, "last": state.current}, metadata)
            return MODELS

        write_atomically(self.folder, fill)

    def _name_peers(self) -> None:
        """Write the ids and names behind the numbers in the records."""
        count = self._address_book.num_peers
        if count != self._num_named:
            ids = [self._address_book.id_of(number) for number in range(count)]
            named = [{"id": each, "name": self._address_book.name_of(each)} for each in ids]
            write_text(self.folder / PEERS, json.dumps(named, indent=2))
            self._num_named = count


def read_status(folder: Path) -> PeerStatus | None:
    """Return the status of a peer; None if it has never run."""
    path = folder / STATUS
    if not path.exists():
        return None
    try:
        return TypeAdapter(PeerStatus).validate_json(read_small(path))
    except ValidationError:
        raise StorageError(
            f"{path} is damaged. Start the peer again: it writes a new one."
        ) from None


def _known(now: Round, measure: str) -> float | None:
    value = float(now.measures[measure][0])
    return None if math.isnan(value) else value
