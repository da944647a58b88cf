"""A score: the number by which models are judged, and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskScore:
    """How a score is named, compared and shown.

    Parameters
    ----------
    name
        The name in tables and figures.
    higher_is_better
        False for errors.
    is_share
        Whether it lies between 0 and 1. Shares are shown in percent.

    Examples
    --------
    >>> TaskScore("accuracy", is_share=True).format(0.875)
    '87.5%'
    >>> TaskScore("MAE", higher_is_better=False).format(3.14159)
    '3.142'
    """

    name: str
    higher_is_better: bool = True
    is_share: bool = False

    @property
    def sign(self) -> float:
        """1 if higher is better, else −1: `sign · score` is always better when higher."""
        return 1.0 if self.higher_is_better else -1.0

    @property
    def scale(self) -> float:
        """The factor from a value to the number that is shown."""
        return 100.0 if self.is_share else 1.0

    @property
    def unit(self) -> str:
        """What follows the number that is shown."""
        return "%" if self.is_share else ""

    @property
    def title(self) -> str:
        """The name with its unit, such as "accuracy %"."""
        return f"{self.name} {self.unit}".strip()

    def format(self, value: float) -> str:
        """Return a value with its unit."""
        return f"{value:.1%}" if self.is_share else f"{value:.4g}"

    def format_number(self, value: float) -> str:
        """Return a number that is scaled already, without its unit."""
        return f"{value:.1f}" if self.is_share else f"{value:.4g}"


ACCURACY = TaskScore("accuracy", is_share=True)
AUC = TaskScore("AUC", is_share=True)
F1 = TaskScore("F1", is_share=True)
R2 = TaskScore("R²")
MSE = TaskScore("MSE", higher_is_better=False)
RMSE = TaskScore("RMSE", higher_is_better=False)
MAE = TaskScore("MAE", higher_is_better=False)
LOSS = TaskScore("loss", higher_is_better=False)

SCORES: dict[str, TaskScore] = {
    "accuracy": ACCURACY,
    "auc": AUC,
    "f1": F1,
    "r2": R2,
    "mse": MSE,
    "rmse": RMSE,
    "mae": MAE,
    "loss": LOSS,
}
"""The scores by the names that settings use."""
