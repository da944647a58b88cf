"""Traffic between the nodes of a simulation that is divided: what crosses from node to node.

usage: python benchmarks/node_traffic.py [--peers N] [--nodes N] [--rounds N]
       [--strategies dac,kin] [--save]

The strategies are the real ones, with all their peers, draws and tables. Nothing is trained: their
requests are answered by a model of losses, in which peers of the same cluster have models as good
as the own one. So the figures depend on whom strategies choose, and not on a task. A model has the
size of digits-cnn. Every node has as many peers. Peers are placed in two ways: "any", where every
node has peers of all clusters, and "cluster", where a node has peers of one cluster.

A node receives each fetched model that is on another node, with its message. "each" counts it for
every fetch. "once" counts it once per node and round, for nodes that share what they have received.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
from keeping import show

from coterie.benchmarking.machine import describe_machine
from coterie.processes.garbage_collection import postpone_full_collections
from coterie.randomness import generator
from coterie.runtime.exchange_log import message_bytes
from coterie.strategies import (
    Fetch,
    Me,
    Message,
    Offer,
    Plan,
    ReceiveReports,
    Report,
    Request,
    Score,
    Strategy,
    Validate,
    ValidateMerge,
    make_strategy,
)

MODEL_BYTES = 5130 * 4
NUM_CLUSTERS = 4
NUM_SAMPLES = 16
FETCHES = 5
WORSE = 1.2
"""The loss that a model of another cluster has in addition; an own one has 0.8 on average."""
NOISE = 0.1
Losses = npt.NDArray[np.float32]


class Crowd:
    """Peers whose strategies choose, with answers from a model of losses."""

    def __init__(self, strategy: str, num_peers: int) -> None:
        self._all_peers = np.arange(num_peers)
        self.clusters = self._all_peers % NUM_CLUSTERS
        self.strategies = [_make(strategy) for _ in range(num_peers)]
        self._reports: list[dict[int, float]] = [{} for _ in range(num_peers)]

    def run(self, number: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Run a round; return the sender of each fetch, (K, m), and the bytes of messages, (K,)."""
        messages = [strategy.message() for strategy in self.strategies]
        reports, self._reports = self._reports, [{} for _ in self.strategies]
        with postpone_full_collections():
            senders = [
                self._play(peer, number, messages, reports[peer])
                for peer in range(len(self.strategies))
            ]
        return np.array(senders), np.array([message_bytes(message) for message in messages])

    def _play(
        self, peer: int, number: int, messages: list[Message], told: Mapping[int, float]
    ) -> tuple[int, ...]:
        """Run the round of a peer; return the peers that it fetched from."""
        rng = generator(0, "strategy", peer, number)
        plan = self.strategies[peer].round(
            Me(peer, number, self._all_peers, NUM_SAMPLES, rng, validation_score=0.8)
        )
        answers = Answers(peer, number, self.clusters, messages, told)
        _run_to_end(plan, answers)
        for other, value in answers.reported.items():
            self._reports[other][peer] = value
        return answers.fetched

    def count_listed(self) -> float:
        """Return how many others a peer lists in its table, on average."""
        tables = (strategy.save()["table"] for strategy in self.strategies)
        return float(np.mean([len(table["peers"]) for table in tables]))


class Answers:
    """Answers the requests of one peer in one round."""

    def __init__(
        self,
        peer: int,
        number: int,
        clusters: npt.NDArray[np.int64],
        messages: list[Message],
        told: Mapping[int, float],
    ) -> None:
        self._clusters, self._messages, self._told = clusters, messages, told
        self._cluster = clusters[peer]
        self._rng = generator(0, "losses", peer, number)
        self._own = self._rng.exponential(0.8, NUM_SAMPLES)
        self.fetched: tuple[int, ...] = ()
        self.reported: Mapping[int, float] = {}

    def answer(self, request: Request) -> Any:
        """Return the answer to a request; None to those that have none."""
        match request:
            case Fetch(peers):
                self.fetched = peers
                return [Offer(peer, NUM_SAMPLES, self._messages[peer]) for peer in peers]
            case Score(offers):
                return {offer.peer: float(self._losses(offer.peer).mean()) for offer in offers}
            case Validate(peers):
                return {peer: self._losses(peer) for peer in peers}
            case ValidateMerge():
                return self._own.astype(np.float32)
            case ReceiveReports():
                return dict(self._told)
            case Report(values):
                self.reported = values
        return None

    def _losses(self, other: int) -> Losses:
        """Return the losses of a model on the samples of this peer, (n,)."""
        worse = 0.0 if self._clusters[other] == self._cluster else WORSE
        noise = NOISE * self._rng.standard_normal(NUM_SAMPLES)
        return np.asarray(self._own + worse + noise, np.float32)


def _make(name: str) -> Strategy:
    strategy = make_strategy(name, {"fetches": FETCHES})
    if not isinstance(strategy, Strategy):
        raise SystemExit(f"{name} has a server, so its peers do not fetch from each other.")
    return strategy


def _run_to_end(plan: Plan, answers: Answers) -> None:
    answer: Any = None
    while True:
        try:
            request = plan.send(answer)
        except StopIteration:
            return
        answer = answers.answer(request)


def place(clusters: npt.NDArray[np.int64], num_nodes: int) -> dict[str, npt.NDArray[np.int64]]:
    """Return the node of each peer, (K,), for each way of placing them."""
    in_turn = np.arange(len(clusters)) * num_nodes // len(clusters)
    by_cluster = np.empty_like(in_turn)
    by_cluster[np.argsort(clusters, kind="stable")] = in_turn
    return {"any": in_turn, "cluster": by_cluster}


def measure_nodes(
    senders: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    nodes: npt.NDArray[np.int64],
    num_nodes: int,
) -> dict[str, Any]:
    """Return what the busiest node receives in a round, and which share of all fetches crosses."""
    receivers = np.repeat(nodes, senders.shape[1])
    sent = senders.ravel()
    crosses = nodes[sent] != receivers
    receivers, sent = receivers[crosses], sent[crosses]
    pairs = np.unique(receivers * len(nodes) + sent)
    each = np.bincount(receivers, sizes[sent], num_nodes)
    once = np.bincount(pairs // len(nodes), sizes[pairs % len(nodes)], num_nodes)
    return {
        "share_of_fetches_that_cross": round(float(crosses.mean()), 4),
        "models_each": int(np.bincount(receivers, minlength=num_nodes).max()),
        "models_once": int(np.bincount(pairs // len(nodes), minlength=num_nodes).max()),
        "megabytes_each": round(float(each.max()) / 1e6, 1),
        "megabytes_once": round(float(once.max()) / 1e6, 1),
    }


def simulate(strategy: str, num_peers: int, num_nodes: int, rounds: int) -> list[dict[str, Any]]:
    """Run a strategy; return the figures of each round."""
    crowd = Crowd(strategy, num_peers)
    placed = place(crowd.clusters, num_nodes)
    found = []
    for number in range(1, rounds + 1):
        start = time.process_time()
        senders, message_sizes = crowd.run(number)
        seconds = time.process_time() - start
        sizes = MODEL_BYTES + message_sizes
        same = crowd.clusters[senders] == crowd.clusters[:, np.newaxis]
        found.append(
            {
                "strategy": strategy,
                "round": number,
                "share_of_fetches_in_the_own_cluster": round(float(same.mean()), 4),
                "listed_peers": round(crowd.count_listed(), 2),
                "message_bytes": round(float(message_sizes.mean()), 1),
                "cpu_milliseconds_per_peer": round(1e3 * seconds / num_peers, 3),
                "resident_megabytes": round(psutil.Process().memory_info().rss / 1e6),
                "received_by_the_busiest_node": {
                    way: measure_nodes(senders, sizes, nodes, num_nodes)
                    for way, nodes in placed.items()
                },
            }
        )
        print(found[-1], flush=True)
    return found


def main() -> None:
    """Simulate, print, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--peers", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--strategies", default="dac,kin")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    report = describe_machine() | {
        "peers": options.peers,
        "nodes": options.nodes,
        "fetches": FETCHES,
        "model_bytes": MODEL_BYTES,
    }
    report["rounds"] = [
        found
        for strategy in options.strategies.split(",")
        for found in simulate(strategy, options.peers, options.nodes, options.rounds)
    ]
    name = f"node-traffic-{options.strategies.replace(',', '-')}-{options.peers}"
    show(report, name, save=options.save)


if __name__ == "__main__":
    main()
