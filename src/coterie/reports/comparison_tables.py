"""The tables of `coterie compare`: texts and notes, which table_formats.py writes in any format."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from coterie.results.comparison import ComparedStrategy, ComparedValue, PresetComparison
from coterie.results.read_runs import describe_poison
from coterie.results.statistics import LEVELS, MIN_SEEDS, TEST, Difference

UNKNOWN = "–"
UNFINISHED = "†"


@dataclass(frozen=True)
class TextRow:
    """One row of a text table."""

    cells: tuple[str, ...]
    is_best: bool = False
    ends_group: bool = False
    """Whether a rule separates it from the next row."""


@dataclass(frozen=True)
class TextTable:
    """A table of texts; the first `num_names` columns are names, the others are numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[TextRow, ...]
    notes: tuple[str, ...] = ()
    num_names: int = 1


def build_tables(compared: PresetComparison, *, per_cluster: bool) -> list[TextTable]:
    """Return a table of results and a table of costs."""
    results = _table_per_cluster(compared) if per_cluster else _table_of_means(compared)
    return [results, _table_of_costs(compared)]


def _table_of_means(compared: PresetComparison) -> TextTable:
    """Return one row per strategy and one column per cluster, with the difference of the means."""
    rows: list[TextRow] = []
    for line in compared.lines:
        cells = [_label(line)]
        cells += [_with_width(value.mean, value.width) for value in line.values.values()]
        if compared.baseline is not None:
            cells.append(_difference(line.values[compared.mean_part].difference))
        cells.append(str(len(line.entries)))
        is_best, published = line.label == compared.best, list(_published_rows(compared, line))
        ends_group = bool(compared.published) and not published
        rows += [TextRow(tuple(cells), is_best, ends_group), *published]
    against = () if compared.baseline is None else (f"against {compared.baseline}",)
    header = ("strategy", *compared.parts, *against, "seeds")
    return TextTable(_title(compared), header, tuple(rows), tuple(_notes(compared)))


def _published_rows(compared: PresetComparison, line: ComparedStrategy) -> Iterator[TextRow]:
    values = line.values.values()
    if all(value.published is None for value in values):
        return
    rest = ("",) * (1 + (compared.baseline is not None))
    yield TextRow(("  published", *map(_published, values), *rest))
    yield TextRow(("  ours − published", *map(_deviation, values), *rest), ends_group=True)


def _table_per_cluster(compared: PresetComparison) -> TextTable:
    """Return one row per strategy and cluster, each with its difference."""
    has_published = compared.published is not None
    rows = []
    for line in compared.lines:
        for part, value in line.values.items():
            cells = [_label(line), part, _with_width(value.mean, value.width)]
            if compared.baseline is not None:
                cells.append(_difference(value.difference))
            if has_published:
                cells.append(_published(value))
            cells.append(str(len(line.entries)))
            best = line.label == compared.best and part == compared.mean_part
            rows.append(TextRow(tuple(cells), best, ends_group=part == compared.parts[-1]))
    against = () if compared.baseline is None else (f"against {compared.baseline}",)
    published = ("published",) if has_published else ()
    unit = compared.score.unit or "mean"
    header = ("strategy", "cluster", unit, *against, *published, "seeds")
    return TextTable(_title(compared), header, tuple(rows), tuple(_notes(compared)), num_names=2)


def _table_of_costs(compared: PresetComparison) -> TextTable:
    rows = tuple(
        TextRow(
            (
                _label(line),
                _number(line.costs.models, ",.0f"),
                _number(line.costs.probes, ",.0f"),
                _number(line.costs.megabytes, ",.1f"),
                format_duration(line.costs.wall_seconds),
                format_duration(line.costs.cpu_seconds),
            )
        )
        for line in compared.lines
    )
    return TextTable(
        f"{compared.preset}: sent and received per peer, and time per run",
        ("strategy", "models", "of them probes", "MB", "wall", "CPU"),
        rows,
    )


def _title(compared: PresetComparison) -> str:
    name = compared.measure.rpartition("-")[0]
    return f"{compared.preset}: {name} {compared.score.title}, mean ± 95% interval over seeds"


def _notes(compared: PresetComparison) -> Iterator[str]:
    if compared.baseline is not None:
        yield from _about_differences(compared, compared.baseline)
    yield from _about_yardsticks(compared)
    for line in compared.lines:
        for entry in line.entries:
            if not entry.run.is_finished:
                run = entry.run
                yield (
                    f"{UNFINISHED} {line.label} with seed {run.seed} has not finished: round "
                    f"{run.last_round} of {run.config.rounds}, last tested after round "
                    f"{run.last_tested}. Differences do not include it."
                )
    yield from describe_poison(
        {line.label: [entry.run for entry in line.entries] for line in compared.lines}
    )
    if compared.published:
        labels = {entry.run.config.label for line in compared.lines for entry in line.entries}
        yield from compared.published.caption(labels).split("\n")


def _about_differences(compared: PresetComparison, baseline: str) -> Iterator[str]:
    found = {
        line.label: line.values[compared.mean_part].difference
        for line in compared.lines
        if line.label != baseline
    }
    tested = [each for each in found.values() if each and not math.isnan(each.p_value)]
    if tested:
        stars = ", ".join(
            f"{'*' * (place + 1)} p < {level:g}" for place, level in enumerate(reversed(LEVELS))
        )
        many = f", Holm-corrected over {len(tested)} strategies" if len(tested) > 1 else ""
        yield (
            f"Against {baseline}: mean difference ± 95% interval on the same seeds; {stars} "
            f"({TEST}{many})."
        )
    common = {label: each.num_pairs if each else 0 for label, each in found.items()}
    few = [f"{label} ({count})" for label, count in common.items() if count < MIN_SEEDS]
    if few:
        yield (
            f"Not tested, because fewer than {MIN_SEEDS} seeds have finished in common with "
            f"{baseline}: {', '.join(few)}."
        )


def _about_yardsticks(compared: PresetComparison) -> Iterator[str]:
    """Name the yardsticks: strategies that know the true clusters or have a server."""
    runs = {line.label: line.entries[0].run for line in compared.lines}
    found = [f"{label} ({run.advantage})" for label, run in runs.items() if run.advantage]
    if found:
        yield f"Yardsticks, not competitors: {', '.join(found)}."


def _label(line: ComparedStrategy) -> str:
    return f"{line.label} {UNFINISHED}" if line.num_unfinished else line.label


def _with_width(mean: float, width: float | None, form: str = ".2f") -> str:
    text = _number(mean, form)
    return text if width is None or math.isnan(width) else f"{text} ± {abs(width):.2f}"


def _difference(difference: Difference | None) -> str:
    if difference is None:
        return UNKNOWN
    return f"{_with_width(difference.mean, difference.width, '+.2f')} {difference.mark}".strip()


def _published(value: ComparedValue) -> str:
    if value.published is None:
        return ""
    return _with_width(value.published, value.published_width)


def _deviation(value: ComparedValue) -> str:
    known = value.published is not None and not math.isnan(value.mean)
    return f"{value.mean - value.published:+.2f}" if known and value.published is not None else ""


def _number(value: float, form: str) -> str:
    return UNKNOWN if math.isnan(value) else f"{value:{form}}"


def format_duration(seconds: float) -> str:
    """Return a duration such as 12.3 s, 4 min 5 s or 2 h 10 min."""
    if math.isnan(seconds):
        return UNKNOWN
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 100:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min"
