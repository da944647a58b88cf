"""Random networks: any strategy with any valid options, on small real data, watched at work."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from hypothesis import reject, settings
from hypothesis import strategies as st
from small_runs import CLASSES, FEATURES, classify, small_module
from torch import nn

from coterie.data.drift import RandomDrift
from coterie.data.labelled_dataset import Dataset
from coterie.data.peer_arrays import PeerArrays, PeerData
from coterie.data.peer_datasets import PeerDatasets
from coterie.data.scenario import PeerSettings, Scenario
from coterie.data.shifts import LabelSwapShift
from coterie.errors import ConfigError
from coterie.learning.settings import TrainingSettings
from coterie.runtime.round import Round
from coterie.runtime.settings import Absence, NetworkSettings, SimulationSettings
from coterie.simulation.simulation import Simulation
from coterie.strategies import STRATEGIES, make_strategy
from coterie.strategies.requests import Merge, Plan, Request
from coterie.strategies.strategy import Me, Strategy

PEER_STRATEGIES = sorted(name for name, kind in STRATEGIES.items() if issubclass(kind, Strategy))
SERVER_STRATEGIES = sorted(set(STRATEGIES) - set(PEER_STRATEGIES))
ASKED = ("fetches", "samples", "later_fetches", "candidates")
"""Options that say how many peers are asked."""


def few(count: int) -> settings:
    """Return how properties are tried: so many examples, always the same ones."""
    return settings(max_examples=count, deadline=None, derandomize=True, database=None)


@dataclass(frozen=True)
class Network:
    """Everything that decides a small run."""

    strategy: str
    options: dict[str, Any]
    sizes: tuple[int, ...]
    """Training samples of each peer; under drift all have the first number."""
    settings: SimulationSettings
    is_linear: bool = False
    drift_every: int | None = None
    clusters: tuple[int, ...] | None = None
    """The true clusters; two in turn when not given."""
    order: tuple[int, ...] | None = None
    """Which peer of the network as it was drawn stands in each place."""

    @property
    def num_peers(self) -> int:
        return len(self.sizes)

    def datasets(self) -> PeerDatasets:
        """Return the peers' data; without drift the meaning of labels depends on the clusters."""
        if self.drift_every is not None:
            return _drifting(self.num_peers, self.sizes[0], self.drift_every, self.settings.rounds)
        rng = np.random.default_rng(self.settings.seed)
        peers = [
            PeerData(*(classify(rng, number % 2, count) for count in (size, 4, 6)))
            for number, size in enumerate(self.sizes)
        ]
        clusters = self.clusters or [number % 2 for number in range(self.num_peers)]
        order = self.order or range(self.num_peers)
        return PeerArrays([peers[place] for place in order], [clusters[place] for place in order])

    def build(self) -> nn.Module:
        """Return a linear model or one with two layers."""
        return nn.Sequential(nn.Linear(FEATURES, CLASSES)) if self.is_linear else small_module()

    def simulation(self, *, threads: int = 1) -> Simulation:
        """Return a new simulation of this network."""
        return Simulation(self.datasets(), self.build, self.make, self.settings, threads=threads)

    def make(self) -> Any:
        """Return a new strategy; the options were checked when they were drawn."""
        return STRATEGIES[self.strategy](**self.options)


def _drifting(num_peers: int, size: int, every: int, rounds: int) -> Scenario:
    rng = np.random.default_rng(0)
    (points, labels), (tests, answers) = classify(rng, 0, 400), classify(rng, 0, 12)
    data = Dataset("points", points, labels, tests, answers, ("a", "b", "c"))
    concepts = LabelSwapShift(swaps=((), ((0, 1),))).concepts([data], 0)
    peers = PeerSettings(count=num_peers, train_size=size, validation_size=4)
    return Scenario([data], concepts, peers, RandomDrift(every=every), rounds=rounds)


@st.composite
def networks(
    draw: st.DrawFn,
    names: list[str] | None = None,
    *,
    fewest_peers: int = 1,
    most_peers: int = 12,
    drifts: bool = True,
    failures: bool = True,
    **fixed: Any,
) -> Network:
    """Draw a network; `fixed` are settings that are not drawn."""
    num_peers = draw(st.integers(fewest_peers, most_peers))
    name = draw(st.sampled_from(names or sorted(STRATEGIES)))
    drift_every = draw(st.none() | st.integers(1, 3)) if drifts else None
    rounds = draw(st.integers(2, 4))
    drawn = {
        "rounds": rounds,
        "seed": draw(st.integers(0, 99)),
        "schedule": draw(st.sampled_from(["synchronous", "sequential"])),
        "initialisation": draw(st.sampled_from(["common", "independent"])),
        "best": draw(st.sampled_from(["any", "trained"])),
        "best_by": draw(st.sampled_from(["loss", "score", "best-score"])),
        "patience": draw(st.none() | st.integers(1, 3)),
        "network": draw(_failing(num_peers, rounds)) if failures else NetworkSettings(),
        "training": TrainingSettings(epochs=1, learning_rate=0.01),
    }
    return Network(
        strategy=name,
        options=draw(options(name, num_peers)),
        sizes=tuple(draw(st.lists(st.integers(1, 16), min_size=num_peers, max_size=num_peers))),
        settings=SimulationSettings(**{**drawn, **fixed}),
        is_linear=draw(st.booleans()),
        drift_every=drift_every,
    )


@st.composite
def _failing(draw: st.DrawFn, num_peers: int, rounds: int) -> NetworkSettings:
    """Draw who is offline when, and how many messages are lost."""
    absences = []
    for peer in draw(st.sets(st.integers(0, num_peers - 1), max_size=3)):
        first = draw(st.integers(1, rounds))
        absences.append(
            Absence(peer=peer, first_round=first, last_round=draw(st.integers(first, rounds)))
        )
    share = st.sampled_from([0.0, 0.0, 0.3, 1.0])
    return NetworkSettings(
        offline_probability=draw(st.sampled_from([0.0, 0.0, 0.3])),
        offline_trace=tuple(absences),
        loss_probability=draw(share),
    )


@st.composite
def options(draw: st.DrawFn, name: str, num_peers: int) -> dict[str, Any]:
    """Draw options of a strategy that work in a network of this size, by their types."""
    kind = STRATEGIES[name]
    hints = typing.get_type_hints(kind)
    others = num_peers - 1 if issubclass(kind, Strategy) else num_peers
    drawn: dict[str, Any] = {}
    for key in kind().options():
        # Who asks more peers than it fetches from must ask at least as many.
        lowest = drawn.get("fetches", 0) if key == "samples" else 0
        drawn[key] = draw(_values(key, hints[key], lowest, others))
    try:
        made = make_strategy(name, drawn)
        made.check(num_peers)
    except ConfigError:
        reject()
    return made.options()


def _values(key: str, hint: Any, lowest: int, others: int) -> st.SearchStrategy[Any]:
    if typing.get_origin(hint) is Literal:
        return st.sampled_from(typing.get_args(hint))
    if hint is bool:
        return st.booleans()
    if hint is int:
        return st.integers(lowest, others) if key in ASKED else st.integers(1, 3)
    if hint is float:
        return st.floats(0, 1e4) if key == "tau" else st.sampled_from([0.0, 0.3, 1.0])
    if key == "depth":
        return st.sampled_from([1, "classifier"])
    raise AssertionError(f"How shall option {key} of type {hint} be drawn?")


@dataclass(frozen=True)
class Asked:
    """One request of a peer, and its answer."""

    round: int
    peer: int
    request: Request
    answer: Any


@dataclass(frozen=True)
class Merged:
    """One merge: the working model before and after, and the others' models that went in."""

    round: int
    peer: int
    request: Merge
    before: np.ndarray
    after: np.ndarray
    others: dict[int, np.ndarray]


@dataclass
class Watch:
    """Runs a network and takes down every request, answer and merge of its peers."""

    network: Network
    asked: list[Asked] = field(default_factory=list)
    merges: list[Merged] = field(default_factory=list)

    def __post_init__(self) -> None:
        datasets = self.network.datasets()
        self.simulation = Simulation(
            datasets, self.network.build, self._make, self.network.settings, threads=1
        )

    def rounds(self) -> Iterator[Round]:
        """Run round after round."""
        with self.simulation:
            while not self.simulation.finished:
                yield self.simulation.advance()

    def run(self) -> list[Round]:
        """Run to the end."""
        return list(self.rounds())

    @property
    def strategies(self) -> list[Strategy]:
        return self.simulation._runtime.strategies

    def _make(self) -> Any:
        strategy = self.network.make()
        if isinstance(strategy, Strategy):
            plan = strategy.round
            strategy.round = lambda me: self._watched(me, plan(me))
        return strategy

    def _watched(self, me: Me, plan: Plan) -> Plan:
        answer = None
        while True:
            try:
                request = plan.send(answer)
            except StopIteration:
                return
            if isinstance(request, Merge):
                yield from self._merge(me, request)
                answer = None
            else:
                answer = yield request
            self.asked.append(Asked(me.round, me.peer, request, answer))

    def _merge(self, me: Me, request: Merge) -> Plan:
        state, runtime = self.simulation.state, self.simulation._runtime
        before = state.current[me.peer].copy()
        held = runtime._held[me.peer]
        others = {other: held[other].copy() for other in request.weights if other != me.peer}
        yield request
        after = state.current[me.peer].copy()
        self.merges.append(Merged(me.round, me.peer, request, before, after, others))
