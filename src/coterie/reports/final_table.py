"""The final table: test results per cluster, mean ± 95% confidence interval over seeds.

Published results of the same strategies stand below ours, formed in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from rich.table import Table
from rich.text import Text

from coterie.experiments.published.published_table import (
    PublishedComparison,
    PublishedResult,
)
from coterie.experiments.run_summary import RunSummary
from coterie.results.result_columns import Column, by_label, mean_column, result_columns
from coterie.results.statistics import confidence_interval


def final_table(
    title: str, outcomes: Sequence[RunSummary], comparison: PublishedComparison | None = None
) -> Table:
    """Return the comparison of strategies, one row each, and published results below their own."""
    first = outcomes[0]
    if comparison and comparison.table.is_accuracy != first.is_accuracy:
        comparison = None
    published = comparison.table if comparison else None
    labelled = by_label(outcomes)
    measure = "test accuracy %" if first.is_accuracy else "test MSE"
    table = Table(
        title=f"{title}: {measure}; models and MB sent and received per peer",
        title_justify="left",
        caption=Text(comparison.caption(labelled)) if comparison else None,
        caption_justify="left",
    )
    table.add_column("strategy")
    columns = result_columns(outcomes, published)
    for name in (*(column.title for column in columns), "seeds"):
        table.add_column(name, justify="right")
    best = _best_label(outcomes, mean_column(published, 1.0))
    for label, mine in labelled.items():
        cells = [_cell(column, mine) for column in columns]
        table.add_row(label, *cells, str(len(mine)), style="bold" if label == best else "")
        if published:
            _add_published(table, columns, mine, published.results.get(label))
    return table


def _add_published(
    table: Table,
    columns: Sequence[Column],
    mine: Sequence[RunSummary],
    result: PublishedResult | None,
) -> None:
    """Add what was published below the row of a strategy, if anything was."""
    if result and any(column.theirs(result) is not None for column in columns):
        table.add_row("  published", *(_published_cell(column, result) for column in columns))
        table.add_row("  difference", *(_difference(column, mine, result) for column in columns))
    table.add_section()


def _best_label(outcomes: Sequence[RunSummary], mean: Column) -> str:
    means = {
        label: np.mean([mean.ours(each) for each in mine])
        for label, mine in by_label(outcomes).items()
    }
    sign = 1.0 if outcomes[0].is_accuracy else -1.0
    return max(means, key=lambda label: np.nan_to_num(sign * means[label], nan=-np.inf))


def _cell(column: Column, outcomes: Sequence[RunSummary]) -> str:
    mean, width = confidence_interval([column.ours(each) for each in outcomes])
    return _written(column, mean, width if column.has_interval else None)


def _published_cell(column: Column, result: PublishedResult) -> str:
    value = column.theirs(result)
    return "" if value is None else _written(column, value, column.interval(result))


def _difference(column: Column, outcomes: Sequence[RunSummary], result: PublishedResult) -> str:
    """Write ours − theirs, where there are both."""
    theirs = column.theirs(result)
    ours, _ = confidence_interval([column.ours(each) for each in outcomes])
    return "" if theirs is None or math.isnan(ours) else f"{ours - theirs:+{column.form}}"


def _written(column: Column, value: float, width: float | None) -> str:
    if math.isnan(value):
        return "–"
    text = f"{value:{column.form}}"
    return text if width is None or math.isnan(width) else f"{text} ± {width:{column.form}}"
