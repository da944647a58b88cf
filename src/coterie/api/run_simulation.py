"""Simulates peers that train a user's own module on their own data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal

from coterie.api.callbacks import (
    Callback,
    LoggerCallback,
    call_all,
    finish_loggers,
    split_callbacks,
)
from coterie.strategies import DEFAULT_STRATEGY

if TYPE_CHECKING:
    from torch import nn

    from coterie.api.arguments import (
        PeerArgument,
        SettingsArgument,
        StrategyArgument,
        TaskArgument,
    )
    from coterie.api.result import Result
    from coterie.loggers.logger import Logger
    from coterie.runtime.round import Round
    from coterie.simulation.any_simulation import AnySimulation


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
    callbacks: Sequence[Callback | Logger] = (),
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    engine: Literal["local", "ray"] = "local",
    address: str | None = None,
    shards: int = 1,
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
    callbacks
        Objects derived from `Callback`, and loggers of `coterie.loggers`.
    out
        A folder for the run: rounds are saved as they finish, and `coterie report`, `compare`,
        `watch` and `load_run` read it.
    resume
        Continue the run in `out`, if there is one, after Ctrl-C or a crash. Give the same
        arguments again.
    engine
        "local" uses this process; "ray" a Ray cluster, with the same results.
    address
        With Ray: HOST:PORT of a cluster, or "auto" for the one this computer belongs to. None
        starts Ray on this computer.
    shards
        With Ray: the number of processes among which the peers are divided. `threads` are those of
        each, by default 1.

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
    from coterie.api.arguments import (
        check_build,
        check_engine,
        check_out,
        check_peers,
        check_settings,
        check_task_argument,
        check_threads,
        strategy_factory,
    )
    from coterie.api.result import Result
    from coterie.data.peer_arrays import PeerArrays
    from coterie.experiments.python_runs import open_folder, python_config, run_to_summary
    from coterie.learning.module_calls import integer_check
    from coterie.models.shared_builder import SharedBuilder
    from coterie.runtime.recorder import Recorder
    from coterie.runtime.run_tables import SCHEMAS
    from coterie.simulation.simulation import Simulation

    data = check_peers(peers)
    build = check_build(build)
    datasets = PeerArrays(data, clusters, check_task_argument(task), integer_check(build))
    if datasets.held_out:
        parts = " and ".join(f"a fifth for {name}" for name in datasets.held_out)
        print(f"Held out of the training data of each peer: {parts}.")
    make, chosen = strategy_factory(strategy), check_settings(settings)
    num_threads = check_threads(threads, os.cpu_count() or 1)
    followers, loggers = split_callbacks(callbacks)
    config = python_config(datasets, make(), chosen)
    folder = check_out(out, resume=resume)
    run = None if folder is None else open_folder(folder, config, resume=resume)
    if run is not None and run.read_summary() is not None:
        return Result.load(run.folder, build)
    name = config.label if run is None else run.folder.name
    logs = [LoggerCallback(each, name, folder, datasets.task.score) for each in loggers]
    recorder = Recorder(folder)
    shared = SharedBuilder.of(build, chosen.seed)
    opened: AbstractContextManager[AnySimulation]
    if check_engine(engine, address, shards) == "local":
        opened = Simulation(datasets, shared, make, chosen, threads=num_threads)
    else:
        from coterie.cluster.object_runs import open_on_ray
        from coterie.cluster.shard_actor import RunParts

        objects = RunParts(datasets, build, make, chosen)
        opened = open_on_ray(objects, address, shards, threads or 1)
    with opened as simulation, finish_loggers(logs):
        for each in (*followers, *logs):
            each.on_start(config.model_dump(mode="json"))
        listen = call_all([*followers, *logs], on_round)
        summary = run_to_summary(simulation, recorder, run, config.label, listen)
        tables = {table: recorder.table(table) for table in SCHEMAS}
        digest = shared.frozen.digest
        result = Result(simulation.best_models(), tables, summary, config, shared, digest)
    for each in followers:
        each.on_end(result)
    return result
