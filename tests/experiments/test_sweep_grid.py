"""Sweeps: which runs a grid has, what is refused, and which setting is called best."""

from __future__ import annotations

import csv
import io
import itertools
import math

import pytest
from rich.console import Console

from coterie.errors import ConfigError
from coterie.experiments.presets import find_preset
from coterie.experiments.run_summary import RunSummary
from coterie.experiments.sweep_grid import (
    MAX_RUNS,
    one_line_yaml,
    parse_vary,
    plan_sweep,
    setting_text,
)
from coterie.reports.sweep_tables import build_sweep_table, format_csv
from coterie.results.sweep_points import SweepRun, best_points, group_by_values
from coterie.tasks.score import ACCURACY, MSE, TaskScore

DIGITS = find_preset("digits")


def names(varied: dict[str, list[object]], labels: list[str], seeds: range = range(1)) -> list[str]:
    return plan_sweep(DIGITS, labels, seeds, {}, varied)[1]


# Reading --vary


def test_values_are_read_like_set():
    read = parse_vary(
        [
            "strategy.tau=1,5, 1e3,0.5",
            "initialisation=common,independent",
            "peers.clusters=[70, 30],[50, 50],null",
            "drift={kind: random, every: 2},{kind: none}",
        ],
        {},
    )
    assert read == {
        "strategy.tau": [1, 5, "1e3", 0.5],
        "initialisation": ["common", "independent"],
        "peers.clusters": [[70, 30], [50, 50], None],
        "drift": [{"kind": "random", "every": 2}, {"kind": "none"}],
    }


@pytest.mark.parametrize(
    ("texts", "parts"),
    [
        (["strategy.tau"], ["dotted.key=value,value"]),
        (["=1,2"], ["dotted.key=value,value"]),
        (["strategy.tau="], ["no values"]),
        (["strategy.tau=1,,2"], ["not valid YAML"]),
        (["strategy.tau=1],[2"], ["not valid YAML"]),
        (["strategy.tau=1", "strategy.tau=2"], ["strategy.tau is given twice"]),
        (["rounds=1,2"], ["'rounds' is varied and also set to 5"]),
        (["seed=1,2"], ["--seeds"]),
        (["strategy=a,b"], ["--strategy"]),
        (["strategy.name=dac,random"], ["--strategy"]),
        (["label=a,b"], ["--strategy"]),
    ],
)
def test_what_cannot_be_varied(texts, parts):
    with pytest.raises(ConfigError) as error:
        parse_vary(texts, {"rounds": 5})
    for part in parts:
        assert part in str(error.value)


# The grid


def test_a_strategy_without_the_option_runs_once():
    found = names({"strategy.tau": [1, 5]}, ["local", "dac"], range(2))
    assert sorted(found) == [
        "dac-tau=1-seed0", "dac-tau=1-seed1", "dac-tau=5-seed0", "dac-tau=5-seed1",
        "local-seed0", "local-seed1",
    ]  # fmt: skip


def test_several_settings_make_all_combinations():
    varied = {"strategy.tau": [1, 5], "training.epochs": [1, 2, 3]}
    configs, found = plan_sweep(DIGITS, ["dac", "local"], range(1), {"rounds": 3}, varied)
    assert len(found) == 2 * 3 + 3
    chosen = [(c.strategy["tau"], c.training.epochs) for c in configs if c.label == "dac"]
    assert sorted(chosen) == [(t, e) for t in (1.0, 5.0) for e in (1, 2, 3)]
    assert all(config.rounds == 3 for config in configs)
    assert "dac-tau=5-epochs=3-seed0" in found


def test_runs_on_the_same_data_follow_one_another():
    """So that they are made once, and shared: here two seeds of two sizes, four datasets."""
    varied = {"strategy.tau": [1, 5], "peers.train_size": [8, 16]}
    configs, _ = plan_sweep(DIGITS, ["random", "dac"], range(2), {}, varied)
    data = [(config.seed, config.peers.train_size) for config in configs]
    changes = sum(one != other for one, other in itertools.pairwise(data))
    assert changes == 3
    assert [seed for seed, _ in data] == sorted(seed for seed, _ in data)


@pytest.mark.parametrize(
    ("key", "values", "name"),
    [
        ("strategy.tau", [0.5], "dac-tau=0.5-seed0"),
        ("strategy.tau", ["1e3"], "dac-tau=1000-seed0"),
        ("training.learning_rate", [3e-5], "dac-learning_rate=3.0e-05-seed0"),
        ("initialisation", ["independent"], "dac-initialisation=independent-seed0"),
        ("peers.count", [12], "dac-count=12-seed0"),
        ("strategy.depth", [2], "dac-depth=2-seed0"),
        ("peers.clusters", [[1, 2, 3, 4]], "dac-clusters=1_2_3_4-seed0"),
    ],
)
def test_folders_have_readable_names(key, values, name):
    assert names({key: values}, ["dac"]) == [name]


def test_names_are_unique():
    """Of long values only the beginning is shown; and two keys may end alike."""
    long = [[0.0] * 40 + [1.0], [0.0] * 40 + [2.0]]
    varied = {"shift.angles": [[0, 90, *tail] for tail in long]}
    found = names(varied, ["dac"])
    assert len(set(found)) == 2
    assert all(len(name) < 80 for name in found)
    both = names({"drift.kind": ["none"], "peers.sizes.kind": ["equal"]}, ["dac"])
    assert both == ["dac-drift.kind=none-peers.sizes.kind=equal-seed0"]


@pytest.mark.parametrize(
    ("varied", "parts"),
    [
        ({"strategy.taw": [1, 2]}, ["'taw'", "Did you mean 'tau'"]),
        ({"trainin.epochs": [1, 2]}, ["'trainin'", "Did you mean 'training'"]),
        ({"training.epocs": [1, 2]}, ["'training.epocs'", "Did you mean 'epochs'"]),
        ({"strategy.tau": [1, "many"]}, ["tau", "'many'"]),
        ({"training.learning_rate": [0.1, -1]}, ["training.learning_rate", "-1"]),
        ({"strategy.tau": [1, 5, 1.0]}, ["strategy.tau", "1, 5, 1", "are equal"]),
        ({"training.learning_rate": ["3e-4", 0.0003]}, ["training.learning_rate", "are equal"]),
    ],
)
def test_values_that_cannot_work(varied, parts):
    with pytest.raises(ConfigError) as error:
        plan_sweep(DIGITS, ["dac"], range(2), {}, varied)
    for part in parts:
        assert part in str(error.value)


def test_too_many_runs_are_refused_with_their_number():
    """Counted, not made: a million configurations would take minutes."""
    varied = {"strategy.tau": list(range(1, 1001)), "training.epochs": list(range(1, 1001))}
    with pytest.raises(ConfigError, match="2,002,000 runs") as error:
        plan_sweep(DIGITS, ["dac", "local"], range(2), {}, varied)
    assert f"{MAX_RUNS:,}" in str(error.value)


def test_scale_shrinks_what_is_not_varied():
    configs, _ = plan_sweep(DIGITS, ["dac"], range(1), {}, {"peers.count": [20, 40]}, 0.5)
    assert [config.peers.count for config in configs] == [20, 40]
    assert {config.rounds for config in configs} == {DIGITS.config.rounds // 2}


def test_values_are_written_as_yaml():
    assert [one_line_yaml(v) for v in (5.0, 0.0003, True, None, "a", [1, 2], {"kind": "x"})] == [
        "5", "0.0003", "true", "null", "a", "[1, 2]", "{kind: x}",
    ]  # fmt: skip
    assert setting_text(DIGITS.config, "training.epochs") == "3"
    assert setting_text(DIGITS.config, "strategy.tau") is None


# Results


def trial(
    label: str,
    tau: str | None,
    validation: float | None,
    test: float = 0.5,
    *,
    seed: int = 0,
    score: TaskScore = ACCURACY,
) -> SweepRun:
    """Return a run that reached this, or that has not finished."""
    reached = RunSummary(
        label, seed, ("a", "b"), (test, test), test, 3.0, 4.0, score, validation or math.nan
    )
    name = f"{label}-{tau}-{seed}"
    return SweepRun(
        name, label, seed, {"strategy.tau": tau}, None if validation is None else reached
    )


def best(trials: list[SweepRun]) -> dict[str, str | None]:
    return {
        label: p.values["strategy.tau"] for label, p in best_points(group_by_values(trials)).items()
    }


def test_the_best_is_chosen_by_validation_and_never_by_test():
    trials = [
        trial("dac", "1", 0.5, test=0.9),
        trial("dac", "5", 0.7, test=0.1),
        trial("dac", "9", 0.6, test=0.8),
        trial("pens", None, 0.2),
    ]
    assert best(trials) == {"dac": "5", "pens": None}


def test_the_lowest_loss_is_best():
    trials = [
        trial("dac", "1", 20.0, test=1.0, score=MSE),
        trial("dac", "5", 10.0, test=9.0, score=MSE),
    ]
    assert best(trials) == {"dac": "5"}


def test_the_mean_over_seeds_counts():
    """Not the best seed: 0.9 and 0.1 are worse than 0.6 and 0.6."""
    trials = [
        trial("dac", "1", 0.9), trial("dac", "1", 0.1, seed=1),
        trial("dac", "5", 0.6), trial("dac", "5", 0.6, seed=1),
    ]  # fmt: skip
    assert best(trials) == {"dac": "5"}


def test_a_setting_that_failed_for_one_seed_is_not_best():
    trials = [
        trial("dac", "1", 0.9), trial("dac", "1", None, seed=1),
        trial("dac", "5", 0.6), trial("dac", "5", 0.6, seed=1),
    ]  # fmt: skip
    assert best(trials) == {"dac": "5"}
    assert best([trial("dac", "1", None)]) == {}


def cells(trials: list[SweepRun]) -> list[list[str]]:
    """Return the rows of the printed table."""
    found = group_by_values(trials)
    console = Console(width=200, file=io.StringIO(), force_terminal=False)
    console.print(
        build_sweep_table("title", "strategy.tau", found, list(best_points(found).values()))
    )
    lines = console.file.getvalue().splitlines()
    return [[c.strip() for c in line.strip("│┃").split("│")] for line in lines if "│" in line]


def test_the_table_is_strategies_by_values():
    trials = [
        trial("dac", "1", 0.5, 0.4), trial("dac", "1", 0.7, 0.4, seed=1),
        trial("dac", "5", 0.25, 0.75), trial("dac", "5", None, seed=1),
        trial("local", None, 0.125, 0.25), trial("local", None, 0.125, 0.25, seed=1),
    ]  # fmt: skip
    assert cells(trials) == [
        ["dac", "validation", "60.00 ± 127.06 *", "25.00 (1 of 2)", ""],
        ["dac", "test", "40.00 ± 0.00", "75.00 (1 of 2)", ""],
        ["local", "validation", "", "", "12.50 ± 0.00 *"],
        ["local", "test", "", "", "25.00 ± 0.00"],
    ]


def test_one_line_per_run_in_the_file():
    trials = [trial("dac", "1", 0.5, 0.4), trial("dac", "5", None), trial("local", None, 0.2)]
    rows = list(csv.DictReader(io.StringIO(format_csv(trials))))
    assert [row["run"] for row in rows] == ["dac-1-0", "dac-5-0", "local-None-0"]
    assert [row["strategy.tau"] for row in rows] == ["1", "5", ""]
    assert [row["validation"] for row in rows] == ["0.5", "", "0.2"]
    assert [row["test"] for row in rows] == ["0.4", "", "0.5"]
    assert rows[0]["test a"] == "0.4"
