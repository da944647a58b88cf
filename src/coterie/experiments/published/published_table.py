"""Published results, in a form that ours can be laid beside."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from coterie.settings import Settings

MOST_DEPARTURES = 8
"""How many departures are named one by one; whoever changed more knows it."""


class PublishedResult(Settings):
    """What a paper says one strategy reached; accuracies, precision and recall in percent."""

    mean: float | None = None
    interval: float | None = Field(None, gt=0)
    """Half width of the 95% confidence interval of the mean."""
    deviation: float | None = Field(None, ge=0)
    """Standard deviation of the clusters' means."""
    clusters: tuple[float, ...] = ()
    """In the order of the table's clusters, or none at all."""
    models: float | None = Field(None, gt=0)
    """Models sent and received per peer."""
    precision: float | None = Field(None, ge=0, le=100)
    """How many of the neighbours found are of the peer's true cluster."""
    recall: float | None = Field(None, ge=0, le=100)
    """How many of the true cluster were found."""
    explained: str = ""
    """Why our number differs from this one, where that is known."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set - {"explained"}:
            raise ValueError("a published result without any number says nothing")
        if (self.precision is None) != (self.recall is None):
            raise ValueError("precision and recall mean something only together")
        return self


class PublishedTable(Settings):
    """A table of a paper: what the strategies of a preset reached there."""

    preset: str
    source: str
    """The paper and the table."""
    measure: Literal["accuracy", "error"] = "accuracy"
    """Accuracy in percent, or mean squared error."""
    mean_over: Literal["peers", "clusters"]
    """What the mean is formed over; clusters count alike however many peers they have."""
    clusters: tuple[str, ...] = ()
    """The clusters with published numbers, by our names and in the order of the numbers."""
    seeds: int | None = Field(None, ge=1)
    """How many runs the numbers are means of, where that is known."""
    source_of_neighbours: str = ""
    """The paper and the table of precision and recall, where that is another table."""
    tolerance: float = Field(1.0, gt=0)
    """The difference that counts as met: points of accuracy, or percent of a squared error."""
    remark: str = ""
    """What sets the published numbers apart even from an unchanged run."""
    explained: str = ""
    """Why our numbers differ, where one cause is known for all of them."""
    tried: str = ""
    """What was tried where the cause of a difference is not known."""
    not_run: str = ""
    """Why there is no full run, where that has a reason."""
    results: dict[str, PublishedResult] = Field(min_length=1)
    """By the labels of the preset's variants."""

    @model_validator(mode="after")
    def _numbers_belong_to_clusters(self) -> Self:
        for label, result in self.results.items():
            if len(result.clusters) not in (0, len(self.clusters)):
                raise ValueError(
                    f"{label} has {len(result.clusters)} numbers for {len(self.clusters)} clusters"
                )
        return self

    @property
    def is_accuracy(self) -> bool:
        """Whether the numbers are accuracies in percent, not errors."""
        return self.measure == "accuracy"

    def source_of(self, part: str) -> str:
        """Return the paper and the table that a number is from."""
        is_about_neighbours = part in ("precision", "recall")
        return (self.source_of_neighbours if is_about_neighbours else "") or self.source

    def of_cluster(self, result: PublishedResult, name: str) -> float | None:
        """Return the published number of a cluster, by its name: the orders differ."""
        return dict(zip(self.clusters, result.clusters, strict=False)).get(name)


class PublishedFigure(Settings):
    """A figure of a paper: curves without numbers."""

    source: str
    """The paper and the figure."""
    shows: str
    """What the figure shows, in a few words."""
    experiments: dict[str, int] = Field(default_factory=dict)
    """Our counterparts, settings of the study of the papers, and the rounds that suffice."""
    not_run: str = ""
    """Why there is no counterpart, where that has a reason."""
    best: str = ""
    """The strategy that the figure shows above others in every setting, as a mean over time."""
    below: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """A published table, and in what the runs beside it depart from its setting."""

    table: PublishedTable
    departures: tuple[str, ...] = ()
    """Each as a few words, such as "shortened: 100 of 300 rounds"."""

    def caption(self, labels: Collection[str]) -> str:
        """Say whose numbers stand beside these runs, and whether ours may be held against them."""
        table = self.table
        seeds = "" if table.seeds is None else f", mean of {table.seeds} seeds"
        lines = [f"published: {table.source}{seeds}", self._setting()]
        if table.remark:
            lines.append(table.remark)
        for label, result in table.results.items():
            if label in labels and result.precision is not None:
                lines.append(
                    f"published for the neighbours that {label} finds: precision "
                    f"{result.precision} %, recall {result.recall} %; ours: coterie analyse"
                )
        return "\n".join(lines)

    def _setting(self) -> str:
        if not self.departures:
            return "These runs have the published setting."
        named = [*self.departures[:MOST_DEPARTURES]]
        if rest := len(self.departures) - len(named):
            named.append(f"and {rest} more")
        return f"Not a reproduction: {'; '.join(named)}."
