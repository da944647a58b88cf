"""Gains, and the sentences about what was run and which strategy did best."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_runs import metrics, run, run_group

from coterie.attacks.poison_settings import PoisonSettings
from coterie.reports.html.views.gains_view import build_gains
from coterie.reports.html.views.settings_view import build_settings
from coterie.reports.html.views.summary_view import build_summary
from coterie.tasks.score import ACCURACY, MSE

ALONE = [0.5, 0.5, 0.5, 0.5]


def one(label, levels, seed=0, strategy=None, score=ACCURACY, last=2):
    rows = [row for n in range(last + 1) for row in metrics(n, levels)]
    return run(label, seed, strategy=strategy, metrics=rows, score=score)


def test_gains_over_training_alone_with_the_same_seed():
    alone = [one("local", ALONE, seed, "local") for seed in (0, 1)]
    dac = [one("dac", [0.7, 0.4, 0.5, 0.6], 0), one("dac", [0.5, 0.5, 0.5, 0.4], 1)]
    found = build_gains(run_group(*alone, *dac))
    assert [each["seed"] for each in found["runs"]] == [0, 1]
    assert found["runs"][0]["gains"] == [20, -10, 0, 10]
    assert found["runs"][0]["clusters"] == [0, 0, 1, 1]
    assert found["runs"][1]["gains"] == [0, 0, 0, -10]


def test_a_smaller_error_is_a_gain():
    alone = one("local", [4.0] * 4, 0, "local", MSE)
    better = one("dac", [3.0, 5.0, 4.0, 4.0], 0, None, MSE)
    assert build_gains(run_group(alone, better))["runs"][0]["gains"] == [1, -1, 0, 0]


def test_an_unfinished_run_is_compared_after_the_same_round():
    alone = run("local", strategy="local", metrics=metrics(1, ALONE) + metrics(2, [0.9] * 4))
    dac = run("dac", metrics=metrics(1, [0.6] * 4))
    [found] = build_gains(run_group(alone, dac))["runs"]
    assert (found["round"], found["gains"]) == (1, [10] * 4)


def test_without_training_alone_it_says_how_to_get_it():
    assert "--strategy local" in build_gains(run_group(one("dac", ALONE)))["missing"]
    other_seed = run_group(one("local", ALONE, 1, "local"), one("dac", ALONE, 0))
    assert "seed" in build_gains(other_seed)["missing"]


def test_the_summary_names_the_best_strategy_and_the_number_of_harmed_peers():
    runs = [
        each
        for seed, shift in enumerate((0.0, 0.01, 0.02))
        for each in (
            one("local", [0.4 + shift] * 4, seed, "local"),
            one("dac", [0.3 + shift, *[0.7 + shift] * 3], seed),
            one("oracle", [0.9 + shift] * 4, seed, "oracle"),
        )
    ]
    shown = build_summary(run_group(*runs))
    first, best, interval, yardsticks, harmed = shown["sentences"]
    assert "4 peers in 2 clusters (left, right)" in first
    assert "3 strategies and 3 seeds" in first
    assert best == "dac did best: test accuracy 61.0%, 20.0 ± 0.0 points better than local."
    assert interval == "± is the 95% interval of the difference, paired over 3 seeds."
    assert "oracle (uses the true clusters) reached 91.0%, 30.0 ± 0.0 points better" in yardsticks
    assert "In practice no peer knows the true clusters." in yardsticks
    assert "dac 3 of 12 (25%); oracle 0 of 12 (0%)" in harmed
    assert shown["table"]["head"][:4] == ["strategy", "left", "right", "mean"]
    assert shown["table"]["rows"][shown["table"]["best"]][0] == "dac"
    assert shown["table"]["marks"] == ["", "", "uses the true clusters"]
    assert shown["table"]["rows"][1][2].startswith("71.00 ± ")


def poisoned(label, poison, levels=ALONE):
    """Return a run whose last peer misbehaves from its first round on."""
    unknown = float("nan")
    rows = [row for n in range(3) for row in metrics(n, levels)]
    for row in rows:
        if row["peer"] == 3:
            row |= {
                "poisoned": True,
                "test_score": unknown,
                "validation_score_trained": unknown,
            }
    found = run(label, metrics=rows)
    settings = PoisonSettings(kind=poison, count=1)
    return replace(found, config=found.config.model_copy(update={"poison": settings}))


def test_poisoned_peers_are_named_and_not_counted():
    alone, dac = one("local", ALONE, strategy="local"), poisoned("dac", "noise", [0.4, *ALONE[1:]])
    sentences = build_summary(run_group(alone, dac))["sentences"]
    assert "dac 1 of 3 (33%)" in sentences[-2]
    how = "1 of 4 peers are poisoned from round 1 on"
    honest = "all results are means over the honest peers."
    assert sentences[-1] == f"With dac (noise), {how}; {honest}"
    assert ["poisoned peers", sentences[-1]] in build_settings(run_group(alone, dac))["facts"]
    [found] = build_gains(run_group(alone, dac))["runs"]
    assert (found["num_poisoned"], found["gains"][3]) == (1, None)
    both = poisoned("dac", "noise"), poisoned("kin", "noise")
    assert build_summary(run_group(*both))["sentences"][-1] == f"{how} (noise); {honest}"
    assert not any(
        "poisoned" in sentence for sentence in build_summary(run_group(alone))["sentences"]
    )


def test_unfinished_runs_are_named():
    [problem] = build_summary(run_group(one("dac", ALONE, last=1)))["problems"]
    assert problem == "dac with seed 0 has not finished: 1 of 2 rounds are shown."


def test_runs_that_go_on_are_not_compared():
    """Each may be at another round."""
    ahead, behind = one("dac", [0.9] * 4, last=1), one("random", [0.3] * 4)
    found = build_summary(run_group(ahead, behind))
    assert found["sentences"][1] == (
        "Some runs have not finished. Only finished runs are compared. "
        "random reached test accuracy 30.0%."
    )
    assert found["table"]["best"] is None
    alone = build_summary(run_group(ahead))
    assert "Strategies are compared once their runs have finished." in alone["sentences"]


def test_the_initial_strategy_is_the_best_with_preferences():
    estimates = [{"round": 1, "peer": 0, "other": 1, "origin": "measured"}]
    rows = metrics(0, ALONE) + metrics(1, ALONE)
    dac = run("dac", metrics=rows, beliefs=estimates)
    runs = (one("local", ALONE, 0, "local"), one("random", [0.6] * 4), dac)
    assert run_group(*runs).initial_label == "dac"
    assert run_group(*runs[:2]).initial_label == "random"
    assert run_group(runs[0]).initial_label == "local"


def test_settings_show_no_paths():
    found = build_settings(run_group(one("dac", ALONE)))
    assert ["peers", "4, with 8 training samples each"] in found["facts"]
    [strategy] = found["strategies"]
    assert strategy["about"] == "merges with m uniformly sampled peers each round"
    assert "root" not in strategy["yaml"]
    assert "learning_rate" in strategy["yaml"]


@pytest.mark.parametrize("word", ["pretrained", "seed:"])
def test_settings_leave_out_what_differs_between_computers_and_seeds(word):
    [strategy] = build_settings(run_group(one("dac", ALONE)))["strategies"]
    assert word not in strategy["yaml"]
