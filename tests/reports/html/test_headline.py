"""The sentences about the best strategy: it is named only if the difference is clear."""

from __future__ import annotations

import math
from itertools import chain

import pytest
from report_runs import metrics, run, run_group

from coterie.reports.html.views.ranking import measure_gap, rank_strategies, write_headline
from coterie.reports.html.views.summary_view import build_summary
from coterie.results.statistics import paired_difference
from coterie.strategies import STRATEGIES
from coterie.tasks.score import ACCURACY, MSE


def one(label, levels, seed=0, score=ACCURACY):
    """Return a finished run in which four peers reached these levels, or all the same one."""
    levels = levels if isinstance(levels, list) else [levels] * 4
    rows = list(chain(*(metrics(n, levels) for n in range(3))))
    name = label if label in STRATEGIES else None
    return run(label, seed, strategy=name, metrics=rows, score=score)


def seeds(score=ACCURACY, **levels):
    """Return a group of strategies with one level per seed."""
    runs = [
        one(label, level, seed, score)
        for label, each in levels.items()
        for seed, level in enumerate(each)
    ]
    return run_group(*runs)


def sentences(found):
    return write_headline(found, rank_strategies(found))


def test_the_interval_is_that_of_the_difference_paired_over_seeds():
    found = seeds(dac=(0.70, 0.74, 0.75), random=(0.60, 0.66, 0.61))
    expected = paired_difference({0: 70, 1: 74, 2: 75}, {0: 60, 1: 66, 2: 61})
    assert expected.is_clear
    best, interval = sentences(found)
    assert best == (
        f"dac did best: test accuracy 73.0%, {expected.mean:.1f} ± {expected.width:.1f} points "
        "better than random."
    )
    assert interval == "± is the 95% interval of the difference, paired over 3 seeds."


def test_nothing_is_called_best_when_the_interval_has_0_in_it():
    found = seeds(dac=(0.60, 0.50), random=(0.50, 0.58))
    best, interval = sentences(found)
    assert best.startswith("No strategy is clearly best. dac has the highest test accuracy, 55.0%:")
    assert "no clear difference to random (+1.0 ± 114.4 points)" in best
    assert "Few seeds make wide intervals" in interval
    assert rank_strategies(found).best is None
    assert build_summary(found)["table"]["best"] is None
    assert "bold" not in build_summary(found)["table"]["caption"]


def test_best_means_clearly_better_than_every_other_and_not_only_than_the_second():
    """The third has a lower mean than the second, but is much less certain."""
    found = seeds(dac=(0.80, 0.80, 0.80), random=(0.70, 0.70, 0.70), local=(0.20, 0.95, 0.85))
    best = sentences(found)[0]
    assert "no clear difference to local" in best
    assert "random" not in best


def test_one_seed_is_compared_over_its_peers_and_says_what_that_leaves_out():
    found = run_group(one("dac", [0.8, 0.7, 0.9, 0.8]), one("random", [0.6, 0.6, 0.6, 0.7]))
    best, interval = sentences(found)
    expected = paired_difference(
        dict(enumerate([80, 70, 90, 80])), dict(enumerate([60, 60, 60, 70]))
    )
    assert best == (
        "dac did best with this one seed: test accuracy 80.0%, "
        f"17.5 ± {expected.width:.1f} points better than random."
    )
    assert "paired over the 4 peers of one seed" in interval
    assert "says nothing about other seeds" in interval


def test_one_seed_and_peers_that_disagree_is_no_clear_difference():
    found = run_group(one("dac", [0.9, 0.1, 0.9, 0.2]), one("random", [0.5, 0.5, 0.5, 0.5]))
    assert sentences(found)[0].startswith("No strategy is clearly best.")


@pytest.mark.parametrize(
    ("name", "mark"),
    [
        (name, mark)
        for name in STRATEGIES
        for mark in [
            {"oracle": "uses the true clusters", "delusional-oracle": "uses the true clusters",
             "central": "uses the true clusters, needs a server", "fedavg": "needs a server",
             "ifca": "needs a server"}.get(name, "")
        ]
    ],
)  # fmt: skip
def test_every_strategy_that_has_what_peers_lack_is_marked_and_never_best(name, mark):
    found = seeds(**{name: (0.9, 0.9), "own": (0.3, 0.3)})
    assert build_summary(found)["table"]["marks"] == [mark, ""]
    assert rank_strategies(found).yardsticks == ((name,) if mark else ())
    said = " ".join(sentences(found))
    assert (f"{name} did best" in said) == (not mark)
    assert (f"{name} ({mark})" in said) == bool(mark)


def test_yardsticks_alone_are_named_as_such():
    shown = sentences(seeds(oracle=(0.9, 0.9), fedavg=(0.5, 0.5)))
    assert shown == [
        "Yardsticks, not competitors: oracle (uses the true clusters) reached 90.0%; fedavg (needs "
        "a server) reached 50.0%. In practice no peer knows the true clusters, and there is no "
        "server."
    ]


def test_a_smaller_error_is_better():
    found = seeds(MSE, dac=(1.0, 1.1, 1.2), random=(3.0, 3.1, 3.3))
    assert sentences(found)[0].startswith("dac did best: test MSE 1.1, 2.033 ± 0.1434 better")


def test_strategies_without_a_common_seed_are_not_compared():
    found = run_group(one("dac", 0.9, 0), one("random", 0.5, 1))
    assert math.isnan(measure_gap(found, "dac", "random").better)
    assert "not comparable with random, because they have no common seed" in sentences(found)[0]


def test_equal_results_are_no_difference():
    assert (
        "no clear difference to random (equal results)"
        in sentences(seeds(dac=(0.5, 0.6), random=(0.5, 0.6)))[0]
    )


def test_many_strategies_make_no_long_sentence():
    levels = {f"s{n}": (0.5 - 0.001 * n, 0.5 + 0.01 * (n % 2)) for n in range(9)}
    assert "nor to 5 more" in sentences(seeds(**levels))[0]
