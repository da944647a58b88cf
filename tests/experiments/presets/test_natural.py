"""Presets on naturally divided data: what they compare, and their files where they are."""

from __future__ import annotations

import pytest
from commands import coterie, refused

from coterie.data.own_files.find_files import KNOWN_FILES
from coterie.data.sources import default_data_root
from coterie.experiments.config import check_sizes, load_peers
from coterie.experiments.presets import PRESETS

NATURAL = [name for name in PRESETS if name.startswith("natural-")]
COMPARED = ["local", "random", "fedavg", "dac", "pens", "panm", "kin", "central"]


@pytest.mark.parametrize("name", NATURAL)
def test_a_preset_compares_what_needs_no_clusters(name):
    preset = PRESETS[name]
    labels = [variant.label for variant in preset.variants]
    assert [label for label in labels if label != "hast"] == COMPARED
    assert ("hast" in labels) == bool(getattr(preset.config.data.files, "time", ()))
    check_sizes(preset.runs(None, [0], {}))
    assert preset.config.data.files.path.name in KNOWN_FILES


@pytest.mark.parametrize("name", NATURAL)
def test_a_preset_has_the_peers_and_the_shape_of_its_file(name):
    config = PRESETS[name].config
    if not (default_data_root() / config.data.files.path).exists():
        pytest.skip(f"{config.data.files.path} is not in the data root")
    peers = load_peers(config)
    assert peers.input_shape == config.model.input_shape


def test_a_missing_file_is_described(tmp_path):
    answer = coterie("run", "natural-heart", "--data-root", tmp_path)
    refused(answer, 3, tmp_path / "natural" / "heart.csv", "archive.ics.uci.edu", "--data-root")


def test_a_yardstick_that_needs_clusters_is_refused_with_what_helps():
    if not (default_data_root() / "natural" / "heart.csv").exists():
        pytest.skip("heart.csv is not in the data root")
    answer = coterie("run", "natural-heart", "--strategy", "ifca,oracle", "--threads", 1)
    refused(answer, 2, "Strategy 'oracle' uses the true clusters")


@pytest.mark.parametrize("option", [("--peers", 3), ("--scale", 0.5)])
def test_peers_are_those_of_the_file(option):
    refused(coterie("run", "natural-heart", *option), 2, "the peers are those of heart.csv")


def test_real_peers_are_refused():
    answer = coterie("swarm", "--preset", "natural-heart", "--strategy", "kin")
    refused(answer, 2, "Simulate them with coterie run")
