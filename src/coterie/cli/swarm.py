"""`coterie swarm`: run an experiment with real peers on this computer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli.console import errors, print_message
from coterie.cli.options import (
    Changes,
    DataRoot,
    Device,
    FirstSeedOrOwn,
    KeepPeers,
    Out,
    OwnPace,
    PeerNetwork,
    Peers,
    Rounds,
    Scale,
    SeedsOrOwn,
    Strategies,
    Trainer,
    collect_changes,
    named_strategies,
    new_folder,
    simulated_only,
)
from coterie.cli.show_run import note_how_to_continue, show_results_after
from coterie.cli.watch import Watch, show_live

if TYPE_CHECKING:
    from coterie.experiments.experiment import Experiment


def swarm(
    preset: Annotated[str, typer.Option(help="The preset to run, see `coterie list`.")] = "digits",
    strategy: Strategies = "kin",
    peers: Peers = 8,
    seed: FirstSeedOrOwn = None,
    seeds: SeedsOrOwn = None,
    rounds: Rounds = None,
    scale: Scale = 1.0,
    change: Changes = None,
    network: PeerNetwork = None,
    own_pace: OwnPace = False,
    keep_peers: KeepPeers = False,
    data_root: DataRoot = None,
    folder: Out = None,
    trainer: Trainer = None,
    device: Device = None,
    live: Watch = False,
) -> None:
    """Run an experiment with real peers: processes on this computer, over an encrypted network."""
    from coterie.experiments.config import check_sizes
    from coterie.experiments.experiment import Experiment
    from coterie.experiments.presets import find_preset
    from coterie.swarm.check_settings import adapt_all_for_real_peers

    labels = named_strategies(simulated_only(strategy, "coterie swarm"))
    chosen = find_preset(preset)
    changes = collect_changes(rounds, peers, data_root, trainer, device, change)
    numbers = chosen.choose_seeds(seed, seeds)
    configs = chosen.runs(labels, numbers, changes, scale=scale)
    configs, notes = adapt_all_for_real_peers(configs, network, own_pace=own_pace)
    check_sizes(configs)
    for note in [*chosen.describe_lowered_options(configs), *notes]:
        print_message(note)
    folder = folder or new_folder(f"{chosen.name}-swarm")
    with note_how_to_continue(folder), show_live(folder, live):
        experiment = Experiment.create(folder, configs)
        run_swarm(experiment, keep_peers=keep_peers)


def run_swarm(experiment: Experiment, *, keep_peers: bool = False) -> None:
    """Run an experiment with real peers, with a table of their progress."""
    from coterie.cli.swarm_progress import SwarmProgress
    from coterie.swarm.run_swarm import execute_by_peers

    preset = experiment.runs[0].config.preset
    with show_results_after(experiment, preset), SwarmProgress(experiment.runs, errors) as display:
        execute = partial(execute_by_peers, show=display.show, keep_peers=keep_peers)
        experiment.run(threads=1, on_end=display.end, tell=display.tell, execute=execute)
