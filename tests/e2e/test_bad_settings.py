"""Names and settings that cannot work: one clear message, and nothing is written."""

from __future__ import annotations

import pytest
from commands import SMALL, coterie, refused, run_with

from coterie.experiments.presets import PRESETS


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("run", "digitz"), ("'digitz'", "Did you mean 'digits'", *PRESETS)),
        (("run", "--strategy", "orcle"), ("'orcle'", "Did you mean 'oracle'", "gossip")),
        (("run", "--strategy", "random,"), ("strategy", "Known:", "gossip")),
        (("run", "--nope"), ("--nope",)),
        (("rnu",), ("'rnu'", "Did you mean 'run'")),
        (("resume",), ("Missing argument",)),
    ],
)
def test_unknown_names(arguments, parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(coterie(*arguments), 2, *parts)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ("strategy.fetchez=1", ("random", "'fetchez'", "Did you mean 'fetches'")),
        ("roundz=3", ("'roundz'", "Did you mean 'rounds'")),
        ("training.epochz=3", ("'training.epochz'", "Did you mean 'epochs'")),
        ("trainingg.epochs=3", ("'trainingg'", "Did you mean 'training'")),
        ("training.adam.beta=3", ("'training.adam'", "optimizer")),
        ("shift.anglez=[1]", ("'shift.anglez'", "Did you mean 'angles'")),
        ("drift={kind: random, every: 2, evry: 2}", ("'drift.evry'", "Did you mean 'every'")),
        ("peers.sizes={kind: skewed, exponnt: 2}", ("'peers.sizes.exponnt'", "'exponent'")),
        ("shift.kind=rotatoin", ("shift.kind", "'rotatoin'", "Did you mean 'rotation'")),
        ("shift={kind: lables}", ("shift.kind", "'lables'", "Did you mean 'labels'")),
        ("peers.sizes.kind=skwed", ("peers.sizes.kind", "'skwed'", "Did you mean 'skewed'")),
        ("model.name=digits-cn", ("'digits-cn'", "Did you mean 'digits-cnn'")),
        ("data.datasets=[digitz]", ("'digitz'", "Did you mean 'digits'", ".npz")),
    ],
)
def test_a_misspelt_setting_names_the_nearest(tmp_path, change, parts):
    refused(run_with(tmp_path, change), 2, *parts)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ("training.epochs=many", ("training.epochs", "'many'", "whole number")),
        ("training.epochs=1.5", ("training.epochs", "1.5", "whole number")),
        ("training.epochs=", ("training.epochs", "whole number")),
        ("training.epochs=0", ("training.epochs", "0", "greater than or equal to 1")),
        ("training.epochs.x=3", ("training.epochs",)),
        ("training.optimizer=sdg", ("training.optimizer", "'sdg'", "'sgd'")),
        ("training.learning_rate=.nan", ("training.learning_rate", "nan", "finite")),
        ("training.learning_rate=-1", ("training.learning_rate", "-1", "greater than 0")),
        ("strategy.fetches=few", ("strategy.fetches", "'few'", "whole number")),
        ("training=5", ("training", "5", "group")),
        ("shift=5", ("shift", "5", "kind")),
        ("shift={}", ("shift.kind", "rotation", "labels")),
        ("shift.kind=labels", ("'shift.groups'", "missing")),
        ("shift={kind: labels, groups: []}", ("shift.groups", "at least 1")),
        ("shift={kind: labels, groups: [[0, 1], []]}", ("shift.groups", "at least 1")),
        ("data.datasets=digits", ("data.datasets", "'digits'", "list")),
        ("peers.clusters=[1, 2]", ("peers.clusters", "2 shares", "4 clusters")),
        ("network.offline_trace=[{peer: 99, first_round: 1, last_round: 2}]", ("99", "0 to 7")),
        ("drift={kind: matrix, every: 1, matrix: [[0, 1], [9, 0]]}", ("drift", "9", "only 4")),
        ("drift={kind: matrix, every: 1, matrix: [[0, 1], [0]]}", ("drift.matrix", "same length")),
    ],
)
def test_a_value_that_cannot_work(tmp_path, change, parts):
    refused(run_with(tmp_path, change), 2, *parts)


def test_what_cannot_work_with_these_peers_leaves_no_folder_behind(tmp_path):
    trace = "network.offline_trace=[{peer: 99, first_round: 1, last_round: 2}]"
    refused(run_with(tmp_path, trace), 2, "99")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("strategy", "hint"),
    [("greedy", "inverse-loss"), ("pens", "inverse-loss"), ("random-weighted", "another")],
)
def test_a_strategy_that_goes_by_accuracy_is_refused_for_regression(tmp_path, strategy, hint):
    arguments = ("friends-synthetic", "--peers", 6, "--rounds", 1, "--strategy", strategy)
    changes = ("--set", "strategy.fetches=2", "--set", "strategy.samples=3")
    if strategy == "random-weighted":
        changes = changes[:2]
    answer = coterie("run", *arguments, *changes, "--out", tmp_path / "out")
    refused(answer, 2, strategy, "accuracy", "not between 0 and 1", hint)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["training", "=3", "training.epochs", ""])
def test_set_without_a_key_and_a_value(tmp_path, text):
    refused(run_with(tmp_path, text), 2, f"--set {text}", "key=value", "training.epochs=1")


@pytest.mark.parametrize("value", ["[1", "{a: b", "'", "!!python/name:os.system", "2020-13-45"])
def test_a_value_that_is_no_yaml(tmp_path, value):
    refused(run_with(tmp_path, f"training.epochs={value}"), 2, f"training.epochs={value}", "YAML")


@pytest.mark.parametrize("fetches", [8, 9, -1])
def test_more_fetches_than_there_are_others(tmp_path, fetches):
    answer = run_with(tmp_path, f"strategy.fetches={fetches}")
    refused(answer, 2, "strategy.fetches", fetches, "8 peers", "at most 7")


@pytest.mark.parametrize("peers", [0, -3])
def test_no_peers(tmp_path, peers):
    answer = coterie("run", *SMALL, "--peers", peers, "--out", tmp_path / "out")
    refused(answer, 2, "peers", peers, "greater than or equal to 1")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--threads", "0"),
        ("--threads", "-1"),
        ("--seed", "-1"),
        ("--seed", "1,2"),
        ("--seeds", "0"),
        ("--seeds", "1,2,3"),
        ("--rounds", "-1"),
        ("--rounds", "ten"),
        ("--peers", "8.5"),
    ],
)
def test_a_number_that_is_none(tmp_path, option, value):
    answer = coterie("run", *SMALL, option, value, "--out", tmp_path / "out")
    refused(answer, 2, f"{option} {value} cannot be used", "expected a")
    assert not (tmp_path / "out").exists()


def test_a_strategy_named_twice(tmp_path):
    """Both would write to one folder, and count as two seeds with a confidence interval of 0."""
    answer = coterie("run", *SMALL, "--strategy", "random,oracle,random", "--out", tmp_path / "out")
    refused(answer, 2, "random", "once")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "instead"),
    [
        ("seed=3", "--seed"),
        ("label=../../elsewhere", "label"),
        ("strategy.name=oracle", "--strategy"),
        ("strategy=oracle", "--strategy"),
        ("strategy={name: oracle}", "--strategy"),
    ],
)
def test_what_identifies_a_run_cannot_be_set(tmp_path, change, instead):
    """A label names a folder, and must say what was run."""
    refused(run_with(tmp_path, change), 2, change.partition("=")[0], instead)
    assert not any(tmp_path.iterdir())
