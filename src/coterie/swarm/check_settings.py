"""Adapts the settings of a simulation to real peers: some are refused, some have no use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coterie.errors import ConfigError
from coterie.experiments.config import RunConfig, apply_changes, parse_change
from coterie.peer.peer_config import PeerConfig
from coterie.runtime.settings import NetworkSettings
from coterie.settings import parse_settings
from coterie.swarm.peer_folders import shared_settings


def adapt_all_for_real_peers(
    configs: Sequence[RunConfig], network: Sequence[str] | None, *, own_pace: bool
) -> tuple[list[RunConfig], list[str]]:
    """Return the settings of runs by real peers, and each note on ignored settings once.

    `network` holds the texts of --network KEY=VALUE.
    """
    settings = parse_network_settings(network)
    fitting = [adapt_for_real_peers(config, settings, own_pace=own_pace) for config in configs]
    notes = dict.fromkeys(note for _, told in fitting for note in told)
    return [config for config, _ in fitting], list(notes)


def adapt_for_real_peers(
    config: RunConfig, network: dict[str, Any], *, own_pace: bool
) -> tuple[RunConfig, list[str]]:
    """Return the settings of a run by real peers, and notes on the ignored ones.

    Settings that real peers cannot follow, such as knowing the true clusters, are refused.
    """
    if config.data.files is not None:
        raise ConfigError(
            f"The peers of {config.data.files.path.name} have data of their own, which coterie "
            "swarm does not divide yet. Simulate them with coterie run."
        )
    if config.model.pretrained is not None:
        raise ConfigError(
            "model.pretrained: the peers of a swarm start with random weights. Choose another "
            "preset, or simulate with coterie run."
        )
    if config.poison.kind != "none":
        raise ConfigError(
            f"poison.kind = {config.poison.kind}: real peers cannot be poisoned by a setting. "
            "Remove poison, or simulate with coterie run."
        )
    changes, notes = _left_out(config)
    changes |= {"runtime": "network", "swarm": {"own_pace": own_pace, "network": network}}
    fitting = apply_changes(config, changes)
    shared = shared_settings(fitting, network, aligned=not own_pace)
    # Checked as a peer will read it, so that a mistake is found before anything is written.
    parse_settings(PeerConfig, {"data": {"file": "data-0.npz"}, "model": {"name": "any"}, **shared})
    return fitting, notes


def parse_network_settings(texts: Sequence[str] | None) -> dict[str, Any]:
    """Return the settings of --network KEY=VALUE as nested groups."""
    settings: dict[str, Any] = {}
    for text in texts or ():
        dotted, value = parse_change(text, "--network", "deadlines.fetch_seconds=5")
        *groups, last = dotted.split(".")
        place = settings
        for group in groups:
            place = place.setdefault(group, {})
            if not isinstance(place, dict):
                raise ConfigError(f"--network {text}: '{group}' is a single setting, not a group.")
        place[last] = value
    return settings


def _left_out(config: RunConfig) -> tuple[dict[str, Any], list[str]]:
    """Return the changes that reset settings of the simulator only, and a note on each."""
    changes: dict[str, Any] = {}
    notes = []
    if config.patience is not None:
        changes["patience"] = None
        notes.append(f"patience = {config.patience} is ignored: real peers run all rounds.")
    if config.schedule != "synchronous":
        changes["schedule"] = "synchronous"
        notes.append(f"schedule = {config.schedule} is ignored: real peers act at the same time.")
    if config.network != NetworkSettings():
        changes["network"] = NetworkSettings().model_dump(mode="json")
        notes.append("network.* is ignored: it belongs to the simulator; use --network instead.")
    if config.watch.peers:
        changes["watch.peers"] = []
        notes.append("watch.peers is ignored: models of real peers cannot be compared centrally.")
    return changes, notes
