"""--scale: fewer rounds and peers, in the same proportions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from coterie.data.partition import cluster_of_peers
from coterie.errors import ConfigError
from coterie.experiments.config import RunConfig, apply_changes
from coterie.experiments.presets import PRESETS, find_preset
from coterie.experiments.presets import scaling as room
from coterie.experiments.presets.scaling import num_clusters
from coterie.strategies import STRATEGIES, make_strategy

SCALES = (0.001, 0.02, 0.1, 0.3, 0.77)


def scaled(preset: str, label: str, scale: float, **changes: object) -> RunConfig:
    """Return one scaled run; dots in keys are written as double underscores."""
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    [run] = find_preset(preset).runs([label], [0], dotted, scale=scale)
    return run


def sizes(config: RunConfig) -> list[int]:
    """Return how many peers each cluster has at the start."""
    count = num_clusters(config)
    clusters = cluster_of_peers(config.peers.count, count, config.peers.clusters)
    return np.bincount(clusters, minlength=count).tolist()


def test_a_tenth_by_hand():
    config = scaled("dac-cifar-rotation-uneven", "pens", 0.1)
    assert config.rounds == 20
    assert sizes(config) == [7, 2, 2, 2]
    options = config.strategy
    assert (options["exploration_rounds"], options["later_fetches"]) == (2, 1)
    # Chosen are 2 of 5: one of two is the smallest choice there is.
    assert (options["fetches"], options["samples"]) == (1, 2)
    assert (config.peers.train_size, config.peers.validation_size) == (400, 100)
    assert config.training.epochs == 3


def test_watched_peers_stay_in_their_clusters():
    preset = find_preset("friends-cifar-labels2")
    watched = replace(preset, config=apply_changes(preset.config, {"watch.peers": [0, 60]}))
    [run] = watched.runs(["dac-inverse-loss"], [0], {}, scale=0.1)
    assert sizes(run) == [6, 4]
    assert run.watch.peers == (0, 6)


def test_a_quarter_of_200_peers_is_the_thesis_own_choice_for_50():
    ours = scaled("pens-cifar-rotation2", "pens", 0.25)
    theirs = find_preset("pens-cifar-rotation2-50").runs(["pens"], [0], {})[0]
    assert ours.peers.count == theirs.peers.count == 50
    for option in ("fetches", "samples", "samplings"):
        assert ours.strategy[option] == theirs.strategy[option]


def test_phases_and_early_stopping_come_as_early_in_the_run():
    assert scaled("friends-cifar-labels2", "panm-inverse-loss", 0.2).strategy == {
        **find_preset("friends-cifar-labels2").runs(["panm-inverse-loss"], [0], {})[0].strategy,
        "fetches": 1,
        "candidates": 1,
        "confident_rounds": 10,
        "em_every": 1,
    }
    deluded = scaled("friends-cluster-death", "delusional-25", 0.2)
    assert (deluded.strategy["from_round"], deluded.strategy["delusional"]) == (10, 5)
    assert scaled("pens-cifar-rotation2", "random", 0.2).patience == 10


def test_epsilon_decays_as_far_by_the_end():
    name, label = "pens-cifar-rotation2", "epsilon-greedy-1-0.99"
    [whole] = find_preset(name).runs([label], [0], {})
    part = scaled(name, label, 1 / 3)
    assert part.rounds == 111
    assert math.isclose(part.strategy["decay"] ** 111, whole.strategy["decay"] ** 333)


@pytest.mark.parametrize("name", ["hast-pacs", "hast-cifar-labels4", "digits-drift"])
def test_drift_keeps_its_number_of_steps(name):
    whole = find_preset(name).config
    for scale in SCALES:
        part = scaled(name, "random", scale)
        assert part.drift.num_steps(part.rounds) == whole.drift.num_steps(whole.rounds), scale
        assert part.rounds < whole.rounds


@pytest.mark.parametrize("name", ["hast-swap2-feddrift", "hast-swap4-feddrift"])
@pytest.mark.parametrize(("scale", "count"), [(0.1, 10), (0.74, 10), (0.75, 20)])
def test_a_drift_pattern_keeps_all_its_columns(name, scale, count):
    part = scaled(name, "random", scale)
    assert part.peers.count == count
    assert part.drift.num_steps(part.rounds) == 10


@pytest.mark.parametrize("name", ["hast-cifar-labels2", "hast-pacs"])
def test_strategies_that_communicate_alike_still_do(name):
    """HAST fetches twice a round, so Random and DAC get twice as many."""
    for scale in SCALES:
        fetches = [scaled(name, label, scale).strategy["fetches"] for label in ("hast", "dac")]
        assert fetches[1] == 2 * fetches[0], scale


@pytest.mark.parametrize("name", list(PRESETS))
def test_every_preset_can_be_scaled(name):
    whole = PRESETS[name].runs(None, [3], {})
    assert PRESETS[name].runs(None, [3], {}, scale=1.0) == whole
    for scale in SCALES:
        part = PRESETS[name].runs(None, [3], {}, scale=scale)
        assert len({run.peers.count for run in part}) == len({run.rounds for run in part}) == 1
        for before, now in zip(whole, part, strict=True):
            assert_scaled(before, now)


def assert_scaled(before: RunConfig, now: RunConfig) -> None:
    """Counts have shrunk, but to no less than what can run; all else is as it was."""
    make_strategy(now.strategy["name"], now.strategy_options()).check(now.peers.count)
    assert 1 <= now.rounds < before.rounds
    assert now.peers.count <= before.peers.count
    assert all(size >= 2 for size in sizes(now))
    for key, value in before.strategy.items():
        if type(value) is int and value > 0:
            assert 1 <= now.strategy[key] <= value, key
    assert (now.label, now.seed, now.training) == (before.label, before.seed, before.training)


def test_what_was_given_stays():
    config = scaled(
        "pens-cifar-rotation2",
        "pens",
        0.1,
        rounds=333,
        peers__count=100,
        patience=7,
        strategy__samples=9,
        peers__train_size=50,
    )
    assert (config.rounds, config.peers.count, config.patience) == (333, 100, 7)
    assert (config.strategy["samples"], config.peers.train_size) == (9, 50)
    # The rest is in proportion to what was given: all of the rounds, half of the peers.
    assert config.strategy["exploration_rounds"] == 20
    assert (config.strategy["fetches"], config.strategy["later_fetches"]) == (2, 10)


def test_given_groups_stay():
    drift = {"kind": "random", "every": 7}
    config = scaled("hast-swap2-feddrift", "random", 0.1, drift=drift)
    assert (config.drift.every, config.rounds) == (7, 200)
    kind = scaled("digits-drift", "random", 0.1, drift__kind="feddrift-2", drift__every=3)
    assert (kind.drift.kind, kind.drift.every, kind.rounds) == ("feddrift-2", 3, 6)
    peers = {"count": 40, "clusters": [1, 1, 1, 5], "train_size": 24, "validation_size": 10}
    config = scaled("digits", "random", 0.1, peers=peers)
    assert (config.peers.count, config.peers.clusters) == (40, (1, 1, 1, 5))
    assert config.strategy["fetches"] == 5


def test_an_empty_or_single_cluster_stays_so():
    preset = find_preset("digits")
    uneven = apply_changes(preset.config, {"peers.clusters": [37, 1, 2, 0]})
    [run] = replace(preset, config=uneven).runs(["random"], [0], {}, scale=0.5)
    assert sizes(run) == [19, 1, 2, 0]


@pytest.mark.parametrize("scale", [0.0, -0.5, 1.0001, 2.0, math.nan, math.inf])
def test_a_scale_that_is_no_part(scale):
    with pytest.raises(ConfigError, match=r"--scale .* above 0 and at most 1, such as 0\.1"):
        find_preset("digits").runs(None, [0], {}, scale=scale)


def test_nobody_adds_a_count_that_scaling_does_not_know():
    """An option that counts rounds or peers must shrink too; these count something else."""
    other = {"samplings", "exploration_epochs", "cluster", "models", "depth"}
    known = room.PEER_COUNTS | room.COUNTS_PEERS | room.COUNTS_ROUNDS
    counts = {
        name
        for strategy in STRATEGIES.values()
        for name, value in strategy().options().items()
        if type(value) is int
    }
    assert counts - known - other == set()
    options = {name for strategy in STRATEGIES.values() for name in strategy().options()}
    assert known | room.PER_ROUND_FACTORS <= options
