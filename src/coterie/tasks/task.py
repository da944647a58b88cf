"""A task: what models are trained for, and how well they do it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from coterie.errors import ConfigError, suggest
from coterie.tasks.loss_names import FOR_CLASSES, LOSSES, LossFunction, LossName, ScoreFunction
from coterie.tasks.score import LOSS, RMSE, SCORES, TaskScore

if TYPE_CHECKING:
    import torch

ScoreArgument: TypeAlias = str | tuple[TaskScore, ScoreFunction]
"""The name of a score, or a user's own: how it is shown, and a function that computes it."""

_SCORE_OF_LOSS = {
    "cross-entropy": "accuracy",
    "bce": "accuracy",
    "mse": "mse",
    "mae": "mae",
    "huber": "mae",
}


_POWERS = {"mse": 2, "rmse": 1, "mae": 1}
"""How errors depend on the unit in which values are predicted."""


class Task:
    """The loss that training minimises, the score of models, and further metrics.

    Parameters
    ----------
    loss
        "cross-entropy" for classes, "bce" for one or several labels that are 0 or 1, "mse", "mae"
        or "huber" for values. Or a function of outputs (n, …) and targets (n, …), both tensors,
        that returns one loss per sample, (n,).
    score
        The number by which models are compared: "accuracy", "auc", "f1", "r2", "mse", "rmse",
        "mae" or "loss". Or a pair: a `TaskScore`, which names it, and a function of the outputs and
        targets of all samples that returns one number. By default the accuracy of classes and
        labels, the error of values, and the loss of a function.
    metrics
        Further scores, which are computed in tests.
    unit
        How much 1 in the predictions and targets is in the user's units. Errors are multiplied by
        it; the loss is not.

    Examples
    --------
    >>> Task("mse", score="mae").score
    TaskScore(name='MAE', higher_is_better=False, is_share=False)
    >>> def weighted(outputs, targets):
    ...     return (outputs.squeeze(1) - targets) ** 2 * (1 + targets.abs())
    >>> Task(weighted).score.name
    'loss'
    """

    def __init__(
        self,
        loss: LossName | LossFunction = "cross-entropy",
        score: ScoreArgument | None = None,
        metrics: Sequence[ScoreArgument] = (),
        *,
        unit: float = 1.0,
    ) -> None:
        if isinstance(metrics, str):
            raise ConfigError(f"metrics is {metrics!r}. Give a list, such as [{metrics!r}].")
        self.loss = _checked_loss(loss)
        self.unit = unit
        self.score_argument = score
        self.score, self._compute = self._score_of(score)
        further = [self._score_of(each) for each in metrics]
        self.metrics = tuple(each for each, _ in further)
        self._compute_metrics = tuple(compute for _, compute in further)

    def __repr__(self) -> str:
        metrics = f", metrics={[each.name for each in self.metrics]}" if self.metrics else ""
        return f"Task({self.loss_name!r}, score={self.score.name!r}{metrics})"

    @property
    def loss_name(self) -> str:
        """The name of the loss, or of the user's function."""
        return self.loss if isinstance(self.loss, str) else _name_of(self.loss)

    def losses(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return one loss per sample, (n,)."""
        if isinstance(self.loss, str):
            from coterie.tasks.losses import losses_of

            return losses_of(self.loss, outputs, targets)
        return self._own_losses(self.loss, outputs, targets)

    def mean_loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of a batch, for training."""
        if isinstance(self.loss, str):
            from coterie.tasks.losses import mean_loss

            return mean_loss(self.loss, outputs, targets)
        return self._own_losses(self.loss, outputs, targets).mean()

    @property
    def needs_outputs(self) -> bool:
        """Whether the score needs the outputs of a model; otherwise its losses suffice."""
        return self._compute is not None

    @property
    def counts_correct_classes(self) -> bool:
        """Whether the score is the share of samples whose class is predicted correctly."""
        from coterie.tasks.score_functions import accuracy

        return self.loss == "cross-entropy" and self._compute is accuracy

    def score_of_loss(self, loss: float) -> float:
        """Return the score for a mean loss, where losses suffice."""
        return self._of_loss(self.score, loss)

    def score_from(
        self, outputs: torch.Tensor, targets: torch.Tensor, losses: npt.NDArray[np.float32]
    ) -> float:
        """Return the score of a model from its outputs and losses for all samples."""
        return self._computed(self.score, self._compute, outputs, targets, losses)

    def metrics_from(
        self, outputs: torch.Tensor, targets: torch.Tensor, losses: npt.NDArray[np.float32]
    ) -> tuple[float, ...]:
        """Return the further metrics of a model."""
        return tuple(
            self._computed(score, compute, outputs, targets, losses)
            for score, compute in zip(self.metrics, self._compute_metrics, strict=True)
        )

    def check_targets(self, where: str, targets: npt.NDArray[Any]) -> None:
        """Refuse targets that do not fit the loss; `where` names them in errors."""
        is_whole = targets.dtype.kind in "iu"
        if self.loss == "cross-entropy" and not is_whole:
            raise ConfigError(
                f"{where}: the loss cross-entropy needs targets that are whole numbers (classes), "
                f"but these are {targets.dtype}. For values use the loss mse, for labels that are "
                "0 or 1 bce."
            )
        if self.loss == "bce" and not np.isin(np.unique(targets), (0, 1)).all():
            raise ConfigError(
                f"{where}: the loss bce needs targets that are 0 or 1, but there are others, such "
                f"as {float(targets[~np.isin(targets, (0, 1))].flat[0]):g}."
            )

    def _own_losses(
        self, loss: LossFunction, outputs: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        values = loss(outputs, targets)
        if getattr(values, "shape", None) != (len(targets),):
            given = f"shape {tuple(values.shape)}" if hasattr(values, "shape") else repr(values)
            raise ConfigError(
                f"The loss {_name_of(loss)} returned {given} for a batch of {len(targets)}, but it "
                f"must return one loss per sample: a tensor of shape ({len(targets)},). Use "
                "reduction='none', and the mean over everything but the first dimension."
            )
        return values

    def in_user_units(self, score: float) -> float:
        """Return a score of predictions in the user's units."""
        return score * self._factor(self.score)

    def _of_loss(self, score: TaskScore, loss: float) -> float:
        return (math.sqrt(loss) if score == RMSE else loss) * self._factor(score)

    def _factor(self, score: TaskScore) -> float:
        """Return what a score of predictions is multiplied by, for the user's units."""
        powers = [power for name, power in _POWERS.items() if SCORES[name] == score]
        return float(self.unit ** powers[0]) if powers else 1.0

    def _computed(
        self,
        score: TaskScore,
        compute: ScoreFunction | None,
        outputs: torch.Tensor,
        targets: torch.Tensor,
        losses: npt.NDArray[np.float32],
    ) -> float:
        if compute is None:
            return self._of_loss(score, float(losses.mean(dtype=np.float64)))
        try:
            return float(compute(outputs, targets)) * self._factor(score)
        except (TypeError, ValueError, RuntimeError, IndexError) as error:
            raise ConfigError(
                f"The score '{score.name}' cannot be computed from outputs of shape "
                f"{tuple(outputs.shape)} and targets of shape {tuple(targets.shape)}: {error}"
            ) from None

    def _score_of(self, score: ScoreArgument | None) -> tuple[TaskScore, ScoreFunction | None]:
        """Return a score and its function; None for the loss itself."""
        if score is None:
            score = _SCORE_OF_LOSS[self.loss] if isinstance(self.loss, str) else LOSS.name
        if isinstance(score, tuple) and len(score) == 2 and isinstance(score[0], TaskScore):
            return score
        if not isinstance(score, str):
            raise ConfigError(
                f"score is {score!r}, but must be a name such as 'auc', or a pair: a TaskScore and "
                "a function of outputs and targets, such as (TaskScore('top-3', is_share=True), "
                "top3)."
            )
        if score not in SCORES:
            raise ConfigError(f"There is no score '{score}'.{suggest(score, SCORES)}")
        wants_classes, has_classes = score in FOR_CLASSES, self.loss in ("cross-entropy", "bce")
        if score != LOSS.name and isinstance(self.loss, str) and wants_classes != has_classes:
            fitting = FOR_CLASSES if has_classes else tuple(SCORES.keys() - {*FOR_CLASSES})
            raise ConfigError(
                f"The score {score} does not fit the loss {self.loss}. Use one of "
                f"{', '.join(sorted({*fitting, LOSS.name}))}."
            )
        if score in (LOSS.name, self.loss) or (score, self.loss) == ("rmse", "mse"):
            return SCORES[score], None
        from coterie.tasks.score_functions import SCORE_FUNCTIONS

        return SCORES[score], SCORE_FUNCTIONS[score]


def task_for(targets: npt.NDArray[Any]) -> Task:
    """Return the task that the type and shape of targets suggest.

    Whole numbers are classes. Several values per sample that are all 0 or 1 are labels. Others are
    values to predict.
    """
    if targets.ndim > 1 and np.isin(np.unique(targets), (0, 1)).all():
        return Task("bce")
    return Task("cross-entropy" if targets.dtype.kind in "iu" else "mse")


def _checked_loss(loss: LossName | LossFunction) -> LossName | LossFunction:
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise ConfigError(
                f"There is no loss '{loss}'.{suggest(loss, LOSSES)} A function of outputs and "
                "targets that returns one loss per sample works too."
            )
    elif getattr(loss, "reduction", "none") != "none":
        kind = type(loss).__name__
        raise ConfigError(
            f"loss is {kind} with reduction={loss.reduction!r}, but one loss per sample is needed: "  # type: ignore[attr-defined]
            f"{kind}(reduction='none')."
        )
    elif not callable(loss):
        raise ConfigError(
            f"loss is {loss!r}, but must be one of {', '.join(LOSSES)}, or a function of outputs "
            "and targets that returns one loss per sample."
        )
    return loss


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
