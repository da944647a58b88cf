"""The final table: test results per cluster, mean ± 95% confidence interval over seeds.

Published results are below ours, and computed in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from rich.table import Table
from rich.text import Text

from coterie.experiments.published.published_table import PublishedComparison, PublishedResult
from coterie.experiments.run_summary import RunSummary
from coterie.results.result_columns import Column, by_label, mean_column, result_columns
from coterie.results.statistics import confidence_interval


def build_final_table(
    title: str, summaries: Sequence[RunSummary], comparison: PublishedComparison | None = None
) -> Table:
    """Return one row per strategy, with its published results in the rows below."""
    first = summaries[0]
    if comparison and comparison.table.score != first.score:
        comparison = None
    published = comparison.table if comparison else None
    labelled = by_label(summaries)
    table = Table(
        title=f"{title}: test {first.score.title}; models and MB sent and received per peer",
        title_justify="left",
        caption=Text(comparison.caption(labelled)) if comparison else None,
        caption_justify="left",
    )
    table.add_column("strategy")
    columns = result_columns(summaries, published)
    for name in (*(column.title for column in columns), "seeds"):
        table.add_column(name, justify="right")
    best = _best_label(summaries, mean_column(published, 1.0))
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
    """Add the published results of a strategy, if there are any."""
    if result and any(column.theirs(result) is not None for column in columns):
        table.add_row("  published", *(_published_cell(column, result) for column in columns))
        table.add_row("  difference", *(_difference(column, mine, result) for column in columns))
    table.add_section()


def _best_label(summaries: Sequence[RunSummary], mean: Column) -> str:
    means = {
        label: np.mean([mean.ours(each) for each in mine])
        for label, mine in by_label(summaries).items()
    }
    sign = summaries[0].score.sign
    return max(means, key=lambda label: np.nan_to_num(sign * means[label], nan=-np.inf))


def _cell(column: Column, summaries: Sequence[RunSummary]) -> str:
    mean, width = confidence_interval([column.ours(each) for each in summaries])
    return _format_value(column, mean, width if column.has_interval else None)


def _published_cell(column: Column, result: PublishedResult) -> str:
    value = column.theirs(result)
    return "" if value is None else _format_value(column, value, column.interval(result))


def _difference(column: Column, summaries: Sequence[RunSummary], result: PublishedResult) -> str:
    """Return ours − published if both are known, else ""."""
    theirs = column.theirs(result)
    ours, _ = confidence_interval([column.ours(each) for each in summaries])
    return "" if theirs is None or math.isnan(ours) else f"{ours - theirs:+{column.form}}"


def _format_value(column: Column, value: float, width: float | None) -> str:
    if math.isnan(value):
        return "–"
    text = f"{value:{column.form}}"
    return text if width is None or math.isnan(width) else f"{text} ± {width:{column.form}}"
