"""Did it help, who did best, and what was run: gains and sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stories import metrics, run, subject

from coterie.attacks.poison_settings import PoisonSettings
from coterie.reports.html.views.gains import gains
from coterie.reports.html.views.settings import settings
from coterie.reports.html.views.summary import summary

ALONE = [0.5, 0.5, 0.5, 0.5]


def one(label, levels, seed=0, strategy=None, measure="accuracy", last=2):
    rows = [row for n in range(last + 1) for row in metrics(n, levels, measure=measure)]
    is_accuracy = measure == "accuracy"
    return run(label, seed, strategy=strategy, metrics=rows, is_accuracy=is_accuracy)


def test_gains_over_training_alone_with_the_same_seed():
    alone = [one("local", ALONE, seed, "local") for seed in (0, 1)]
    dac = [one("dac", [0.7, 0.4, 0.5, 0.6], 0), one("dac", [0.5, 0.5, 0.5, 0.4], 1)]
    found = gains(subject(*alone, *dac))
    assert [each["seed"] for each in found["runs"]] == [0, 1]
    assert found["runs"][0]["gains"] == [20, -10, 0, 10]
    assert found["runs"][0]["clusters"] == [0, 0, 1, 1]
    assert found["runs"][1]["gains"] == [0, 0, 0, -10]


def test_a_smaller_error_is_a_gain():
    alone = one("local", [4.0] * 4, 0, "local", "loss")
    better = one("dac", [3.0, 5.0, 4.0, 4.0], 0, None, "loss")
    assert gains(subject(alone, better))["runs"][0]["gains"] == [1, -1, 0, 0]


def test_an_unfinished_run_is_compared_after_the_same_round():
    alone = run("local", strategy="local", metrics=metrics(1, ALONE) + metrics(2, [0.9] * 4))
    dac = run("dac", metrics=metrics(1, [0.6] * 4))
    [found] = gains(subject(alone, dac))["runs"]
    assert (found["round"], found["gains"]) == (1, [10] * 4)


def test_without_training_alone_it_says_how_to_get_it():
    assert "--strategy local" in gains(subject(one("dac", ALONE)))["missing"]
    other_seed = subject(one("local", ALONE, 1, "local"), one("dac", ALONE, 0))
    assert "seed" in gains(other_seed)["missing"]


def test_the_summary_says_who_did_best_and_who_was_harmed():
    runs = [
        each
        for seed, shift in enumerate((0.0, 0.01, 0.02))
        for each in (
            one("local", [0.4 + shift] * 4, seed, "local"),
            one("dac", [0.3 + shift, *[0.7 + shift] * 3], seed),
            one("oracle", [0.9 + shift] * 4, seed, "oracle"),
        )
    ]
    told = summary(subject(*runs))
    first, best, interval, yardsticks, harmed = told["sentences"]
    assert "4 peers in 2 clusters (left, right)" in first
    assert "3 strategies and 3 seeds" in first
    assert best == "dac did best: test accuracy 61.0%, 20.0 ± 0.0 points better than local."
    assert interval == "± is the 95% interval of the difference, paired over 3 seeds."
    assert "oracle (uses the true clusters) reached 91.0%, 30.0 ± 0.0 points better" in yardsticks
    assert "In practice no peer knows the true clusters." in yardsticks
    assert "dac 3 of 12 (25%); oracle 0 of 12 (0%)" in harmed
    assert told["table"]["head"][:4] == ["strategy", "left", "right", "mean"]
    assert told["table"]["rows"][told["table"]["best"]][0] == "dac"
    assert told["table"]["marks"] == ["", "", "uses the true clusters"]
    assert told["table"]["rows"][1][2].startswith("71.00 ± ")


def poisoned(label, kind, levels=ALONE):
    """Return a run whose last peer misbehaves from its first round on."""
    nobody = float("nan")
    rows = [row for n in range(3) for row in metrics(n, levels)]
    for row in rows:
        if row["peer"] == 3:
            row |= {
                "poisoned": True,
                "test_accuracy": nobody,
                "validation_accuracy_trained": nobody,
            }
    found = run(label, metrics=rows)
    poison = PoisonSettings(kind=kind, count=1)
    return replace(found, config=found.config.model_copy(update={"poison": poison}))


def test_poisoned_peers_are_told_and_counted_nowhere():
    alone, dac = one("local", ALONE, strategy="local"), poisoned("dac", "noise", [0.4, *ALONE[1:]])
    told = summary(subject(alone, dac))["sentences"]
    assert "dac 1 of 3 (33%)" in told[-2]
    how = "1 of 4 peers are poisoned from round 1 on"
    honest = "all results are means over the honest peers."
    assert told[-1] == f"With dac (noise), {how}; {honest}"
    assert ["poisoned peers", told[-1]] in settings(subject(alone, dac))["facts"]
    [found] = gains(subject(alone, dac))["runs"]
    assert (found["num_poisoned"], found["gains"][3]) == (1, None)
    both = poisoned("dac", "noise"), poisoned("kin", "noise")
    assert summary(subject(*both))["sentences"][-1] == f"{how} (noise); {honest}"
    assert not any("poisoned" in sentence for sentence in summary(subject(alone))["sentences"])


def test_unfinished_runs_are_told():
    [problem] = summary(subject(one("dac", ALONE, last=1)))["problems"]
    assert problem == "dac with seed 0 has not finished: 1 of 2 rounds are shown."


def test_runs_that_go_on_are_not_compared():
    """Each may be at another round."""
    ahead, behind = one("dac", [0.9] * 4, last=1), one("random", [0.3] * 4)
    found = summary(subject(ahead, behind))
    assert found["sentences"][1] == (
        "Some runs still go on; only those that have finished are compared. "
        "random reached test accuracy 30.0%."
    )
    assert found["table"]["best"] is None
    alone = summary(subject(ahead))
    assert "Strategies are compared once their runs have finished." in alone["sentences"]


def test_the_favourite_is_the_best_that_chooses_by_itself():
    believed = [{"round": 1, "peer": 0, "other": 1, "origin": "measured"}]
    rows = metrics(0, ALONE) + metrics(1, ALONE)
    dac = run("dac", metrics=rows, beliefs=believed)
    runs = (one("local", ALONE, 0, "local"), one("random", [0.6] * 4), dac)
    assert subject(*runs).favourite == "dac"
    assert subject(*runs[:2]).favourite == "random"
    assert subject(runs[0]).favourite == "local"


def test_settings_tell_no_paths():
    found = settings(subject(one("dac", ALONE)))
    assert ["peers", "4, with 8 training samples each"] in found["facts"]
    [strategy] = found["strategies"]
    assert strategy["about"] == "merges with m uniformly chosen peers each round"
    assert "root" not in strategy["yaml"]
    assert "learning_rate" in strategy["yaml"]


@pytest.mark.parametrize("word", ["pretrained", "seed:"])
def test_settings_leave_out_what_differs_between_computers_and_seeds(word):
    [strategy] = settings(subject(one("dac", ALONE)))["strategies"]
    assert word not in strategy["yaml"]
