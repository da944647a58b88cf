"""Published numbers: complete, in the right places, and never beside a run of another setting."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pytest
from pydantic import ValidationError

from coterie.data.partition import cluster_of_peers
from coterie.data.shifts import LabelShift, RotationShift
from coterie.errors import ConfigError
from coterie.experiments.presets import PRESETS, find_preset
from coterie.experiments.presets.scaling import num_clusters
from coterie.experiments.published import PAPERS, published_tables
from coterie.experiments.published.published_table import (
    PublishedComparison,
    PublishedResult,
    PublishedTable,
)
from coterie.results.published_comparison import compare_with_published, list_departures

TABLES = published_tables()


def table(**changes: object) -> PublishedTable:
    settings = {
        "preset": "x",
        "source": "A. Uthor 1999, table 7",
        "mean_over": "peers",
        "results": {"dac": {"mean": 50.0}},
        **changes,
    }
    return PublishedTable.model_validate(settings)


def compared(
    preset: str, labels: list[str] | None = None, **options: object
) -> PublishedComparison | None:
    """Return the comparison of a preset's runs; `changes` and `scale` as for `Preset.runs`."""
    seeds = range(int(options.pop("seeds", 1)))
    changes = options.pop("changes", {})
    return compare_with_published(find_preset(preset).runs(labels, seeds, changes, **options))


@pytest.mark.parametrize("name", list(TABLES))
def test_every_published_label_is_a_variant_of_an_existing_preset(name):
    assert name in PRESETS
    assert set(TABLES[name].results) <= {variant.label for variant in PRESETS[name].variants}


@pytest.mark.parametrize("name", list(TABLES))
def test_every_published_cluster_is_one_of_the_preset(name):
    shift = PRESETS[name].config.shift
    if TABLES[name].clusters:
        assert isinstance(shift, RotationShift | LabelShift)
        names = [concept.name for concept in shift.concepts([], 0)]
        assert set(TABLES[name].clusters) <= set(names)


def means() -> list[tuple[str, str]]:
    """Return the preset and label of each result that has a mean and all of its clusters."""
    return [
        (name, label)
        for name, table in TABLES.items()
        for label, result in table.results.items()
        if result.mean is not None and len(result.clusters) == num_clusters(PRESETS[name].config)
    ]


@pytest.mark.parametrize(("name", "label"), means())
def test_published_means_are_formed_as_the_table_says(name, label):
    """The papers' own roundings leave up to 0.06; a mistyped number leaves more."""
    config, published = PRESETS[name].config, TABLES[name]
    result = published.results[label]
    names = [concept.name for concept in config.shift.concepts([], 0)]
    values = [published.of_cluster(result, each) for each in names]
    peers = cluster_of_peers(config.peers.count, len(names), config.peers.clusters)
    weights = np.bincount(peers) if published.mean_over == "peers" else None
    assert np.average(values, weights=weights) == pytest.approx(result.mean, abs=0.06)


def test_the_two_kinds_of_mean_differ_where_it_matters():
    """DAC's tables average clusters of 70, 20, 5 and 5 peers alike; the thesis averages peers."""
    kinds = {name: published.mean_over for name, published in TABLES.items()}
    assert kinds["dac-cifar-rotation-uneven"] == "clusters"
    assert kinds["friends-cifar-labels2"] == "peers"
    assert ("dac-cifar-rotation-uneven", "dac") in means()
    assert ("friends-cifar-labels2", "random") in means()


def test_columns_in_another_order_find_their_clusters():
    """Table 2 prints 0, 180, 350, 10; the preset has 0, 180, 10, 350."""
    published = TABLES["dac-fashion-rotation-uneven"]
    dac = published.results["dac"]
    values = [published.of_cluster(dac, name) for name in ("0°", "180°", "10°", "350°")]
    assert values == [75.08, 74.95, 74.33, 73.03]
    assert published.of_cluster(dac, "90°") is None
    assert published.of_cluster(published.results["local"], "0°") is None


@pytest.mark.parametrize(
    ("preset", "label", "field", "value"),
    [
        ("dac-cifar-rotation4", "dac", "mean", 49.72),
        ("dac-cifar-rotation-uneven", "dac", "deviation", 2.33),
        ("friends-synthetic", "oracle", "mean", 9.43),
        ("friends-cifar-labels2", "panm-inverse-loss", "mean", 62.02),
        ("pens-cifar-rotation2", "pens", "interval", 1.0),
        ("pens-cifar-rotation2", "pens", "models", 16130),
        ("pens-cifar-rotation2", "pens", "recall", 71.2),
        ("pens-cifar-rotation2-common", "pens", "mean", 47.7),
        ("pens-cifar-rotation2-1000", "pens", "precision", 82.2),
    ],
)
def test_numbers_as_printed(preset, label, field, value):
    assert getattr(TABLES[preset].results[label], field) == value


def test_every_file_is_read_and_names_each_preset_once():
    folder = resources.files("coterie.experiments.published")
    files = [each for each in folder.iterdir() if each.name.endswith(".yaml")]
    assert {each.name for each in files} == {f"{name}.yaml" for name in (*PAPERS, "figures")}
    named = [
        line for each in files for line in each.read_text(encoding="utf-8").splitlines()
        if line.startswith("- preset: ")
    ]  # fmt: skip
    assert sorted(named) == sorted(f"- preset: {name}" for name in TABLES)


@pytest.mark.parametrize("name", [name for name in PRESETS if name.startswith(("digits", "hast"))])
def test_nothing_is_published_for_digits_and_only_curves_for_hast(name):
    assert compared(name) is None


def test_unknown_presets_and_labels_are_not_compared():
    assert compared("friends-synthetic", ["fedavg", "gossip"]) is None
    [run] = find_preset("friends-synthetic").runs(["local"], [0], {})
    assert compare_with_published([run.model_copy(update={"preset": "from-elsewhere"})]) is None


@pytest.mark.parametrize("name", list(TABLES))
def test_an_unchanged_preset_departs_in_nothing(name):
    found = compared(name, seeds=TABLES[name].seeds or 1)
    assert found.departures == ()
    assert found.table.preset == name
    assert "the published setting" in found.caption([])


@pytest.mark.parametrize(
    ("changes", "departure"),
    [
        ({"rounds": 100}, "shortened: 100 of 200 rounds"),
        ({"rounds": 300}, "rounds 300 instead of 200"),
        ({"peers.count": 20}, "20 of 100 peers"),
        ({"training.learning_rate": 0.1}, "training.learning_rate 0.1 instead of 0.0003"),
        ({"strategy.tau": 1}, "strategy.tau 1 instead of 30"),
        ({"strategy.tau": 1.05}, "strategy.tau 1.05 instead of 30"),
        ({"patience": 3}, "patience 3 instead of null"),
        ({"schedule": "sequential"}, "schedule sequential instead of synchronous"),
        ({"data.datasets": ["cifar100"]}, 'data.datasets ["cifar100"] instead of ["cifar10"]'),
        (
            {"shift": {"kind": "labels", "groups": [[0], [1], [2], [3]]}},
            "shift.kind labels instead of rotation",
        ),
    ],
)
def test_each_change_is_named(changes, departure):
    assert compared("dac-cifar-rotation4", ["dac"], changes=changes).departures == (departure,)


def test_what_cannot_change_a_result_is_no_departure():
    changes = {"data.root": "/elsewhere", "test_every": 3, "training.trainer": "torch"}
    changes |= {"training.device": "cpu", "training.peers_at_once": 7}
    assert compared("dac-cifar-rotation4", changes=changes).departures == ()
    elsewhere = {"model.pretrained": "/elsewhere/resnet18-f37072fd.pth"}
    assert compared("friends-cifar100-pretrained", changes=elsewhere).departures == ()
    scratch = compared("friends-cifar100-pretrained", changes={"model.pretrained": None})
    assert scratch.departures == ("model.pretrained false instead of true",)


def test_a_scaled_run_departs():
    found = compared("dac-cifar-rotation-uneven", ["dac", "pens"], scale=0.1).departures
    assert found[:2] == ("shortened: 20 of 200 rounds", "13 of 100 peers")
    assert "strategy.exploration_rounds 2 instead of 20" in found


def test_only_compared_runs_depart():
    """FedAvg has no published number, so its number of fetches is nobody's business."""
    runs = find_preset("friends-synthetic").runs(["oracle"], range(15), {})
    runs += find_preset("friends-synthetic").runs(["fedavg"], [0], {"rounds": 3})
    assert compare_with_published(runs).departures == ()


@pytest.mark.parametrize(("seeds", "expected"), [(1, ("1 of 15 seeds",)), (15, ()), (16, ())])
def test_fewer_seeds_than_published_are_named(seeds, expected):
    assert compared("friends-synthetic", ["random"], seeds=seeds).departures == expected


def test_departures_need_a_known_label():
    preset = find_preset("digits")
    [run] = preset.runs(["random"], [0], {})
    assert list_departures(run, preset) == []
    with pytest.raises(ConfigError, match="no strategy 'mine'"):
        list_departures(run.model_copy(update={"label": "mine"}), preset)


def test_the_caption_names_the_source_and_every_departure():
    text = PublishedComparison(table(seeds=3, remark="Beware."), ("shortened: 1 of 2 rounds", "x"))
    assert text.caption([]).splitlines() == [
        "published: A. Uthor 1999, table 7, mean of 3 seeds",
        "Not a reproduction: shortened: 1 of 2 rounds; x.",
        "Beware.",
    ]


def test_many_departures_are_counted():
    text = PublishedComparison(table(), tuple(f"d{n}" for n in range(11))).caption([])
    assert "d7; and 3 more." in text
    assert "d8" not in text


def test_precision_and_recall_are_named_with_the_strategy_that_ran():
    results = {"pens": {"precision": 97.8, "recall": 71.2}}
    text = PublishedComparison(table(results=results))
    assert "pens finds: precision 97.8 %, recall 71.2 %" in text.caption(["pens"])
    assert "precision" not in text.caption(["dac"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"results": {}}, "at least 1"),
        ({"results": {"dac": {}}}, "at least one number"),
        ({"results": {"dac": {"mean": 1.0, "clusters": [1.0]}}}, "dac has 1 numbers for 0"),
        ({"results": {"dac": {"men": 1.0}}}, "Extra inputs"),
        ({"mean_over": "seeds"}, "mean_over"),
    ],
)
def test_a_table_with_a_mistake_is_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        table(**changes)


def test_precision_without_recall_is_refused():
    with pytest.raises(ConfigError, match="must be given together"):
        PublishedResult(precision=50.0)
