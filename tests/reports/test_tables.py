"""The final table: means, confidence intervals and what counts as best."""

from __future__ import annotations

import io
import math

import numpy as np
import pyarrow as pa
import pytest
from recorded_tables import recorded
from rich.console import Console

from coterie.experiments.run_summary import RunSummary, summarise
from coterie.reports.final_table import build_final_table
from coterie.results.statistics import confidence_interval
from coterie.tasks.score import ACCURACY, MSE


def metrics(rows: list[dict[str, object]]) -> pa.Table:
    """Return a metrics table in which everything that is not given is 0."""
    return recorded("metrics", rows)


def an_outcome(label: str, *means: float, seed: int = 0, **changes: object) -> RunSummary:
    """Return an outcome with one cluster per mean."""
    settings = {
        "label": label,
        "seed": seed,
        "cluster_names": tuple(f"cluster {n}" for n in range(len(means))),
        "cluster_means": means,
        "mean": float(np.nanmean(means)),
        "models_per_peer": 1234.4,
        "megabytes_per_peer": 56.78,
        "score": ACCURACY,
        **changes,
    }
    return RunSummary(**settings)


def cells_of(outcomes: list[RunSummary]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the column titles, and the cells of each row by its label."""
    table = build_final_table("title", outcomes)
    columns = [list(column.cells) for column in table.columns]
    rows = {str(row[0]): [str(cell) for cell in row[1:]] for row in zip(*columns, strict=True)}
    return [str(column.header) for column in table.columns], rows


def bold_rows(outcomes: list[RunSummary]) -> list[str]:
    table = build_final_table("title", outcomes)
    labels = list(table.columns[0].cells)
    return [str(label) for label, row in zip(labels, table.rows, strict=True) if row.style]


def test_confidence_by_hand():
    """Mean 3, s = √2.5, n = 5; Student's t for 4 degrees of freedom is 2.7764451."""
    mean, width = confidence_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert mean == 3.0
    assert width == pytest.approx(2.7764451052 * math.sqrt(2.5 / 5), rel=1e-9)


@pytest.mark.parametrize(
    ("count", "factor"), [(2, 12.7062047364), (3, 4.3026527297), (10, 2.2621571628)]
)
def test_the_factor_is_students_t(count, factor):
    values = np.arange(count, dtype=float)
    expected = factor * values.std(ddof=1) / math.sqrt(count)
    assert confidence_interval(values)[1] == pytest.approx(expected, rel=1e-9)


def test_equal_values_have_no_width():
    assert confidence_interval([0.5, 0.5, 0.5]) == (0.5, 0.0)


def test_one_value_has_no_interval():
    mean, width = confidence_interval([0.25])
    assert mean == 0.25
    assert math.isnan(width)


def test_missing_values_do_not_count():
    mean, width = confidence_interval([1.0, math.nan, 3.0])
    assert (mean, width) == confidence_interval([1.0, 3.0])
    assert mean == 2.0
    assert confidence_interval([math.nan, 7.0])[0] == 7.0
    assert math.isnan(confidence_interval([math.nan, 7.0])[1])


@pytest.mark.parametrize("values", [[], [math.nan], [math.nan, math.nan]])
def test_no_value_has_neither_mean_nor_interval(values):
    assert all(math.isnan(number) for number in confidence_interval(values))


def small_run() -> pa.Table:
    """Return two rounds of four peers in clusters 0, 0, 1, 1, and models only sent in the first."""
    rows = []
    for number, tests in ((0, [0.1, 0.1, 0.1, 0.1]), (1, [0.5, 0.75, 0.2, 0.4])):
        for peer, test in enumerate(tests):
            rows.append(
                {
                    "round": number,
                    "peer": peer,
                    "cluster": peer // 2,
                    "test_score": test,
                    "test_loss": 1 - test,
                    "models_received": 2 if number == 0 else 0,
                    "models_sent": peer,
                    "bytes_received": 1_000_000,
                    "bytes_sent": 500_000,
                }
            )
    return metrics(rows)


def test_outcome_by_hand():
    reached = summarise(small_run(), "gossip", 3, ["north", "south"], ACCURACY)
    assert reached.label == "gossip"
    assert reached.seed == 3
    assert reached.cluster_names == ("north", "south")
    assert reached.cluster_means == pytest.approx((0.625, 0.3))
    assert reached.mean == pytest.approx(0.4625)
    # (4·2 received + 2·(0+1+2+3) sent) / 4 peers, and 8 rows of 1.5 MB.
    assert reached.models_per_peer == 5.0
    assert reached.megabytes_per_peer == 3.0
    assert reached.score == ACCURACY


def test_outcome_of_a_regression_is_the_error():
    reached = summarise(small_run(), "gossip", 0, ["north", "south"], MSE)
    assert reached.score == MSE


def test_rows_need_not_be_in_order():
    table = small_run()
    shuffled = table.take(np.random.default_rng(0).permutation(table.num_rows))
    names = ["north", "south"]
    ours = summarise(table, "x", 0, names, ACCURACY)
    theirs = summarise(shuffled, "x", 0, names, ACCURACY)
    assert theirs.cluster_means == pytest.approx(ours.cluster_means)
    assert theirs.models_per_peer == ours.models_per_peer


def test_a_cluster_without_peers_at_the_end_has_no_mean():
    reached = summarise(small_run(), "x", 0, ["north", "south", "empty"], ACCURACY)
    assert math.isnan(reached.cluster_means[2])
    assert reached.mean == pytest.approx(0.4625)


def test_outcome_of_a_run_without_rounds():
    reached = summarise(metrics([]), "x", 0, ["north"], ACCURACY)
    assert math.isnan(reached.mean)
    assert math.isnan(reached.cluster_means[0])
    assert reached.models_per_peer == reached.megabytes_per_peer == 0.0


def test_byte_counts_beyond_32_bits_add_up():
    rows = [
        {"round": n, "peer": 0, "bytes_received": 2**40, "models_sent": 2**31 - 1} for n in range(3)
    ]
    reached = summarise(metrics(rows), "x", 0, ["north"], ACCURACY)
    assert reached.megabytes_per_peer == 3 * 2**40 / 1e6
    assert reached.models_per_peer == 3 * (2**31 - 1)


def test_one_seed_is_shown_without_an_interval():
    headers, rows = cells_of([an_outcome("gossip", 0.5, 0.75)])
    assert headers == ["strategy", "cluster 0", "cluster 1", "mean", "models", "MB", "seeds"]
    assert rows == {"gossip": ["50.00", "75.00", "62.50", "1,234", "56.8", "1"]}


def test_several_seeds_are_shown_with_mean_and_interval():
    outcomes = [
        an_outcome("gossip", value, seed=seed, models_per_peer=models)
        for seed, (value, models) in enumerate([(0.5, 10.0), (0.75, 30.0)])
    ]
    _, rows = cells_of(outcomes)
    # s = 0.17678, t(1) = 12.7062, n = 2: half width 158.83 points.
    assert rows == {"gossip": ["62.50 ± 158.83", "62.50 ± 158.83", "20", "56.8", "2"]}


def test_a_regression_is_not_scaled():
    outcomes = [an_outcome("local", v, score=MSE, seed=s) for s, v in enumerate([1.0, 3.0])]
    _, rows = cells_of(outcomes)
    assert rows["local"][0] == "2.00 ± 12.71"
    assert "test MSE" in build_final_table("title", outcomes).title


def test_a_cluster_without_peers_is_a_dash():
    outcomes = [an_outcome("gossip", 0.5, math.nan), an_outcome("local", 0.25, math.nan)]
    headers, rows = cells_of(outcomes)
    assert headers[1:3] == ["cluster 0", "cluster 1 (–)"]
    assert rows["gossip"][:3] == ["50.00", "–", "50.00"]
    assert rows["local"][:3] == ["25.00", "–", "25.00"]


def test_a_cluster_that_only_some_runs_have_is_not_marked():
    headers, rows = cells_of([an_outcome("gossip", 0.5, math.nan), an_outcome("local", 0.25, 0.5)])
    assert headers[2] == "cluster 1"
    assert rows["gossip"][1] == "–"
    assert rows["local"][1] == "50.00"


def test_rows_keep_the_order_of_the_outcomes():
    outcomes = [an_outcome(label, 0.5, seed=s) for s in (0, 1) for label in ("z", "a", "m")]
    _, rows = cells_of(outcomes)
    assert list(rows) == ["z", "a", "m"]


@pytest.mark.parametrize(("score", "best"), [(ACCURACY, "high"), (MSE, "low")])
def test_higher_accuracies_and_lower_errors_are_better(score, best):
    outcomes = [
        an_outcome(label, value, score=score)
        for label, value in (("middle", 0.5), ("high", 0.9), ("low", 0.1))
    ]
    assert bold_rows(outcomes) == [best]


def test_the_best_is_best_on_average_over_seeds():
    outcomes = [an_outcome("lucky", 0.9, seed=0), an_outcome("steady", 0.6, seed=0)]
    outcomes += [an_outcome("lucky", 0.1, seed=1), an_outcome("steady", 0.6, seed=1)]
    assert bold_rows(outcomes) == ["steady"]


@pytest.mark.parametrize("score", [ACCURACY, MSE])
def test_a_strategy_without_a_result_is_never_the_best(score):
    nothing = an_outcome("nothing", 0.0, mean=math.nan, score=score)
    something = an_outcome("something", 0.5, score=score)
    assert bold_rows([nothing, something]) == ["something"]
    assert bold_rows([something, nothing]) == ["something"]


def test_the_table_can_be_printed():
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(build_final_table("rotation", [an_outcome("gossip", 0.5, 0.25)]))
    text = console.export_text()
    assert "rotation: test accuracy %; models and MB sent and received per peer" in text
    assert "37.50" in text


def test_peers_without_a_test_do_not_count():
    """Such as poisoned peers, which are not tested."""
    rows = [
        {"peer": 0, "cluster": 0, "test_score": 0.5},
        {"peer": 1, "cluster": 0, "test_score": math.nan},
        {"peer": 2, "cluster": 1, "test_score": math.nan},
        {"peer": 3, "cluster": 2, "test_score": 0.9},
    ]
    found = summarise(metrics(rows), "a", 0, ("x", "y", "z"), ACCURACY)
    assert found.mean == pytest.approx(0.7)
    assert found.cluster_means == pytest.approx((0.5, math.nan, 0.9), nan_ok=True)
