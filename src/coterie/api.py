"""What users import: simulate your own module on your own data, and read recorded runs.

Heavy packages are imported inside the functions, so that `import coterie` and the command line
start fast.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from coterie.errors import ConfigError
from coterie.strategies import DEFAULT_STRATEGY

if TYPE_CHECKING:
    import pyarrow as pa
    from torch import nn

    from coterie.api_arguments import (
        PeerArgument,
        SettingsArgument,
        StrategyArgument,
        TaskArgument,
    )
    from coterie.experiments.run_folder import RunFolder
    from coterie.experiments.run_summary import RunSummary
    from coterie.models.layout import Layout
    from coterie.results.read_runs import Runs
    from coterie.runtime.round import Round


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a simulation: every peer's best model, and the recorded tables."""

    models: npt.NDArray[np.float32]
    """Best models as flat vectors, (K, P)."""
    layout: Layout
    metrics: pa.Table
    """Per round and peer: losses and scores before and after merging, tests, traffic."""
    exchanges: pa.Table
    """Every model sent: round, receiver, sender, kind, bytes, delivered, merge weight."""
    summary: RunSummary
    """Means over clusters and over all peers."""
    frozen_digest: str = ""
    """SHA-256 of what is frozen in the models, such as a backbone; empty if nothing is."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt the results, such as models not clearly better than guessing."""
        return self.summary.warnings

    @property
    def test_score(self) -> npt.NDArray[np.float64]:
        """Each peer's final test score, such as its accuracy, (K,); NaN for poisoned peers."""
        return np.asarray(self.metrics["test_score"].to_numpy()[-len(self.models) :])

    @property
    def test_loss(self) -> npt.NDArray[np.float64]:
        """Each peer's final test loss, (K,); NaN for poisoned peers."""
        return np.asarray(self.metrics["test_loss"].to_numpy()[-len(self.models) :])

    def load_into(self, module: nn.Module, peer: int) -> nn.Module:
        """Load the weights of a peer's best model into a module, and return it.

        The module keeps its own frozen part. It should be that of the run; otherwise there is a
        warning.
        """
        from coterie.experiments.run_folder import load_best_model

        return load_best_model(module, self.models, peer, self.frozen_digest)

    def __repr__(self) -> str:
        rounds, mean = self.metrics["round"][-1].as_py(), self.summary.mean
        reached = f"{self.summary.score.name} {self.summary.score.format(mean)}"
        return (
            f"<Result of {self.summary.label}: peers {len(self.models)}, rounds {rounds}, mean "
            f"test {reached}; see test_score, test_loss, summary, metrics, exchanges, models>"
        )


def simulate(
    build: Callable[[], nn.Module],
    peers: Iterable[PeerArgument],
    strategy: StrategyArgument = DEFAULT_STRATEGY,
    settings: SettingsArgument = None,
    *,
    task: TaskArgument = None,
    clusters: Sequence[int] | None = None,
    threads: int | None = None,
    on_round: Callable[[Round], None] | None = None,
) -> Result:
    """Simulate peers that train on their own data and choose which models they merge.

    Parameters
    ----------
    build
        Returns a new module, with the same layers at each call.
    peers
        The data of each peer.
    strategy
        A name, a dict with a name and options, a strategy, or a function that returns a new
        strategy for each peer.
    settings
        Rounds, training and all other settings; a `SimulationSettings` or a dict.
    task
        What is learned: a `Task`, the name of a loss, or a function that returns one loss per
        sample. By default classes are learned from whole numbers, labels from several targets that
        are 0 or 1, and values from floats.
    clusters
        The true cluster of each peer, (K,), if known. Only yardsticks, such as Oracle, and
        recorded tables use them.
    threads
        Number of threads; None uses all processors. Results do not depend on it.
    on_round
        Called after each round with its `Round`.

    Examples
    --------
    >>> import coterie, numpy as np
    >>> from torch import nn
    >>> rng = np.random.default_rng(0)
    >>> def samples():
    ...     inputs = rng.normal(size=(20, 2)).astype("float32")
    ...     return inputs, (inputs[:, 0] > 0).astype(int)
    >>> peers = [coterie.PeerData(samples(), samples(), samples()) for _ in range(4)]
    >>> dac = {"name": "dac", "fetches": 2}
    >>> build = lambda: nn.Sequential(nn.Linear(2, 2))
    >>> result = coterie.simulate(build, peers, dac, {"rounds": 2}, threads=1)
    >>> result.test_score.shape
    (4,)
    """
    from coterie.api_arguments import (
        check_build,
        check_peers,
        check_settings,
        check_task_argument,
        check_threads,
        strategy_factory,
    )
    from coterie.data.peer_arrays import PeerArrays
    from coterie.experiments.run_summary import summarise
    from coterie.learning.module_calls import integer_check
    from coterie.runtime.loop import run_to_end
    from coterie.runtime.recorder import Recorder
    from coterie.simulation.result_warnings import find_warnings
    from coterie.simulation.simulation import Simulation

    data = check_peers(peers)
    build = check_build(build)
    datasets = PeerArrays(data, clusters, check_task_argument(task), integer_check(build))
    if datasets.held_out:
        print(f"A fifth of the training data is held out for {' and '.join(datasets.held_out)}.")
    make = strategy_factory(strategy)
    recorder = Recorder()
    with Simulation(
        datasets,
        build,
        make,
        check_settings(settings),
        threads=check_threads(threads, os.cpu_count() or 1),
    ) as simulation:
        run_to_end(simulation, recorder, on_round=on_round)
        metrics = recorder.table("metrics")
        return Result(
            models=simulation.best_models(),
            layout=simulation.state.layout,
            metrics=metrics,
            exchanges=recorder.table("exchanges"),
            summary=replace(
                summarise(
                    metrics,
                    make().name,
                    simulation.settings.seed,
                    datasets.cluster_names,
                    datasets.task.score,
                ),
                warnings=find_warnings(simulation, metrics),
            ),
            frozen_digest=simulation.state.build.frozen.digest,
        )


def load_run(path: str | os.PathLike[str]) -> RunFolder:
    """Load one run, finished or not.

    Tables are Arrow tables: `.metrics.to_pandas()` returns a data frame. docs/run-folder.md
    explains the columns.

    Parameters
    ----------
    path
        The folder of the run, or an output folder with a single run.

    Examples
    --------
    >>> import coterie
    >>> run = coterie.load_run("runs/mine/dac-seed0")
    >>> run.label, run.seed, run.metrics.num_rows
    ('dac', 0, 32)
    """
    from coterie.experiments.experiment import Experiment

    folder = Path(path).expanduser()
    runs = Experiment.open(folder).runs
    if len(runs) > 1:
        names = ", ".join(run.folder.name for run in runs[:3])
        raise ConfigError(
            f"{folder} has {len(runs)} runs: {names}{', …' if len(runs) > 3 else ''}. Give one of "
            "these folders, or load all runs with coterie.load_runs."
        )
    return load_runs(folder)[0]


def load_runs(*paths: str | os.PathLike[str]) -> Runs:
    """Load all runs of output folders; `problems` lists those that cannot be read.

    Parameters
    ----------
    *paths
        Output folders, or folders of runs.

    Examples
    --------
    >>> import coterie
    >>> [run.label for run in coterie.load_runs("runs/mine")]
    ['dac', 'local']
    """
    from coterie.results.read_runs import read_runs

    return read_runs([Path(path).expanduser() for path in paths])
