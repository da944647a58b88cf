"""A frozen backbone: the memory of 50 peers that train adapters of one transformer.

usage: python benchmarks/frozen_backbone.py [--peers N] [--threads N] [--trainer NAME] [--save]

The transformer has 10.6 million frozen parameters with random weights; each peer trains low-rank
adapters of its query and value projections, and the classifier. Data are the digits of
scikit-learn, read row by row; half of the peers see them upside down. Memory is the largest sum of
the processes' proportional shares. `--save` keeps the figures.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from many_peers import PeakMemory
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

import coterie
from coterie.benchmarking.machine import describe_machine
from coterie.models.shared_builder import SharedBuilder

RESULTS = Path(__file__).parent / "results"
WIDTH, DEPTH, HEADS, RANK = 384, 6, 6, 4
ALLOWED_MEGABYTES = 600
"""Beside the backbone, the adapters and the data: Python, torch and Coterie."""


class Adapted(nn.Linear):
    """A linear layer plus the product of two small matrices (LoRA)."""

    def __init__(self) -> None:
        super().__init__(WIDTH, WIDTH)
        self.a = nn.Parameter(torch.randn(RANK, WIDTH) / WIDTH**0.5)
        self.b = nn.Parameter(torch.zeros(WIDTH, RANK))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Map (…, inputs) to (…, outputs)."""
        return super().forward(inputs) + inputs @ self.a.T @ self.b.T


class Block(nn.Module):
    """One layer of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = Adapted(), nn.Linear(WIDTH, WIDTH), Adapted()
        self.out = nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Map (n, length, width) to the same shape."""
        normal = self.first(tokens)
        query, key, value = (
            each(normal).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for each in (self.query, self.key, self.value)
        )
        seen = functional.scaled_dot_product_attention(query, key, value)
        tokens = tokens + self.out(seen.transpose(1, 2).flatten(2))
        changed: torch.Tensor = self.narrow(functional.gelu(self.wide(self.second(tokens))))
        return tokens + changed


class Transformer(nn.Module):
    """Classifies images, read as sequences of their rows."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, WIDTH)
        self.positions = nn.Parameter(torch.randn(8, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(DEPTH)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map (n, 8, 8) to scores (n, 10)."""
        tokens = self.blocks(self.embed(images) + self.positions)
        scores: torch.Tensor = self.head(self.norm(tokens).mean(dim=1))
        return scores


def build() -> nn.Module:
    """Return the transformer, of which only adapters and classifier are trained."""
    model = Transformer()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.endswith((".a", ".b")) or name.startswith("head."))
    return model


def make_peers(count: int) -> list[coterie.PeerData]:
    """Return the peers' data: every other peer sees the digits upside down."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = (digits.images[order] / 16).astype("float32")
    peers = []
    for number in range(count):
        mine = images[number::count]
        mine = mine[:, ::-1].copy() if number % 2 else mine
        targets = digits.target[order][number::count]
        parts = [slice(0, 16), slice(16, 24), slice(24, None)]
        peers.append(coterie.PeerData(*[(mine[part], targets[part]) for part in parts]))
    return peers


def measure(num_peers: int, threads: int, trainer: str, rounds: int) -> dict[str, Any]:
    """Simulate the peers; return memory, bytes and times."""
    builder = SharedBuilder(build, 0)
    frozen, sent = builder.frozen.num_bytes, builder.layout.num_bytes
    del builder
    memory = PeakMemory(every_seconds=0.1)
    memory.start()
    start = time.perf_counter()
    training = {"epochs": 1, "learning_rate": 3e-3, "trainer": trainer}
    settings = {"rounds": rounds, "training": training}
    result = coterie.simulate(
        build,
        make_peers(num_peers),
        settings=settings,
        clusters=[number % 2 for number in range(num_peers)],
        threads=threads,
    )
    seconds = time.perf_counter() - start
    memory.stop()
    spent = [resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    models = 4 * num_peers * sent
    return {
        "peers": num_peers,
        "threads": threads,
        "trainer": trainer,
        "rounds": rounds,
        "frozen_megabytes": round(frozen / 1e6, 1),
        "sent_bytes_per_model": sent,
        "peak_megabytes": round(memory.peak_bytes / 1e6),
        "allowed_megabytes": round((frozen + models) / 1e6 + ALLOWED_MEGABYTES),
        "bytes_per_fetch": sorted(set(result.exchanges["bytes"].to_pylist()))[:2],
        "test_accuracy": round(float(result.test_score.mean()), 3),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(sum(each.ru_utime + each.ru_stime for each in spent), 1),
    }


def main() -> None:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--peers", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--trainer", default="auto")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    found = measure(options.peers, options.threads, options.trainer, options.rounds)
    print(json.dumps(found, indent=2))
    if options.save:
        report = describe_machine() | {"result": found}
        path = RESULTS / f"{report['date']}-frozen-backbone-{options.trainer}.json"
        path.write_text(json.dumps(report, indent=2) + "\n")
        print(f"kept in {path}")


if __name__ == "__main__":
    main()
