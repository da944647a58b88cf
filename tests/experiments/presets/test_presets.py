"""Presets say what the papers say."""

from __future__ import annotations

import pytest
import yaml

from coterie.data.scenario import PeerSettings
from coterie.errors import ConfigError
from coterie.experiments.config import (
    RunConfig,
    apply_changes,
    config_to_yaml,
    find_model,
    parse_config,
)
from coterie.experiments.presets import DEFAULT, PRESETS, find_preset
from coterie.strategies import make_strategy

# peers, clusters' shares, train/validation, learning rate, E, rounds, m, initialisation
PUBLISHED = {
    "dac-cifar-rotation4": (100, None, 400, 100, 3e-4, 3, 200, 5, "independent"),
    "dac-cifar-labels": (100, (40, 60), 400, 100, 3e-5, 3, 200, 5, "independent"),
    "hast-cifar-labels2": (50, None, 250, 75, 8e-5, 3, 2000, 6, "common"),
    "hast-swap2-feddrift": (20, None, 250, 75, 8e-5, 3, 2000, 6, "common"),
    "hast-swap4-feddrift": (20, None, 250, 75, 8e-5, 3, 2000, 6, "common"),
    "hast-pacs": (20, None, 175, 75, 8e-5, 3, 800, 6, "common"),
    "friends-mnist-fashion": (100, None, 400, 100, 1e-3, 1, 300, 5, "common"),
    "friends-fashion-rotation": (100, (70, 20, 5, 5), 500, 100, 3e-4, 1, 300, 4, "common"),
    "friends-cifar100-scratch": (52, (26, 13, 13), 400, 100, 1e-4, 1, 270, 5, "common"),
    "friends-cifar100-pretrained": (52, (26, 13, 13), 400, 100, 1e-4, 1, 270, 5, "common"),
    "friends-cifar-labels2": (100, (60, 40), 400, 100, 1e-3, 1, 300, 5, "common"),
    "friends-cifar-labels5": (100, None, 400, 100, 1e-3, 1, 300, 5, "common"),
    "friends-cluster-death": (100, (60, 40), 400, 100, 1e-3, 1, 300, 5, "common"),
    "friends-mnist-fashion-mlp": (100, None, 400, 100, 1e-3, 1, 300, 5, "common"),
    "dac-cifar-rotation-uneven": (100, (70, 20, 5, 5), 400, 100, 3e-4, 3, 200, 5, "independent"),
    "dac-fashion-rotation-uneven": (100, (70, 20, 5, 5), 500, 100, 1e-5, 3, 200, 5, "independent"),
    "hast-cifar-labels4": (50, None, 250, 75, 8e-5, 3, 2000, 6, "common"),
    "hast-cifar-random-labels": (50, None, 250, 75, 8e-5, 3, 2000, 6, "common"),
    "hast-cifar-iid": (50, None, 250, 75, 8e-5, 3, 200, 6, "common"),
    "hast-swap4-random": (50, None, 250, 75, 8e-5, 3, 2000, 6, "common"),
    "friends-synthetic": (99, None, 50, 100, 1e-3, 1, 50, 5, "common"),
    "pens-cifar-rotation2-50": (50, None, 875, 125, 1e-3, 3, 333, 20, "independent"),
    "pens-cifar-rotation2-50-common": (50, None, 875, 125, 1e-3, 3, 333, 20, "common"),
    "pens-cifar-rotation2": (200, None, 125, 125, 1e-3, 3, 333, 20, "independent"),
    "pens-cifar-rotation2-common": (200, None, 125, 125, 1e-3, 3, 333, 20, "common"),
    "pens-cifar-rotation2-1000": (1000, None, 25, 25, 1e-3, 3, 333, 20, "independent"),
    "pens-cifar-rotation2-1000-common": (1000, None, 25, 25, 1e-3, 3, 333, 20, "common"),
    "pens-cifar-iid": (200, None, 125, 125, 1e-3, 3, 333, 20, "independent"),
    "pens-cifar-iid-common": (200, None, 125, 125, 1e-3, 3, 333, 20, "common"),
}


@pytest.mark.parametrize("name", list(PUBLISHED))
def test_published_hyperparameters(name):
    config = find_preset(name).config
    assert (
        config.peers.count,
        config.peers.clusters,
        config.peers.train_size,
        config.peers.validation_size,
        config.training.learning_rate,
        config.training.epochs,
        config.rounds,
        config.strategy["fetches"],
        config.initialisation,
    ) == PUBLISHED[name]
    assert config.training.batch_size == 8
    assert config.best == "trained"


def test_every_paper_preset_is_checked():
    others = ("digits", "natural")
    assert set(PUBLISHED) == {name for name in PRESETS if not name.startswith(others)}


@pytest.mark.parametrize("name", list(PRESETS))
def test_presets_are_complete_and_reproducible(name):
    preset = PRESETS[name]
    assert preset.name == preset.config.preset == name
    assert len(preset.variants) >= 3
    runs = preset.runs(None, [0, 7], {})
    assert [run.seed for run in runs] == [0] * len(preset.variants) + [7] * len(preset.variants)
    for run in runs:
        assert parse_config(yaml.safe_load(config_to_yaml(run))) == run
        make_strategy(run.strategy["name"], run.strategy_options()).check(run.peers.count)
        find_model(run)


def test_local_trains_more_slowly_where_the_thesis_says_so():
    rates = {
        run.label: run.training.learning_rate
        for run in find_preset("friends-fashion-rotation").runs(["local", "random"], [0], {})
    }
    assert rates == {"local": 5e-5, "random": 3e-4}


def test_the_thesis_tau_of_every_metric_and_merge_rule():
    runs = find_preset("friends-cifar-labels5").runs(None, [0], {})
    taus = {run.label: run.strategy["tau"] for run in runs if run.strategy["name"] == "dac"}
    assert taus == {
        "dac-inverse-loss": 5,
        "dac-inverse-loss-fedsim": 5,
        "dac-cosine-gradients": 1000,
        "dac-cosine-gradients-fedsim": 200,
        "dac-cosine-weights": 300,
        "dac-cosine-weights-fedsim": 200,
        "dac-inverse-distance": 30,
        "dac-inverse-distance-fedsim": 10,
    }
    synthetic = find_preset("friends-synthetic").runs(["dac-cosine-weights"], [0], {})
    assert synthetic[0].training.learning_rate == 0.003


def test_the_thesis_tables_were_made_with_the_change_since_the_initial_weights():
    for name in ("friends-cifar-labels2", "friends-cifar-labels5", "friends-synthetic"):
        strategies = [run.strategy for run in find_preset(name).runs(None, [0], {})]
        alphas = [s["alpha"] for s in strategies if s.get("metric") == "cosine-gradients"]
        assert alphas
        assert set(alphas) == {0.0}


DAC_TABLES = ["dac", "dac-var", "dac-min-max", "dac-no-estimates", "pens"]
FINE_TUNED = ["random-finetuned", "dac", "dac-finetuned", "hast-not-finetuned", "hast"]
PANM = [
    "panm-inverse-loss",
    "panm-inverse-loss-fedsim",
    "panm-cosine-gradients",
    "panm-cosine-gradients-fedsim",
]
PENS_TABLE = [
    "pens", "epsilon-greedy-0.5", "epsilon-greedy-1-0.99", "epsilon-greedy-0.2", "greedy",
    "random-weighted", "central-cluster", "central-all",
]  # fmt: skip


@pytest.mark.parametrize(("start", "rows"), [
    ("dac-", DAC_TABLES),
    ("hast-", FINE_TUNED),
    ("friends-cifar-labels", [*PANM, "fedavg", "ifca"]),
    ("pens-cifar-rotation2", PENS_TABLE),
])  # fmt: skip
def test_every_row_of_the_tables_is_there(start, rows):
    presets = [preset for name, preset in PRESETS.items() if name.startswith(start)]
    assert len(presets) >= 2
    for preset in presets:
        labels = [variant.label for variant in preset.variants]
        assert {"local", "random", "oracle", *rows} <= set(labels)
        assert len(set(labels)) == len(labels)


def strategy_of(preset: str, label: str) -> dict[str, object]:
    (run,) = find_preset(preset).runs([label], [0], {})
    return run.strategy


def test_pens_as_the_dac_paper_has_it():
    """20 + 180 rounds, ranked by loss, and no more models than the others fetch."""
    for name in (name for name in PRESETS if name.startswith("dac-")):
        strategy = strategy_of(name, "pens")
        assert strategy["name"] == "pens"
        assert strategy["exploration_rounds"] == find_preset(name).config.rounds - 180 == 20
        assert strategy["metric"] == "inverse-loss"
        assert strategy["samples"] == strategy["later_fetches"] == 5
        assert strategy["exploration_epochs"] == find_preset(name).config.training.epochs


def test_variants_of_dac():
    assert strategy_of("dac-cifar-rotation4", "dac-var")["temperature"] == "growing"
    assert strategy_of("dac-cifar-rotation4", "dac-min-max")["rescale"] is True
    assert strategy_of("dac-cifar-rotation4", "dac-no-estimates")["two_hop"] is False
    assert {strategy_of("dac-cifar-rotation4", label)["tau"] for label in DAC_TABLES[:4]} == {30}


# selected, sampled, samplings, rounds of step 1, epochs of step 1, fetches in step 2
@pytest.mark.parametrize(("preset", "expected"), [
    ("pens-cifar-rotation2-50", (1, 5, 10, 20, 2, 20)),
    ("pens-cifar-rotation2", (4, 20, 10, 20, 10, 20)),
    ("pens-cifar-rotation2-1000", (4, 20, 10, 20, 50, 20)),
])  # fmt: skip
def test_pens_at_every_number_of_peers(preset, expected):
    for name in (preset, f"{preset}-common"):
        strategy = strategy_of(name, "pens")
        assert expected == tuple(
            strategy[option]
            for option in (
                "fetches", "samples", "samplings", "exploration_rounds", "exploration_epochs",
                "later_fetches",
            )
        )  # fmt: skip
        greedy = strategy_of(name, "epsilon-greedy-1-0.99")
        assert (greedy["fetches"], greedy["samples"]) == expected[:2]
        assert (greedy["epsilon"], greedy["decay"]) == (1.0, 0.99)
        assert find_preset(name).config.patience == 50
        assert find_preset(name).config.best_by == "score"


@pytest.mark.parametrize("name", [name for name in PRESETS if name.startswith("friends-")])
def test_the_thesis_stops_after_50_rounds_and_tests_the_highest_accuracy(name):
    """Hagander & Ihre-Thomason 2024, table A.3 and section 3; linear regression has no accuracy."""
    config = find_preset(name).config
    assert config.patience == 50
    assert config.best_by == ("loss" if name == "friends-synthetic" else "best-score")
    assert config.best == "trained"


def test_all_of_cifar10_is_dealt_out_in_the_pens_presets():
    for preset in (preset for name, preset in PRESETS.items() if name.startswith("pens-")):
        peers = preset.config.peers
        assert peers.count * (peers.train_size + peers.validation_size) == 50_000


def test_hast_and_its_baselines_receive_equally_many_models():
    """HAST fetches n = 3 twice a round; everybody else 2n = 6, with and without fine-tuning."""
    for label in ("random", "random-finetuned", "dac", "dac-finetuned", "oracle"):
        assert strategy_of("hast-cifar-labels2", label)["fetches"] == 6
    for label, finetune in (("hast", True), ("hast-not-finetuned", False)):
        strategy = strategy_of("hast-cifar-labels2", label)
        assert (strategy["fetches"], strategy["finetune"]) == (3, finetune)
    assert strategy_of("hast-pacs", "dac-finetuned")["finetune"] is True
    assert strategy_of("hast-pacs", "dac")["finetune"] is False


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
def test_every_depth_of_hast_can_be_set(depth):
    (run,) = find_preset("hast-cifar-labels2").runs(["hast"], [0], {"strategy.depth": depth})
    assert run.strategy["depth"] == depth


def test_panm_as_the_thesis_has_it():
    """k = l = 5, T1 = 50, NAEM every 2 rounds; FedSim with DAC's τ."""
    for preset, tau in (("friends-cifar-labels2", 5), ("friends-cifar-labels5", 5)):
        for label in PANM:
            strategy = strategy_of(preset, label)
            assert [
                strategy[option] for option in ("fetches", "candidates", "confident_rounds")
            ] == [5, 5, 50]
            assert strategy["em_every"] == 2
            assert strategy["tau"] == (tau if "inverse-loss" in label else 200)
            assert strategy["merge"] == ("fedsim" if label.endswith("fedsim") else "fedavg")


def test_ifca_is_told_the_number_of_clusters():
    assert strategy_of("friends-cifar-labels2", "ifca")["models"] == 2
    assert strategy_of("friends-cifar-labels5", "ifca")["models"] == 5


def test_the_users_word_comes_last():
    changes = {"training.learning_rate": 0.5, "strategy.fetches": 2}
    runs = find_preset("friends-fashion-rotation").runs(None, [0], changes)
    assert {run.training.learning_rate for run in runs} == {0.5}
    assert [run.strategy.get("fetches") for run in runs] == [None] + [2] * (len(runs) - 1)


def test_an_option_nobody_has_is_refused():
    with pytest.raises(ConfigError, match="The strategy local has no option 'fetches'"):
        find_preset(DEFAULT).runs(["local"], [0], {"strategy.fetches": 2})
    with pytest.raises(ConfigError, match="Did you mean 'fetches'"):
        find_preset(DEFAULT).runs(None, [0], {"strategy.fetch": 2})


def test_bare_strategies_get_the_presets_number_of_fetches():
    (run,) = find_preset("pens-cifar-rotation2").runs(["fedavg"], [0], {})
    assert run.strategy == {"name": "fedavg", "fetches": 20}


def test_the_default_preset():
    """Rotated clusters 0/90/180/270, 40 peers, Kin beside Local, Random, DAC and Oracle."""
    preset = find_preset(DEFAULT)
    assert preset.config.shift.angles == (0, 90, 180, 270)
    assert preset.config.peers.count == 40
    labels = [variant.label for variant in preset.variants]
    assert labels == ["local", "random", "dac", "oracle", "kin"]


def test_strategies_of_one_name_are_the_same_in_all_presets_of_digits():
    everything = find_preset("digits-methods")
    for name in ("digits", "digits-drift"):
        preset = find_preset(name)
        labels = [variant.label for variant in preset.variants]
        assert "kin" in labels
        assert list(preset.variants) == everything.compared(labels)


def test_what_nobody_chooses_is_kin():
    config = RunConfig(peers=PeerSettings(count=4, train_size=8, validation_size=4))
    assert config.label == config.strategy["name"] == "kin"
    assert (
        parse_config(config.model_dump() | {"strategy": {"fetches": 2}}).strategy["name"] == "kin"
    )


def test_changing_the_kind_of_a_group_drops_what_no_longer_fits():
    config = find_preset(DEFAULT).config
    changed = apply_changes(config, {"shift.kind": "labels", "shift.groups": [[0, 1], [2]]})
    assert changed.shift.groups == ((0, 1), (2,))
    with pytest.raises(ConfigError, match=r"no setting 'shift\.angles'"):
        apply_changes(config, {"shift": {"kind": "labels", "groups": [[1]], "angles": [0]}})
