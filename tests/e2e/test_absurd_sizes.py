"""Sizes that no computer has: refused at once by arithmetic, with what there is; nothing is run.

Each would take minutes, or all memory, if anything were allocated first.
"""

from __future__ import annotations

import psutil
import pytest
from commands import coterie, refused

from coterie import SimulationSettings
from coterie.errors import ConfigError
from coterie.experiments.config import apply_changes, check_size, parse_change, parse_config
from coterie.experiments.presets import PRESETS, find_preset
from coterie.learning.settings import TrainingSettings
from coterie.runtime.size_limits import check_models
from coterie.strategies import make_strategy
from coterie.strategies.local import Local

FEW = ("--peers", 8, "--rounds", 1, "--threads", 1)
HUGE, ENORMOUS = 10**9, 10**30
MEMORY = f"this computer has {psutil.virtual_memory().total / 1e9:,.0f} GB"


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        (("--peers", HUGE), 2, ("1,000,000,000 peers with models of", MEMORY, "such peers fit")),
        (("--peers", ENORMOUS), 2, ("peers.count", "whole numbers go up to")),
        (("--peers", 100_000), 3, ("only 1,438", "0.0 for each")),
        (("--rounds", 10**12), 2, ("rounds", "2147483647")),
        (("--rounds", ENORMOUS), 2, ("rounds", "2147483647")),
        (("--seeds", HUGE), 2, ("--seeds 1000000000", "10000")),
        (("--seeds", 5000), 2, ("25,000 runs", "at most 10,000")),
        (("--seed", ENORMOUS), 2, ("seed", "whole numbers go up to")),
        (("--threads", 10**6), 2, ("--threads 1000000", "1024")),
        (("--side-by-side", 10**6), 2, ("--side-by-side 1000000", "1024")),
        (("--scale", "1e9"), 2, ("--scale 1e+09", "at most 1")),
        (("--scale", "nan"), 2, ("--scale nan", "at most 1")),
        (("--scale", "-inf"), 2, ("--scale -inf", "at most 1")),
    ],
)
def test_absurd_options(tmp_path, arguments, code, parts):
    refused(coterie("run", "digits", *arguments, "--out", tmp_path / "out"), code, *parts)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "code", "part"),
    [
        (f"peers.train_size={HUGE}", 2, "8,000,000,080 samples"),
        (f"peers.validation_size={HUGE}", 2, "samples"),
        ("peers.train_size=1000", 3, "179.8 for each"),
        (f"peers.sizes={{kind: listed, listed: [{HUGE}]}}", 3, "images"),
        (f"training.epochs={HUGE}", 2, f"training.epochs = {HUGE:,}"),
        (f"shift={{kind: random-labels, groups: {HUGE}}}", 2, "labels"),
        (f"watch.peers=[{HUGE}]", 2, "watch.peers names peer"),
        (f"strategy.fetches={HUGE}", 2, "at most 7"),
        (f"poison={{kind: noise, count: {HUGE}}}", 2, "poison"),
        (f"poison={{kind: noise, count: 1, cluster: {HUGE}}}", 2, "poison"),
    ],
)
def test_absurd_settings(tmp_path, change, code, part):
    words = ("--strategy", "random", "--set", "strategy.fetches=2", "--set", change)
    refused(coterie("run", "digits", *FEW, *words, "--out", tmp_path / "out"), code, part)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("strategy", "change", "part"),
    [
        ("ifca", f"models={HUGE}", "Lower the number of models of the server"),
        ("pens", f"samples={HUGE}", "strategy.samples"),
        ("pens", f"exploration_epochs={10**12}", "strategy.exploration_epochs"),
    ],
)
def test_absurd_options_of_strategies(tmp_path, strategy, change, part):
    words = ("--strategy", strategy, "--set", "strategy.fetches=2", "--set", f"strategy.{change}")
    samples = ("--set", "strategy.samples=5") if "exploration" in change else ()
    answer = coterie("run", "digits", *FEW, *words, *samples, "--out", tmp_path / "out")
    refused(answer, 2, part)


@pytest.mark.parametrize("preset", ["friends-synthetic", "digits-drift"])
def test_data_that_would_be_made_on_the_spot_and_shifts_without_end(tmp_path, preset):
    words = {
        "friends-synthetic": ("--peers", HUGE),
        "digits-drift": ("--rounds", 2**31 - 1, "--set", "drift.every=1"),
    }
    answer = coterie("run", preset, *words[preset], "--out", tmp_path / "out")
    refused(answer, 2, MEMORY)


def test_a_sweep_of_too_many_runs(tmp_path):
    values = ",".join(map(str, range(1, 41)))
    keys = ("epochs", "batch_size", "learning_rate", "weight_decay", "peers_at_once")
    vary = [word for key in keys for word in ("--vary", f"training.{key}={values}")]
    answer = coterie("sweep", "digits", *vary, "--strategy", "local", "--out", tmp_path / "out")
    refused(answer, 2, f"{40**5:,} runs", "at most 1,000")


def test_a_study_of_too_many_seeds(tmp_path):
    refused(coterie("study", "kin", "--seeds", HUGE, "--out", tmp_path / "out"), 2, "--seeds")


def whole_numbers(settings: object, key: str = "") -> list[str]:
    """Return the dotted keys of all whole numbers in a configuration."""
    if isinstance(settings, dict):
        return [
            found
            for name, value in settings.items()
            for found in whole_numbers(value, f"{key}.{name}" if key else name)
        ]
    return [key] if type(settings) is int else []


def numbers() -> list[str]:
    settings = find_preset("digits-drift").config.model_dump(mode="json")
    return sorted({*whole_numbers(settings), "patience", "peers.test_size"})


@pytest.mark.parametrize("key", numbers())
@pytest.mark.parametrize("value", [ENORMOUS, -ENORMOUS, ".inf", "-.inf", ".nan", "1e400"])
def test_no_whole_number_may_be_beyond_all_bounds(key, value):
    change = dict([parse_change(f"{key}={value}")])
    with pytest.raises(ConfigError, match=key.rpartition(".")[2]):
        apply_changes(find_preset("digits-drift").config, change)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), -1.0])
@pytest.mark.parametrize(
    "key", ["training.learning_rate", "data.noise", "network.loss_probability"]
)
def test_no_number_may_be_infinite_or_negative(key, value):
    with pytest.raises(ConfigError, match=key):
        apply_changes(find_preset("digits").config, {key: value})


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_fits_into_a_small_computer(monkeypatch, preset):
    """The arithmetic must not refuse what runs."""
    memory = type("Memory", (), {"total": 16 * 10**9})
    monkeypatch.setattr(psutil, "virtual_memory", memory)
    for variant in PRESETS[preset].variants:
        (config,) = PRESETS[preset].runs([variant.label], [0], {})
        check_size(config, make_strategy(config.strategy["name"], config.strategy_options()))


def test_what_fits_is_said_exactly(monkeypatch):
    """K × P × 4 bytes × 3 matrices."""
    monkeypatch.setattr(psutil, "virtual_memory", type("Memory", (), {"total": 12_000}))
    check_models(10, 100)
    with pytest.raises(ConfigError, match="At most 10 such peers fit"):
        check_models(11, 100)


def test_a_large_model_in_the_library(make_simulation, monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", type("Memory", (), {"total": 1000}))
    with pytest.raises(ConfigError, match="6 peers with models of"):
        make_simulation(Local)


def test_epochs_and_threads_in_the_library(make_simulation):
    with pytest.raises(ConfigError, match=r"training\.epochs"):
        make_simulation(Local, training=TrainingSettings(epochs=10**12))
    with pytest.raises(ConfigError, match="1 to 1024"):
        make_simulation(Local, threads=10**6)


def test_settings_of_the_library():
    for wrong in ({"rounds": 10**12}, {"patience": ENORMOUS}, {"seed": ENORMOUS}):
        with pytest.raises(ConfigError, match=r"rounds|whole numbers"):
            SimulationSettings(**wrong)
    with pytest.raises(ConfigError, match="whole numbers"):
        parse_config({"peers": {"count": ENORMOUS, "train_size": 1, "validation_size": 1}})
