"""Scores of models: the same numbers as scikit-learn's, and how they are shown."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn import metrics

from coterie.errors import ConfigError
from coterie.tasks import Task, TaskScore, task_for
from coterie.tasks.score import ACCURACY, MAE, MSE, SCORES

RNG = np.random.default_rng(0)
CLASSES = RNG.integers(0, 4, 50)
SCORES_OF_CLASSES = RNG.normal(size=(50, 4)).astype(np.float32)
LABELS = (RNG.random((50, 3)) < 0.4).astype(np.float32)
LOGITS = RNG.normal(size=(50, 3)).astype(np.float32)
VALUES = RNG.normal(size=50).astype(np.float32)
PREDICTED = (VALUES + RNG.normal(size=50)).astype(np.float32)


def reached(task, outputs, targets):
    outputs, targets = torch.from_numpy(outputs), torch.from_numpy(targets)
    return task.score_from(outputs, targets, task.losses(outputs, targets).numpy())


def softmax(scores):
    return torch.from_numpy(scores).softmax(dim=1).numpy()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("accuracy", metrics.accuracy_score(CLASSES, SCORES_OF_CLASSES.argmax(1))),
        ("f1", metrics.f1_score(CLASSES, SCORES_OF_CLASSES.argmax(1), average="macro")),
        (
            "auc",
            metrics.roc_auc_score(CLASSES, softmax(SCORES_OF_CLASSES), multi_class="ovr"),
        ),
    ],
)
def test_scores_of_classes(name, expected):
    task = Task("cross-entropy", score=name)
    assert reached(task, SCORES_OF_CLASSES, CLASSES) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("accuracy", ((LOGITS > 0) == LABELS).mean()),
        ("f1", metrics.f1_score(LABELS, LOGITS > 0, average="macro")),
        ("auc", metrics.roc_auc_score(LABELS, LOGITS, average="macro")),
    ],
)
def test_scores_of_several_labels(name, expected):
    assert reached(Task("bce", score=name), LOGITS, LABELS) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mse", metrics.mean_squared_error(VALUES, PREDICTED)),
        ("rmse", metrics.root_mean_squared_error(VALUES, PREDICTED)),
        ("mae", metrics.mean_absolute_error(VALUES, PREDICTED)),
        ("r2", metrics.r2_score(VALUES, PREDICTED)),
    ],
)
@pytest.mark.parametrize("loss", ["mse", "mae", "huber"])
def test_scores_of_values(loss, name, expected):
    task = Task(loss, score=name)
    assert reached(task, PREDICTED[:, None], VALUES) == pytest.approx(expected, rel=1e-5)


def test_a_class_without_samples_is_left_out_of_the_area_under_the_curve():
    few = CLASSES % 2
    expected = np.mean(
        [metrics.roc_auc_score(few == one, softmax(SCORES_OF_CLASSES)[:, one]) for one in (0, 1)]
    )
    task = Task("cross-entropy", score="auc")
    assert reached(task, SCORES_OF_CLASSES, few) == pytest.approx(expected)
    assert math.isnan(reached(task, SCORES_OF_CLASSES, np.zeros(50, np.int64)))


def test_unknown_positions_do_not_count():
    outputs = np.zeros((1, 3, 2), np.float32)
    outputs[0, :, 1] = 1
    targets = np.array([[1, 0, -100]])
    assert reached(Task(), outputs, targets) == 0.5


def test_a_score_of_ones_own():
    best_two = TaskScore("top-2", is_share=True)

    def among_two(outputs, targets):
        return (outputs.topk(2).indices == targets[:, None]).any(dim=1).double().mean()

    task = Task("cross-entropy", score=(best_two, among_two), metrics=["accuracy"])
    expected = np.mean(
        [y in np.argsort(row)[-2:] for y, row in zip(CLASSES, SCORES_OF_CLASSES, strict=True)]
    )
    assert task.score is best_two
    assert reached(task, SCORES_OF_CLASSES, CLASSES) == pytest.approx(expected)
    assert task.metrics == (ACCURACY,)


def test_a_score_that_fails_names_itself():
    def broken(outputs, targets):
        raise ValueError("no such thing")

    task = Task("mse", score=(TaskScore("mine"), broken))
    with pytest.raises(ConfigError, match=r"score 'mine' cannot be computed.*no such thing"):
        reached(task, PREDICTED, VALUES)


@pytest.mark.parametrize(
    ("loss", "score", "message"),
    [
        ("mse", "acuracy", "no score 'acuracy'. Did you mean 'accuracy'"),
        ("mse", "accuracy", "accuracy does not fit the loss mse. Use one of loss, mae, mse"),
        ("cross-entropy", "mae", "mae does not fit the loss cross-entropy. Use one of accuracy"),
        ("mse", 3, "score is 3, but must be a name"),
    ],
)
def test_what_is_no_score_is_refused(loss, score, message):
    with pytest.raises(ConfigError, match=message):
        Task(loss, score=score)


def test_metrics_are_a_list():
    with pytest.raises(ConfigError, match=r"Give a list, such as \['auc'\]"):
        Task(metrics="auc")


@pytest.mark.parametrize("name", SCORES)
def test_the_better_score_has_the_higher_signed_value(name):
    score = SCORES[name]
    assert score.sign == (1 if score.higher_is_better else -1)
    assert score.is_share <= score.higher_is_better


def test_how_scores_are_shown():
    assert (ACCURACY.title, ACCURACY.format(0.5), ACCURACY.format_number(50)) == (
        "accuracy %",
        "50.0%",
        "50.0",
    )
    assert (MSE.title, MSE.format(0.5), MSE.format_number(50)) == ("MSE", "0.5", "50")


@pytest.mark.parametrize(
    ("targets", "loss", "score"),
    [
        (np.array([0, 2]), "cross-entropy", ACCURACY),
        (np.array([0.5, 2.0]), "mse", MSE),
        (np.array([[0, 1], [1, 1]]), "bce", ACCURACY),
        (np.array([[0.0, 1.0]]), "bce", ACCURACY),
        (np.array([[0.5, 1.0]]), "mse", MSE),
        (np.array([[3, 1]]), "cross-entropy", ACCURACY),
    ],
)
def test_targets_suggest_a_task(targets, loss, score):
    found = task_for(targets)
    assert (found.loss, found.score) == (loss, score)


def test_the_default_score_of_each_loss():
    found = {name: Task(name).score for name in ("cross-entropy", "bce", "mse", "mae", "huber")}
    assert found == {
        "cross-entropy": ACCURACY,
        "bce": ACCURACY,
        "mse": MSE,
        "mae": MAE,
        "huber": MAE,
    }
