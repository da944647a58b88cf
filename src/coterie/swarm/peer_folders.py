"""Creates the folders of a swarm's peers, each with a key and only its own data."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import yaml

from coterie.data.peer_datasets import PeerDatasets
from coterie.data.pools import PeerSamples, Pool, Samples
from coterie.experiments.config import RunConfig
from coterie.peer.json_log import LOG as PEER_LOG
from coterie.peer.peer_run import STATUS
from coterie.peer.security.identity import Identity, create_identity
from coterie.peer.security.trust import ENDING, TRUSTED, TrustStore
from coterie.peer.wire.field_bounds import LARGEST_SAMPLES
from coterie.storage.files import (
    explain_errors,
    make_folder,
    sync_everything,
    write_atomically,
    write_text,
)
from coterie.swarm.peer_processes import LOG

PEERS = "peers"
SETTINGS = "peer.yaml"
NUM_KNOWN = 2
"""Number of addresses each peer is given; it finds the others through them."""
PARTS = ("train", "validation", "test")
KEPT = (LOG, PEER_LOG, STATUS)
"""Files of a peer that stay after its records were collected."""


def peer_folders(run: Path, num_peers: int) -> list[Path]:
    """Return the folders of a run's peers, in order."""
    return [run / PEERS / f"peer-{number:03d}" for number in range(num_peers)]


def find_or_create_folders(folder: Path, config: RunConfig, scenario: PeerDatasets) -> list[Path]:
    """Return the folders of a run's peers; those of an earlier, unfinished run are used again."""
    folders = peer_folders(folder, scenario.num_peers)
    if all((each / SETTINGS).exists() for each in folders):
        return folders
    with explain_errors(f"remove {folder / PEERS}"):
        shutil.rmtree(folder / PEERS, ignore_errors=True)
    swarm = config.swarm
    return create_peer_folders(folder, config, scenario, swarm.network, aligned=not swarm.own_pace)


def create_peer_folders(
    folder: Path,
    config: RunConfig,
    scenario: PeerDatasets,
    network: dict[str, Any],
    *,
    aligned: bool,
) -> list[Path]:
    """Create the folders of all peers, which trust each other; return them in order."""
    folders = peer_folders(folder, scenario.num_peers)
    identities = []
    for number, each in enumerate(folders):
        make_folder(each)
        identities.append(create_identity(each, f"peer-{number}"))
    _trust_each_other(folders, identities)
    steps = _write_data(folders, config, scenario)
    addresses = [f"127.0.0.1:{port}" for port in free_ports(scenario.num_peers)]
    common = {
        "roster": [identity.peer_id for identity in identities],
        "data": [{"round": begin, "file": f"data-{begin}.npz"} for begin in steps],
        "model": {"name": config.model.name, "outputs": scenario.num_outputs},
        **shared_settings(config, network, aligned=aligned),
    }
    # The settings come last: if all peers have theirs, the folders are complete.
    for address, each in zip(addresses, folders, strict=True):
        known = [other for other in addresses[:NUM_KNOWN] if other != address]
        settings = {"listen": address, "known": known, **common}
        write_text(each / SETTINGS, yaml.safe_dump(settings, sort_keys=False))
    return folders


def shared_settings(config: RunConfig, network: dict[str, Any], *, aligned: bool) -> dict[str, Any]:
    """Return the settings that all peers of a run share."""
    everything = config.model_dump(mode="json")
    same = ("rounds", "seed", "initialisation", "best", "best_by", "test_every", "training")
    return {
        "strategy": everything["strategy"],
        **{name: everything[name] for name in same},
        "watch": {"beliefs": config.watch.beliefs},
        "synchronous": aligned,
        "network": _among_ourselves(network),
    }


def _among_ourselves(network: dict[str, Any]) -> dict[str, Any]:
    """Return the network's settings without a limit on claimed samples: these peers are honest."""
    limits = network.get("limits", {})
    if not isinstance(limits, dict):
        return network  # the check of the settings refuses it
    return {**network, "limits": {"samples_ratio": LARGEST_SAMPLES, **limits}}


def clean_up(folders: Sequence[Path]) -> None:
    """Remove keys, data and records of finished peers; their logs stay."""
    for folder in folders:
        with explain_errors(f"clean up {folder}"):
            for each in folder.iterdir():
                if each.is_dir():
                    shutil.rmtree(each)
                elif each.name not in KEPT:
                    each.unlink()


def free_ports(count: int) -> list[int]:
    """Return ports of this computer that are free now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _trust_each_other(folders: Sequence[Path], identities: Sequence[Identity]) -> None:
    """Give each peer the certificates of all others."""
    first = TrustStore(folders[0])
    make_folder(first.folder)
    for identity in identities[1:]:
        first.add(identity.certificate_pem)
    # Copied: checking and syncing K² small files one by one would take minutes.
    for folder, identity in zip(folders[1:], identities[1:], strict=True):
        with explain_errors(f"write to {folder}"):
            own = f"{identity.peer_id}{ENDING}"
            shutil.copytree(first.folder, folder / TRUSTED, ignore=shutil.ignore_patterns(own))
        TrustStore(folder).add(identities[0].certificate_pem)
    sync_everything()


def _write_data(folders: Sequence[Path], config: RunConfig, scenario: PeerDatasets) -> list[int]:
    """Write each peer's data, step by step; return the first rounds of the steps."""
    begins = []
    before = -1
    for number in range(config.rounds + 1):
        step = scenario.step_of(number)
        if step == before:
            continue
        before = step
        begins.append(number)
        for folder, samples in zip(folders, scenario.load_step(step), strict=True):
            _write(folder, f"data-{number}.npz", _arrays(samples, scenario.pools))
    return begins


def _arrays(samples: PeerSamples, pools: Sequence[Pool]) -> dict[str, npt.NDArray[Any]]:
    arrays = {}
    for name in PARTS:
        view: Samples = getattr(samples, name)
        pool, rows = pools[view.pool], view.rows()
        arrays[f"{name}_inputs"] = pool.only_inputs[rows]
        arrays[f"{name}_targets"] = pool.targets[rows]
    return arrays


def _write(folder: Path, name: str, arrays: dict[str, npt.NDArray[Any]]) -> None:
    def fill(file: BinaryIO) -> str:
        np.savez(file, allow_pickle=False, **arrays)
        return name

    write_atomically(folder, fill)
