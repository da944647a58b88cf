"""The folders of peers that have run, written by hand: what a collector finds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import yaml

from coterie.data.scenario import Scenario
from coterie.experiments.config import RunConfig, make_scenario
from coterie.experiments.presets import find_preset
from coterie.experiments.run_folder import RunFolder
from coterie.peer.peer_run import PEERS, RUN
from coterie.runtime.recorder import Recorder
from coterie.runtime.round import Round
from coterie.swarm.peer_folders import peer_folders

NUM_PEERS = 3
IDS = [f"{number:064x}" for number in range(NUM_PEERS)]


def small_run(folder: Path, **changes: object) -> tuple[RunFolder, Scenario]:
    """Return a run of three peers that has not begun, and its data."""
    settings = {
        "peers.count": NUM_PEERS,
        "peers.train_size": 4,
        "strategy.fetches": 2,
        "rounds": 9,
        "shift.angles": [0, 90],
        **changes,
    }
    (config,) = find_preset("digits").runs(["random"], [0], settings)
    run = RunFolder(folder, config)
    run.create_folder()
    return run, make_scenario(config)


def make_peers(run: RunFolder) -> list[RecordedPeer]:
    """Return the peers of a run, who have met but recorded nothing yet."""
    folders = peer_folders(run.folder, NUM_PEERS)
    return [RecordedPeer(number, each, run.config) for number, each in enumerate(folders)]


class RecordedPeer:
    """One peer, who numbers itself 0 and the others in the order of their ids."""

    def __init__(self, number: int, folder: Path, config: RunConfig) -> None:
        self.number = number
        self.folder = folder
        (folder / RUN).mkdir(parents=True)
        settings = {"data": {"file": "data-0.npz"}, "model": {"name": "digits-cnn"}, "roster": IDS}
        (folder / "peer.yaml").write_text(yaml.safe_dump(settings))
        self.numbers = [number, *(other for other in range(NUM_PEERS) if other != number)]
        named = [{"id": IDS[each], "name": f"peer-{each}"} for each in self.numbers]
        (folder / RUN / PEERS).write_text(json.dumps(named))
        self.recorder = Recorder(folder / RUN)

    def fetch(self, number: int, senders: list[int], *, test: float = float("nan")) -> None:
        """Record a round in which models of others, by their true numbers, were merged."""
        alone = np.ones(1, dtype=bool)
        now = Round(number, 0, alone, ~alone, None)
        now.num_known = NUM_PEERS
        for sender in senders:
            mine = self.numbers.index(sender)
            now.exchanges.add("fetch", 0, mine, 100 + sender, delivered=True)
            now.exchanges.record_merge_weight(0, mine, 0.25)
        now.measures["validation_loss_trained"][:] = self.number + number / 10
        now.measures["test_loss"][:] = now.measures["test_score"][:] = test
        self.recorder.add(now, (2.0 + self.number, 0.5))
        self.recorder.flush()
