"""What users bring: tokens, several inputs, labels, values, own losses, with every strategy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import coterie
from coterie.data.peer_arrays import PeerArrays, PeerData
from coterie.strategies import STRATEGIES

PEERS, SAMPLES = 4, 24
RNG = np.random.default_rng(0)
VALUES = [RNG.normal(size=(SAMPLES, 5)).astype(np.float32) for _ in range(PEERS)]
CLASSES = [(each[:, 0] > 0).astype(int) for each in VALUES]
TOKENS = [RNG.integers(1, 20, (SAMPLES, 6)) for _ in range(PEERS)]


class Reader(nn.Module):
    """Reads tokens, and returns scores in one of the forms that libraries use."""

    def __init__(self, form: Callable[[torch.Tensor], Any] = lambda scores: scores) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 4)
        self.read = nn.GRU(4, 6, batch_first=True)
        self.out = nn.Linear(6, 2)
        self._form = form

    def forward(self, tokens: torch.Tensor) -> Any:
        return self._form(self.out(self.read(self.embed(tokens))[0][:, -1]))


class NextToken(Reader):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(6, 20)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.read(self.embed(tokens))[0])


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(20, 3), nn.Linear(8, 2)

    def forward(self, tokens: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return self.out(torch.cat([self.embed(tokens[:, 0]), values], dim=1))


def linear(outputs: int) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(5, outputs))


def absolute(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (outputs.squeeze(1) - targets).abs()


@dataclass(frozen=True)
class Problem:
    """A model and the data of the peers."""

    build: Callable[[], nn.Module]
    peers: list[Any]
    task: Any = None
    like_accuracy: bool = True
    """Whether strategies that go by accuracy can be used."""


def pairs(inputs: list[Any], targets: list[Any]) -> list[Any]:
    return list(zip(inputs, targets, strict=True))


LABELS = [np.stack([c, 1 - c, x[:, 1] > 0], axis=1) for c, x in zip(CLASSES, VALUES, strict=True)]
SUMS = [each.sum(axis=1) for each in VALUES]
NAMED = [{"tokens": t, "values": v} for t, v in zip(TOKENS, VALUES, strict=True)]
HUGGING_FACE = [
    datasets.Dataset.from_dict({"tokens": t.tolist(), "text": ["…"] * SAMPLES, "label": c.tolist()})
    for t, c in zip(TOKENS, CLASSES, strict=True)
]
PROBLEMS = {
    "classes": Problem(linear(2), pairs(VALUES, CLASSES)),
    "tokens": Problem(Reader, pairs(TOKENS, CLASSES)),
    "sequences of unequal lengths": Problem(
        Reader,
        [
            ([row[: 2 + n % 5].tolist() for n, row in enumerate(t)], c)
            for t, c in pairs(TOKENS, CLASSES)
        ],
    ),
    "next token": Problem(NextToken, [(t[:, :-1], t[:, 1:]) for t in TOKENS]),
    "logits": Problem(lambda: Reader(lambda s: SimpleNamespace(logits=s)), pairs(TOKENS, CLASSES)),
    "a tuple of outputs": Problem(lambda: Reader(lambda s: (s, None)), pairs(TOKENS, CLASSES)),
    "inputs by name": Problem(TwoInputs, pairs(NAMED, CLASSES)),
    "inputs in order": Problem(
        TwoInputs, [((t, v), c) for t, v, c in zip(TOKENS, VALUES, CLASSES, strict=True)]
    ),
    "several labels": Problem(linear(3), pairs(VALUES, LABELS)),
    "values": Problem(linear(1), pairs(VALUES, SUMS), like_accuracy=False),
    "absolute errors": Problem(linear(1), pairs(VALUES, SUMS), "mae", like_accuracy=False),
    "several values": Problem(linear(5), pairs(VALUES, VALUES), like_accuracy=False),
    "a loss of ones own": Problem(linear(1), pairs(VALUES, SUMS), absolute, like_accuracy=False),
    "area under the curve": Problem(
        linear(2), pairs(VALUES, CLASSES), coterie.Task("cross-entropy", score="auc")
    ),
    "a torch dataset": Problem(
        Reader,
        [
            coterie.PeerData(torch.utils.data.TensorDataset(torch.tensor(t), torch.tensor(c)))
            for t, c in pairs(TOKENS, CLASSES)
        ],
    ),
    "a Hugging Face dataset": Problem(Reader, [coterie.PeerData(each) for each in HUGGING_FACE]),
    "data frames": Problem(
        linear(2),
        [(pd.DataFrame(v, columns=list("abcde")), pd.Series(c)) for v, c in pairs(VALUES, CLASSES)],
    ),
    "whole numbers as features": Problem(
        linear(2), [((10 * v).astype(int), c) for v, c in pairs(VALUES, CLASSES)]
    ),
}
NO_YARDSTICKS = [
    name for name, kind in STRATEGIES.items() if kind.__module__.startswith("coterie.")
]


def run(problem: Problem, strategy: Any = "kin", **more: Any) -> coterie.Result:
    settings = {"rounds": 2, **more.pop("settings", {})}
    return coterie.simulate(
        problem.build, problem.peers, strategy, settings, task=problem.task, **more
    )


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_with_the_defaults_and_any_number_of_threads(name):
    """The defaults are Kin, and a thread for each processor."""
    results = [run(PROBLEMS[name], threads=threads) for threads in (None, 1, 2)]
    for result in results:
        assert np.isfinite(result.test_loss).all()
        assert np.isfinite(result.test_score).all()
        np.testing.assert_array_equal(result.models, results[0].models)
        np.testing.assert_array_equal(result.test_score, results[0].test_score)


@pytest.mark.parametrize("strategy", NO_YARDSTICKS)
@pytest.mark.parametrize("name", ["tokens", "several labels", "absolute errors"])
def test_every_strategy_with_every_kind_of_score(name, strategy):
    problem = PROBLEMS[name]
    uses_accuracy = (
        "accuracy" in getattr(coterie.make_strategy(strategy), "required_metrics", frozenset)()
    )
    if uses_accuracy and not problem.like_accuracy:
        with pytest.raises(coterie.CoterieError, match="uses accuracy, but the score of this task"):
            run(problem, strategy)
    else:
        assert np.isfinite(run(problem, strategy, clusters=[0, 0, 1, 1]).test_score).all()


def test_scores_of_batched_and_other_trainers_agree():
    problem = PROBLEMS["several labels"]
    scores = [
        run(problem, settings={"training": {"trainer": trainer}}).test_score
        for trainer in ("torch", "batched")
    ]
    np.testing.assert_allclose(*scores, atol=0.1)


def test_padding_is_at_the_end_and_common_to_all_peers():
    short, long = [[1, 2], [3]], [[4, 5, 6], [7]]
    arrays = PeerArrays(
        [PeerData((rows, [0, 1]), (rows, [0, 1]), (rows, [0, 1])) for rows in (short, long)]
    )
    assert arrays.pools[0].inputs[:2].tolist() == [[1, 2, 0], [3, 0, 0]]
    assert arrays.pools[0].inputs[-2:].tolist() == [[4, 5, 6], [7, 0, 0]]
    assert arrays.pools[0].inputs.dtype == np.int64


SLIPS = {
    "a loss that is no function": ({"task": 3}, "task is 3, but must be a Task"),
    "a loss with a typo": ({"task": "msee"}, "no loss 'msee'. Did you mean 'mse'"),
    "a loss with a mean": ({"task": nn.MSELoss()}, "reduction='none'"),
    "the class of a loss": ({"task": nn.MSELoss}, "task is a type"),
    "bce on classes": ({"task": "bce"}, "targets that are 0 or 1|is needed"),
    "a loss that fails": (
        {"task": lambda outputs, targets: outputs @ targets.nothing},
        "The loss <lambda> fails for outputs of shape",
    ),
    "a mean as a loss": (
        {"task": lambda outputs, targets: (outputs - targets[:, None]).mean()},
        "it must return one loss per sample",
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_answered_in_one_sentence(slip):
    given, message = SLIPS[slip]
    problem = PROBLEMS["classes"]
    with pytest.raises(coterie.CoterieError, match=message):
        coterie.simulate(problem.build, problem.peers, settings={"rounds": 1}, **given)
