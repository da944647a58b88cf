"""Lays out the peers of a scenario: a folder for each, with a key and only its own data."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import yaml

from coterie.config import RunConfig
from coterie.data.pools import PeerSamples, Pool, Samples
from coterie.data.scenario import Scenario
from coterie.peer.identity import Identity, create_identity
from coterie.peer.trust import TrustStore
from coterie.storage import make_folder, write_atomically, write_text

PEERS = "peers"
NUM_KNOWN = 2
"""How many addresses each peer is told; it finds the others through them."""
PARTS = ("train", "validation", "test")


def lay_out(
    folder: Path, config: RunConfig, scenario: Scenario, network: dict[str, Any], *, aligned: bool
) -> list[Path]:
    """Make the folders of all peers, who trust each other; return them in order."""
    folders = [folder / PEERS / f"peer-{n:03d}" for n in range(scenario.num_peers)]
    identities = []
    for number, each in enumerate(folders):
        make_folder(each)
        identities.append(create_identity(each, f"peer-{number}"))
    for number, each in enumerate(folders):
        trust = TrustStore(each)
        for other, identity in enumerate(identities):
            if other != number:
                trust.add(identity.certificate_pem)
    steps = _write_data(folders, config, scenario)
    addresses = [f"127.0.0.1:{port}" for port in free_ports(scenario.num_peers)]
    common = _settings(config, scenario, identities, steps)
    for address, each in zip(addresses, folders, strict=True):
        settings = {
            "listen": address,
            "known": [other for other in addresses[:NUM_KNOWN] if other != address],
            **common,
            "synchronous": aligned,
            "network": network,
        }
        write_text(each / "peer.yaml", yaml.safe_dump(settings, sort_keys=False))
    return folders


def free_ports(count: int) -> list[int]:
    """Return ports of this computer that nobody uses now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _settings(
    config: RunConfig,
    scenario: Scenario,
    identities: Sequence[Identity],
    steps: Sequence[int],
) -> dict[str, Any]:
    everything = config.model_dump(mode="json")
    shared = ("rounds", "seed", "initialisation", "best", "best_by", "test_every", "training")
    return {
        "roster": [identity.peer_id for identity in identities],
        "data": [{"round": begin, "file": f"data-{begin}.npz"} for begin in steps],
        "model": {"name": config.model.name, "outputs": scenario.num_outputs},
        "strategy": everything["strategy"],
        **{name: everything[name] for name in shared},
        "watch": {"beliefs": config.watch.beliefs},
    }


def _write_data(folders: Sequence[Path], config: RunConfig, scenario: Scenario) -> list[int]:
    """Write what each peer has, step by step; return the rounds in which steps begin."""
    begins = []
    before = -1
    for number in range(config.rounds + 1):
        step = scenario.step_of(number)
        if step == before:
            continue
        before = step
        begins.append(number)
        for folder, samples in zip(folders, scenario.enter(step), strict=True):
            _write(folder, f"data-{number}.npz", _arrays(samples, scenario.pools))
    return begins


def _arrays(samples: PeerSamples, pools: Sequence[Pool]) -> dict[str, npt.NDArray[Any]]:
    arrays = {}
    for name in PARTS:
        view: Samples = getattr(samples, name)
        pool, rows = pools[view.pool], view.rows()
        arrays[f"{name}_inputs"] = pool.inputs[rows]
        arrays[f"{name}_targets"] = pool.targets[rows]
    return arrays


def _write(folder: Path, name: str, arrays: dict[str, npt.NDArray[Any]]) -> None:
    def fill(file: BinaryIO) -> str:
        np.savez(file, allow_pickle=False, **arrays)
        return name

    write_atomically(folder, fill)
