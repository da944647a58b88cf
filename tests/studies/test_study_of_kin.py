"""The study of Kin expands as it says: every strategy in every setting is a valid configuration."""

from __future__ import annotations

from collections import Counter

import pytest

from coterie.data.drift import NoDrift
from coterie.errors import ConfigError
from coterie.experiments.config import RunConfig, check_sizes
from coterie.experiments.presets import find_preset
from coterie.results.published_comparison import list_differences
from coterie.strategies import make_strategy
from coterie.studies.base import Setting, plan
from coterie.studies.kin import own_tasks
from coterie.studies.study_list import STUDIES, find_study

KIN = STUDIES["kin"]
BY_NAME = {setting.name: setting for setting in KIN.settings}
TUNED = ("hast", "hast-not-finetuned", "kin-not-finetuned")
"""What is compared besides where data drift, with more training and without."""
TAUS = (1, 10, 100, 1000)


def configs(name: str, **changes: object) -> dict[str, RunConfig]:
    """Return the configurations of a setting with seed 1, by label."""
    return {config.label: config for config in BY_NAME[name].runs(None, [1], changes)}


@pytest.mark.parametrize("name", BY_NAME)
def test_strategies_are_compared_over_all_rounds_even_where_the_paper_stops_early(name):
    for config in configs(name).values():
        assert (config.patience, config.best_by) == (None, "loss")


@pytest.mark.parametrize("scale", [1.0, 0.4, 0.1])
def test_everything_is_valid_and_nothing_is_run_twice(scale):
    parts = plan(KIN.settings, None, [1, 2, 3], {}, scale)
    every = [config for part in parts for config in part.configs]
    check_sizes(every)
    for part in parts:
        runs = Counter((config.label, config.seed) for config in part.configs)
        assert set(runs.values()) == {1}
        assert {config.seed for config in part.configs} == {1, 2, 3}
    assert all(config.compare_bests for config in every)


@pytest.mark.parametrize("setting", KIN.settings, ids=lambda setting: setting.name)
def test_settings_that_share_a_folder_mean_the_same_runs(setting):
    for other in (each for each in KIN.settings if each.folder_name == setting.folder_name):
        common = [label for label in setting.labels if label in other.labels]
        pairs = zip(setting.runs(common, [1], {}), other.runs(common, [1], {}), strict=True)
        by_label = {each.label: each for each in other.runs(common, [1], {})}
        for ours, _ in pairs:
            assert list_differences(ours, by_label[ours.label]) == []


@pytest.mark.parametrize("name", [s.name for s in KIN.settings if s.group == "main"])
def test_main_settings_compare_all_at_the_same_communication(name):
    found = configs(name)
    config = found["kin"]
    fetches = find_preset(config.preset).config.strategy["fetches"]
    drifts = not isinstance(config.drift, NoDrift)
    tried = {f"dac-tau{tau}": tau for tau in TAUS if tau != found["dac"].strategy["tau"]}
    main = ["local", "random", "oracle", "dac", *tried, "pens", "panm", "kin"]
    assert list(found) == [*main, *(TUNED if drifts else ())]
    for label in ("random", "oracle", "dac", "panm", "kin"):
        assert found[label].strategy["fetches"] == fetches
    pens = found["pens"].strategy
    assert (pens["samples"] * pens["samplings"], pens["later_fetches"]) == (fetches, fetches)
    if drifts:
        assert 2 * found["hast"].strategy["fetches"] == fetches
        tuned = {label: found[label].strategy["finetune"] for label in (*TUNED, "kin")}
        assert [label for label in tuned if tuned[label]] == ["hast", "kin"]
    assert config.test_every == (10 if drifts else config.rounds // 5)
    for label, tau in tried.items():
        assert found[label].strategy == {**found["dac"].strategy, "tau": tau}


def test_a_published_temperature_is_not_tried_twice():
    left_out = {
        name: [tau for tau in TAUS if f"dac-tau{tau}" not in configs(name)]
        for name in ("labels2", "mnist-fashion", "rotation4")
    }
    assert left_out == {"labels2": [10], "mnist-fashion": [1], "rotation4": []}


def test_dac_has_the_published_temperature():
    taus = {name: configs(name)["dac"].strategy["tau"] for name in ("labels2", "rotation4")}
    assert taus == {"labels2": 10, "rotation4": 30}
    assert configs("labels2")["dac"].strategy["merge"] == "fedavg"
    assert configs("synthetic")["dac"].strategy["tau"] == 10_000


def test_synthetic_has_one_learning_rate_and_others_their_own():
    assert {each.training.learning_rate for each in configs("synthetic").values()} == {3e-3}
    assert configs("labels2")["local"].training.learning_rate == 1e-4
    assert configs("labels2")["kin"].training.learning_rate == 1e-3


def test_initialisations():
    assert configs("rotation4")["kin"].initialisation == "independent"
    assert configs("rotation4-common")["kin"].initialisation == "common"


def test_ablation_takes_each_part_away():
    options = make_strategy("kin").options()
    parts = [name for name, value in options.items() if value is True]
    assert len(parts) >= 3
    for place in ("labels5", "rotation4", "digits"):
        found = configs(f"ablation-{place}")
        for name in parts:
            without = found[f"kin-no-{name.replace('_', '-')}"].strategy
            changed = {key for key in without if without[key] != found["kin"].strategy[key]}
            assert changed == {name}
        assert {"local", "oracle", "kin"} <= set(found)
        assert found["oracle-adopt"].strategy == {**found["oracle"].strategy, "adopt": True}


def test_poison_is_beside_clean_runs():
    found = configs("poison-labels2")
    for kind in ("absent", "sign-flip", "noise", "label-flip", "stale"):
        for strategy in ("random", "oracle", "kin"):
            poison = found[f"{strategy}-{kind}"].poison
            assert (poison.kind, poison.share) == (kind, 0.3)
            assert found[strategy].poison.kind == "none"
    assert found["kin-liar"].poison.kind == "liar"
    assert "oracle-liar" not in found


def test_delusion_shrinks_with_the_peers():
    (whole,) = BY_NAME["death"].runs(["kin-delusional"], [1], {})
    assert (whole.poison.count, whole.poison.cluster, whole.poison.from_round) == (25, 0, 50)
    (small,) = BY_NAME["death"].runs(["kin-delusional"], [1], {}, scale=0.4)
    assert (small.poison.count, small.peers.count, small.poison.from_round) == (10, 40, 20)


def test_conditions():
    for size in (20, 50, 200, 500, 1000):
        peers = configs(f"validation-{size}")["kin"].peers
        assert peers.validation_size == size
        assert peers.count * (peers.train_size + size) <= 50_000
    assert configs("iid")["kin"].shift.kind == "none"
    assert configs("offline")["kin"].network.offline_probability == 0.3
    assert configs("unequal-sizes")["kin"].peers.sizes.kind == "skewed"
    own = configs("own-task")["oracle"]
    assert len(own.shift.swaps) == own.peers.count == 20
    assert all(config.initialisation == "common" for config in configs("iid").values())


def test_own_tasks_agree_on_little():
    tasks = [{tuple(pair) for pair in swaps} for swaps in own_tasks(20)["swaps"]]
    common = [len(a & b) for n, a in enumerate(tasks) for b in tasks[:n]]
    assert max(common) <= 3  # of five pairs
    assert sum(common) / len(common) < 1
    assert all(sorted(label for pair in task for label in pair) == [*range(10)] for task in tasks)


def test_fewer_rounds_move_shifts_closer_together():
    assert configs("hast-labels2", rounds=100)["kin"].drift.every == 10
    assert configs("labels2", rounds=100)["kin"].test_every == 20
    both = configs("hast-labels2", rounds=100, **{"drift.every": 50})["kin"]
    assert both.drift.every == 50


def test_what_is_chosen():
    assert [each.name for each in KIN.chosen(["death", "labels5"])] == ["labels5", "death"]
    assert {each.group for each in KIN.chosen(["ablation"])} == {"ablation"}
    (part,) = plan(KIN.chosen(["labels2", "death"]), ["kin"], [4], {"strategy.rivals": False})
    assert (part.folder_name, part.settings) == ("labels2", ("labels2", "death"))
    (config,) = part.configs
    assert (config.label, config.seed, config.strategy["rivals"]) == ("kin", 4, False)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: find_study("kim"), "Did you mean 'kin'?"),
        (lambda: KIN.chosen(["label2"]), "Did you mean 'labels2'?"),
        (lambda: plan(KIN.settings, ["orakel"], [1], {}), "Did you mean 'oracle'?"),
        (lambda: plan(KIN.settings, None, [1], {"strategy.taus": 1}), "strategy.tau"),
    ],
)
def test_what_does_not_exist_is_refused(ask, said):
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
        ask()


def test_an_option_may_be_meant_for_another_setting():
    local = Setting("one", "one", "digits", find_preset("digits").variants[:1])
    dac = Setting(
        "two", "one", "digits-methods", (*find_preset("digits-methods").compared(["dac"]),)
    )
    alone, other = plan([local, dac], None, [1], {"strategy.tau": 7.0})
    assert "tau" not in alone.configs[0].strategy
    assert other.configs[0].strategy["tau"] == 7.0
