"""The final table with published numbers: ours, theirs and the difference, like with like."""

from __future__ import annotations

import io
import math

import pytest
from reports.test_tables import an_outcome
from rich.console import Console

from coterie.experiments.published.published_table import PublishedComparison, PublishedTable
from coterie.experiments.run_summary import RunSummary
from coterie.reports.final_table import build_final_table
from coterie.tasks.score import MSE


def published(**changes: object) -> PublishedComparison:
    """Return a table of two clusters, printed in the other order, with a mean over peers."""
    settings = {
        "preset": "x",
        "source": "A. Uthor 1999, table 7",
        "mean_over": "peers",
        "clusters": ["cluster 1", "cluster 0"],
        "results": {"gossip": {"mean": 60.0, "clusters": [70.0, 55.5]}},
        **changes,
    }
    return PublishedComparison(PublishedTable.model_validate(settings))


def rows(outcomes: list[RunSummary], comparison: PublishedComparison | None) -> list[list[str]]:
    """Return the titles and the rows, without models, MB and seeds."""
    table = build_final_table("title", outcomes, comparison)
    columns = [[str(column.header), *map(str, column.cells)] for column in table.columns]
    return [list(row[:-3]) for row in zip(*columns, strict=True)]


def column(title: str, outcomes: list[RunSummary], comparison: PublishedComparison) -> list[str]:
    table = build_final_table("title", outcomes, comparison)
    [found] = [each for each in table.columns if each.header == title]
    return [str(cell) for cell in found.cells]


def test_ours_theirs_and_the_difference_by_hand():
    assert rows([an_outcome("gossip", 0.5, 0.75)], published()) == [
        ["strategy", "cluster 0", "cluster 1", "mean"],
        ["gossip", "50.00", "75.00", "62.50"],
        ["  published", "55.50", "70.00", "60.00"],
        ["  difference", "-5.50", "+5.00", "+2.50"],
    ]


def test_a_strategy_without_published_numbers_has_one_row():
    outcomes = [an_outcome("local", 0.2, 0.2), an_outcome("gossip", 0.5, 0.75)]
    assert [row[0] for row in rows(outcomes, published())][1:3] == ["local", "gossip"]


def test_only_what_is_published_is_compared():
    results = {"gossip": {"mean": 60.0}}
    [_, _, theirs, difference] = rows(
        [an_outcome("gossip", 0.5, 0.75)], published(clusters=[], results=results)
    )
    assert theirs == ["  published", "", "", "60.00"]
    assert difference == ["  difference", "", "", "+2.50"]


def test_a_published_mean_over_clusters_is_held_against_ours_over_clusters():
    """Nine peers in cluster 0 and one in cluster 1: over peers 0.525, over clusters 0.625."""
    ours = [an_outcome("gossip", 0.5, 0.75, mean=0.525)]
    assert column("mean", ours, published()) == ["52.50", "60.00", "-7.50"]
    over_clusters = published(mean_over="clusters")
    assert column("mean of clusters", ours, over_clusters) == ["62.50", "60.00", "+2.50"]


def test_the_best_is_the_best_of_what_is_shown():
    outcomes = [
        an_outcome("gossip", 0.9, 0.1, mean=0.82),
        an_outcome("local", 0.6, 0.6, mean=0.6),
    ]
    bold = {}
    for over in ("peers", "clusters"):
        table = build_final_table("title", outcomes, published(mean_over=over))
        labels = list(table.columns[0].cells)
        bold[over] = [a for a, row in zip(labels, table.rows, strict=True) if row.style]
    assert bold == {"peers": ["gossip"], "clusters": ["local"]}


def test_the_deviation_of_clusters():
    """Of 0.5 and 0.75 as a whole population: 0.125."""
    results = {"gossip": {"mean": 60.0, "deviation": 10.0}}
    ours = [an_outcome("gossip", 0.5, 0.75)]
    found = column("std of clusters", ours, published(clusters=[], results=results))
    assert found == ["12.50", "10.00", "+2.50"]


def test_published_intervals_and_communication():
    results = {"gossip": {"mean": 60.0, "interval": 1.5, "models": 1000}}
    theirs = published(clusters=[], results=results)
    ours = [an_outcome("gossip", value, seed=seed) for seed, value in enumerate([0.5, 0.75])]
    assert column("mean", ours, theirs) == ["62.50 ± 158.83", "60.00 ± 1.50", "+2.50"]
    assert column("models", ours, theirs) == ["1,234", "1,000", "+234"]
    assert column("MB", ours, theirs) == ["56.8", "", ""]


def test_errors_are_not_scaled():
    results = {"local": {"mean": 30.26}}
    theirs = published(measure="error", clusters=[], results=results)
    ours = [an_outcome("local", 31.0, score=MSE)]
    assert column("mean", ours, theirs) == ["31.00", "30.26", "+0.74"]


def test_accuracies_are_never_held_against_errors():
    ours = [an_outcome("gossip", 0.5, 0.75)]
    assert rows(ours, published(measure="error")) == rows(ours, None)
    assert build_final_table("title", ours, published(measure="error")).caption is None


def test_other_clusters_than_the_published_ones_are_not_compared():
    ours = [an_outcome("gossip", 0.5, 0.75, cluster_names=("45°", "cluster 1"))]
    assert rows(ours, published())[2] == ["  published", "", "70.00", "60.00"]


def test_a_result_that_is_missing_has_no_difference():
    ours = [an_outcome("gossip", math.nan, 0.75, mean=0.75)]
    assert rows(ours, published(mean_over="clusters"))[1:] == [
        ["gossip", "–", "75.00", "75.00"],
        ["  published", "55.50", "70.00", "60.00"],
        ["  difference", "", "+5.00", "+15.00"],
    ]


def test_what_is_not_a_column_adds_no_rows():
    results = {"gossip": {"precision": 50.0, "recall": 60.0}}
    theirs = published(clusters=[], results=results)
    ours = [an_outcome("gossip", 0.5, 0.75)]
    assert rows(ours, theirs) == rows(ours, None)
    assert "precision 50.0 %, recall 60.0 %" in str(
        build_final_table("title", ours, theirs).caption
    )


@pytest.mark.parametrize("departure", ["shortened: 1 of 2 rounds", "shift.angles [0, 45]"])
def test_the_caption_is_printed_as_it_is(departure):
    """Square brackets are markup to the library that prints."""
    theirs = PublishedComparison(published().table, (departure,))
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(build_final_table("title", [an_outcome("gossip", 0.5, 0.75)], theirs))
    text = " ".join(console.export_text().split())
    assert "published: A. Uthor 1999, table 7" in text
    assert f"Not a reproduction: {departure}." in text
