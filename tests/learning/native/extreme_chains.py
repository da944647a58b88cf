"""Chains of extreme shapes, and operations of impossible sizes."""

from __future__ import annotations

from torch import nn

from coterie.learning.native.library import AVERAGE_POOL, CONVOLUTION, DROPOUT, LINEAR, MAX_POOL
from coterie.learning.native.step import Step

EXTREMES = {
    "one pixel": ((1, 1, 1), [nn.Conv2d(1, 1, 1), nn.Flatten(), nn.Linear(1, 2)]),
    "one value": ((1,), [nn.Linear(1, 2)]),
    "narrower than a vector": ((3,), [nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 3)]),
    "kernel as large as the image": (
        (2, 7, 5),
        [nn.Conv2d(2, 3, (7, 5)), nn.ReLU(), nn.Flatten(), nn.Linear(3, 4)],
    ),
    "kernel larger than the image": (
        (1, 2, 3),
        [nn.Conv2d(1, 4, (5, 6), padding=(2, 3)), nn.ReLU(), nn.Flatten(), nn.Linear(32, 4)],
    ),
    # 13 × 8 and 25 × 8 values in a row: more vectors than there are registers for.
    "kernel rows of 13 vectors": (
        (8, 3, 15),
        [nn.Conv2d(8, 2, (2, 13)), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3)],
    ),
    "kernel rows of 25 vectors, twice": (
        (4, 3, 50),
        [
            nn.Conv2d(4, 3, (2, 50), padding=1),
            nn.Conv2d(3, 2, (3, 3)),
            nn.Flatten(),
            nn.Linear(4, 3),
        ],
    ),
    "kernel of 13 rows": (
        (1, 14, 2),
        [nn.Conv2d(1, 3, (13, 2)), nn.Conv2d(3, 2, 1), nn.Flatten(), nn.Linear(4, 3)],
    ),
    "outputs narrower than four": (
        (2, 5, 3),
        [nn.Conv2d(2, 5, 1), nn.ReLU(), nn.Conv2d(5, 4, (1, 2)), nn.Flatten(), nn.Linear(40, 3)],
    ),
    "columns": (
        (1, 11, 1),
        [
            nn.Conv2d(1, 3, (3, 1)),
            nn.ReLU(),
            nn.Conv2d(3, 3, (2, 1), bias=False),
            nn.Flatten(),
            nn.Linear(24, 2),
        ],
    ),
    "odd sizes under fused pooling": (
        (3, 9, 11),
        [
            nn.Conv2d(3, 4, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 5, 2),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(5, 3),
        ],
    ),
    "strided and padded under fused pooling": (
        (2, 11, 10),
        [
            nn.Conv2d(2, 7, (3, 2), (2, 1), (1, 2)),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(7, 3, 3, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(3 * 2 * 4, 3),
        ],
    ),
    "strides that leave pixels out": (
        (2, 10, 10),
        [nn.Conv2d(2, 3, 2, 4), nn.ReLU(), nn.Conv2d(3, 9, 1, 3), nn.Flatten(), nn.Linear(9, 3)],
    ),
    "pooling twice, first of all": (
        (2, 12, 12),
        [
            nn.MaxPool2d(2),
            nn.MaxPool2d(3, 1, 1),
            nn.Conv2d(2, 3, 3),
            nn.Flatten(),
            nn.Linear(48, 3),
        ],
    ),
    "three pools after one another": (
        (1, 13, 13),
        [
            nn.Conv2d(1, 4, 2),
            nn.MaxPool2d(2),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.AvgPool2d((2, 1), 1),
            nn.Flatten(),
            nn.Linear(4 * 2 * 3, 2),
        ],
    ),
    "large strides in wide images": (
        (1, 2, 40),
        [
            nn.Conv2d(1, 2, (1, 3), (1, 7)),
            nn.ReLU(),
            nn.MaxPool2d((1, 2), (2, 3)),
            nn.Flatten(),
            nn.Linear(4, 2),
        ],
    ),
    "many channels of few pixels": (
        (33, 2, 2),
        [
            nn.Conv2d(33, 17, 2, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(17, 25),
            nn.ReLU(),
            nn.Linear(25, 13),
        ],
    ),
    "one class": ((4,), [nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 1)]),
    "a thousand classes": ((5,), [nn.Linear(5, 9), nn.ReLU(), nn.Linear(9, 1000)]),
    "convolutions only": ((2, 4, 4), [nn.Conv2d(2, 3, 3), nn.Conv2d(3, 5, 2), nn.Flatten()]),
    "pooling only after the last layer": (
        (1, 4, 4),
        [nn.Conv2d(1, 3, 3), nn.AvgPool2d(2), nn.Flatten()],
    ),
    "ReLU and dropout at the end": ((6,), [nn.Linear(6, 5), nn.Dropout(0.0), nn.ReLU()]),
}


HEAD = Step(LINEAR, outputs=2)
MOST, TOO_MANY = 2**20, 2**31 - 1
IMPOSSIBLE = {
    "no outputs": [Step(LINEAR, outputs=0)],
    "negative outputs": [Step(LINEAR, outputs=-5)],
    "huge outputs": [Step(LINEAR, outputs=TOO_MANY)],
    "too many weights": [Step(LINEAR, outputs=2**15), Step(LINEAR, outputs=2**15), HEAD],
    "kind 0": [Step(0), HEAD],
    "kind 18": [Step(18), HEAD],
    "negative kind": [Step(-(2**31)), HEAD],
    "zero kernel": [Step(CONVOLUTION, 2, kernel=(0, 1))],
    "negative kernel": [Step(CONVOLUTION, 2, kernel=(1, -1))],
    "huge kernel": [Step(CONVOLUTION, 2, kernel=(TOO_MANY, 1), padding=(2**30, 0))],
    "kernel without room": [Step(CONVOLUTION, 2, kernel=(2, 1))],
    "zero stride": [Step(CONVOLUTION, 2, stride=(0, 1))],
    "negative stride": [Step(MAX_POOL, stride=(1, -2)), HEAD],
    "huge stride": [Step(MAX_POOL, stride=(TOO_MANY, 1)), HEAD],
    "negative padding": [Step(CONVOLUTION, 2, padding=(-1, 0))],
    "huge padding": [Step(CONVOLUTION, 2, padding=(TOO_MANY, TOO_MANY))],
    "padded beyond memory": [Step(CONVOLUTION, 2, padding=(MOST, MOST), stride=(MOST, MOST))],
    "window of padding alone": [Step(MAX_POOL, kernel=(1, 1), padding=(1, 1)), HEAD],
    "average of padding alone": [Step(AVERAGE_POOL, kernel=(3, 3), padding=(2, 0)), HEAD],
    "pooled by three": [Step(CONVOLUTION, 2, pool=3)],
    "pooled to nothing": [Step(CONVOLUTION, 2, pool=2)],
    "negative weights": [Step(LINEAR, 2, weight=-1)],
    "negative bias": [Step(LINEAR, 2, bias=-2)],
    "negative rate": [HEAD, Step(DROPOUT, rate=-0.1)],
    "rate above one": [HEAD, Step(DROPOUT, rate=1.5)],
    "rate NaN": [HEAD, Step(DROPOUT, rate=float("nan"))],
    "no steps": [],
    "too many steps": [HEAD] * 2000,
    # In 32 bits the products are zero.
    "kernel rows that overflow": [
        Step(CONVOLUTION, MOST, kernel=(2**12, 1), padding=(2**11, 0), stride=(2, 1))
    ],
}
