"""What real peers cannot do is refused or left out before anything is written."""

from __future__ import annotations

import pytest

from coterie.errors import ConfigError
from coterie.experiments.presets import find_preset
from coterie.swarm.check_settings import (
    adapt_all_for_real_peers,
    adapt_for_real_peers,
    parse_network_settings,
)


def config(strategy="dac", **changes):
    (found,) = find_preset("digits").runs([strategy], [0], {"peers.count": 8, **changes})
    return found


@pytest.mark.parametrize(
    ("strategy", "reason"), [("oracle", "the true clusters"), ("fedavg", "a server")]
)
def test_yardsticks_are_refused(strategy, reason):
    with pytest.raises(ConfigError, match=f"'{strategy}' needs {reason}, which real peers"):
        adapt_for_real_peers(config(strategy), {}, own_pace=False)


def test_a_run_says_who_ran_it_and_how():
    fitting, notes = adapt_for_real_peers(config(), {"compression": "zstd"}, own_pace=True)
    assert fitting.runtime == "network"
    assert fitting.swarm.own_pace
    assert fitting.swarm.network == {"compression": "zstd"}
    assert notes == []


@pytest.mark.parametrize(
    ("key", "value", "left"),
    [
        ("patience", 3, None),
        ("schedule", "sequential", "synchronous"),
        ("network.loss_probability", 0.5, 0.0),
        ("watch.peers", [0], ()),
    ],
)
def test_what_only_a_simulator_does_is_left_out_with_a_note(key, value, left):
    found = config(**{key: value})
    (fitting, twin), notes = adapt_all_for_real_peers([found, found], None, own_pace=False)
    assert fitting == twin
    (note,) = notes
    assert key.partition(".")[0] in note
    for name in key.split("."):
        fitting = getattr(fitting, name)
    assert fitting == left


def test_pretrained_weights_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="start with random weights"):
        adapt_for_real_peers(config(**{"model.pretrained": str(tmp_path)}), {}, own_pace=False)


def test_network_settings_are_groups_within_groups():
    texts = ["deadlines.fetch_seconds=5", "deadlines.call_seconds=2", "compression=zstd"]
    assert parse_network_settings(texts) == {
        "deadlines": {"fetch_seconds": 5, "call_seconds": 2},
        "compression": "zstd",
    }
    assert parse_network_settings(None) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("compression", "--network compression: expected dotted.key=value"),
        ("deadlines.fetch_second=1", "no setting 'network.deadlines.fetch_second'. Did you mean"),
        ("deadlines.fetch_seconds=-1", "network.deadlines.fetch_seconds = -1 cannot be used"),
    ],
)
def test_wrong_network_settings_are_explained(text, message):
    with pytest.raises(ConfigError, match=message):
        adapt_all_for_real_peers([config()], [text], own_pace=False)


def test_a_single_setting_is_no_group():
    with pytest.raises(ConfigError, match="'compression' is a single setting"):
        parse_network_settings(["compression=zstd", "compression.level=3"])
