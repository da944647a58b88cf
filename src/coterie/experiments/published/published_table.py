"""Published results, which runs are compared with."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from coterie.settings import Settings
from coterie.tasks.score import ACCURACY, MSE, TaskScore

MAX_DEPARTURES = 8
"""How many differences from the published setting are listed."""


class PublishedResult(Settings):
    """The published results of one strategy; accuracies, precision and recall in percent."""

    mean: float | None = None
    interval: float | None = Field(None, gt=0)
    """Half width of the 95% confidence interval of the mean."""
    deviation: float | None = Field(None, ge=0)
    """Standard deviation of the clusters' means."""
    clusters: tuple[float, ...] = ()
    """In the order of the table's clusters, or empty."""
    models: float | None = Field(None, gt=0)
    """Models sent and received per peer."""
    precision: float | None = Field(None, ge=0, le=100)
    """The share of listed neighbours that are in the peer's true cluster."""
    recall: float | None = Field(None, ge=0, le=100)
    """The share of the true cluster that is in the list of neighbours."""
    explained: str = ""
    """Why our number differs, if this is known."""

    @model_validator(mode="after")
    def _has_numbers(self) -> Self:
        if not self.model_fields_set - {"explained"}:
            raise ValueError("a published result needs at least one number")
        if (self.precision is None) != (self.recall is None):
            raise ValueError("precision and recall must be given together")
        return self


class PublishedTable(Settings):
    """A published table: the results of a preset's strategies."""

    preset: str
    source: str
    """The paper and the table."""
    measure: Literal["accuracy", "error"] = "accuracy"
    """Accuracy in percent, or mean squared error."""
    mean_over: Literal["peers", "clusters"]
    """The mean is over peers, or over clusters, whatever their sizes."""
    clusters: tuple[str, ...] = ()
    """Our names of the clusters with published numbers, in the order of the numbers."""
    seeds: int | None = Field(None, ge=1)
    """The number of runs in the published means, if it is known."""
    source_of_neighbours: str = ""
    """The paper and the table of precision and recall, if it is another table."""
    tolerance: float = Field(1.0, gt=0)
    """The largest difference that counts as met: points of accuracy, or percent of the MSE."""
    remark: str = ""
    """How the published numbers differ even from an unchanged run."""
    explained: str = ""
    """Why our numbers differ, if one cause explains all."""
    tried: str = ""
    """What was tried to explain a difference."""
    not_run: str = ""
    """Why there is no full run."""
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

    @property
    def score(self) -> TaskScore:
        """What the numbers measure."""
        return ACCURACY if self.is_accuracy else MSE

    def source_of(self, part: str) -> str:
        """Return the paper and the table of a number."""
        is_about_neighbours = part in ("precision", "recall")
        return (self.source_of_neighbours if is_about_neighbours else "") or self.source

    def of_cluster(self, result: PublishedResult, name: str) -> float | None:
        """Return the published number of a cluster by its name, because orders differ."""
        return dict(zip(self.clusters, result.clusters, strict=False)).get(name)


class PublishedFigure(Settings):
    """A figure of a paper: curves without numbers."""

    source: str
    """The paper and the figure."""
    shows: str
    """What the figure shows, in a few words."""
    experiments: dict[str, int] = Field(default_factory=dict)
    """The settings of the study of the papers that repeat it, and the rounds they need."""
    not_run: str = ""
    """Why no setting repeats it."""
    best: str = ""
    """The strategy that is above those in `below` in every setting, as a mean over time."""
    below: tuple[str, ...] = ()


@dataclass(frozen=True)
class PublishedComparison:
    """A published table, and how our runs differ from its setting."""

    table: PublishedTable
    departures: tuple[str, ...] = ()
    """Each as a few words, such as "shortened: 100 of 300 rounds"."""

    def caption(self, labels: Collection[str]) -> str:
        """Return the source of the published numbers, and whether ours have the same setting."""
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
        named = [*self.departures[:MAX_DEPARTURES]]
        if rest := len(self.departures) - len(named):
            named.append(f"and {rest} more")
        return f"Not a reproduction: {'; '.join(named)}."
